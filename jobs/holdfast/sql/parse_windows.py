"""The grammar of lengths of time: WINDOW of an aggregation and WITHIN of a join."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import TokenType

from holdfast.sql.dialect import ExpressionParser, MisplacedError
from holdfast.sql.script import did_you_mean
from holdfast.sql.statements import WindowClause, Within
from holdfast.types.topology import WindowKind

__all__ = ["UNITS_MS", "WindowParser"]

UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}
_FIRST = {"TUMBLING": "SIZE", "HOPPING": "SIZE", "SESSION": "GAP"}


class WindowParser(ExpressionParser):
    """WINDOW TUMBLING, HOPPING or SESSION, and WITHIN."""

    def _raise_expected(self, wanted: str, known: list[str]) -> NoReturn:
        hint = did_you_mean(self._curr.text, known)
        self.raise_error(f"expected {wanted} but found {self._found()}\n{hint}")
        raise AssertionError("unreachable")

    def parse_within(self) -> Within | None:
        """WITHIN 1 HOUR or WITHIN (1 HOUR, 2 HOURS), [GRACE PERIOD 1 MINUTE]; None without it."""
        at = self._curr.start
        if not self._match_text_seq("WITHIN"):
            return None
        if self._match(TokenType.L_PAREN):
            before = self._parse_duration("WITHIN")
            self._expect(TokenType.COMMA, ",")
            after = self._parse_duration("WITHIN")
            self._expect(TokenType.R_PAREN, ")")
        else:
            before = after = self._parse_duration("WITHIN")
        named = self._match_text_seq("GRACE", "PERIOD")
        grace = self._parse_duration("GRACE PERIOD") if named else None
        return Within(before, after, grace, at)

    def parse_window(self) -> WindowClause | None:
        """The WINDOW clause; None without it."""
        if not self._match(TokenType.WINDOW):
            return None
        token = self._curr
        kind = token.text.upper()
        if kind not in _FIRST:
            self._raise_expected("TUMBLING, HOPPING or SESSION after WINDOW", list(_FIRST))
        self._advance()
        self._expect(TokenType.L_PAREN, "(")
        lengths = self._parse_window_lengths(kind)
        self._expect(TokenType.R_PAREN, ", or )")
        return self._window(WindowKind(kind), lengths, token.start)

    def _window(self, kind: WindowKind, lengths: dict[str, int], at: int) -> WindowClause:
        first = _FIRST[kind]
        for word in (first, "ADVANCE BY") if kind is WindowKind.HOPPING else (first,):
            if word not in lengths:
                raise MisplacedError(f"WINDOW {kind} needs {word}, for example {word} 1 HOUR", at)
        return WindowClause(
            kind=kind,
            size_ms=lengths[first],
            advance_ms=lengths.get("ADVANCE BY", lengths[first]),
            grace_ms=lengths.get("GRACE PERIOD"),
            retention_ms=lengths.get("RETENTION"),
            at=at,
        )

    def _parse_window_lengths(self, kind: str) -> dict[str, int]:
        words = {"RETENTION": ("RETENTION",), "GRACE PERIOD": ("GRACE", "PERIOD")}
        lengths: dict[str, int] = {}
        if kind == "SESSION":
            lengths["GAP"] = self._parse_duration("the inactivity gap")
        else:
            words["SIZE"] = ("SIZE",)
        if kind == "HOPPING":
            words["ADVANCE BY"] = ("ADVANCE", "BY")
        while not lengths or self._match(TokenType.COMMA):
            found = next((w for w, texts in words.items() if self._match_text_seq(*texts)), None)
            if found is None:
                self._raise_expected(" or ".join(words), [*words, "GRACE", "ADVANCE"])
            if found in lengths:
                self.raise_error(f"{found} appears twice", self._prev)
            lengths[found] = self._parse_duration(found)
        return lengths

    def _parse_duration(self, what: str) -> int:
        number = self._parse_whole_number(what)
        unit = self._curr.text.upper()
        if unit.removesuffix("S") not in UNITS_MS:
            units = [*UNITS_MS, *(f"{u}S" for u in UNITS_MS)]
            self._raise_expected(f"a unit of time ({', '.join(UNITS_MS)})", units)
        self._advance()
        return number * UNITS_MS[unit.removesuffix("S")]
