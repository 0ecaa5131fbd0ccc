"""The grammar of lengths of time: WINDOW of an aggregation and WITHIN of a join."""

from __future__ import annotations

from holdfast.sql.parse.clauses import WindowClause, Within
from holdfast.sql.parse.dialect import Kind
from holdfast.sql.parse.expressions import ExpressionParser
from holdfast.sql.parse.units import UNITS_MS
from holdfast.types.statements.topology import WindowKind

__all__ = ["WindowParser"]

_FIRST = {"TUMBLING": "SIZE", "HOPPING": "SIZE", "SESSION": "GAP"}


class WindowParser(ExpressionParser):
    """WINDOW TUMBLING, HOPPING or SESSION, and WITHIN."""

    def parse_within(self) -> Within | None:
        """WITHIN 1 HOUR or WITHIN (1 HOUR, 2 HOURS), [GRACE PERIOD 1 MINUTE]; None without it."""
        at = self.token.start
        if not self.take("WITHIN"):
            return None
        if self.take("("):
            before = self.parse_duration("WITHIN")
            self.expect(",")
            after = self.parse_duration("WITHIN")
            self.expect(")")
        else:
            before = after = self.parse_duration("WITHIN")
        grace = self.parse_duration("GRACE PERIOD") if self.take("GRACE", "PERIOD") else None
        return Within(before, after, grace, at)

    def parse_window(self) -> WindowClause | None:
        """The WINDOW clause; None without it."""
        if not self.take("WINDOW"):
            return None
        if self.token.upper not in _FIRST and self.ahead(1).upper in _FIRST:
            self.advance()  # the grammar lets a window have a name, which means nothing
        token = self.token
        if token.upper not in _FIRST:
            self.fail_expected("TUMBLING, HOPPING or SESSION after WINDOW", list(_FIRST))
        self.advance()
        self.expect("(")
        lengths = self._lengths(token.upper)
        if not self.take(")"):
            self.fail(f"expected , or ) but found {self.found()}")
        return self._window(WindowKind(token.upper), lengths, token.start)

    def _window(self, kind: WindowKind, lengths: dict[str, int], at: int) -> WindowClause:
        first = _FIRST[kind]
        for word in (first, "ADVANCE BY") if kind is WindowKind.HOPPING else (first,):
            if word not in lengths:
                self.refuse(f"WINDOW {kind} needs {word}, for example {word} 1 HOUR", at)
        return WindowClause(
            kind=kind,
            size_ms=lengths[first],
            advance_ms=lengths.get("ADVANCE BY", lengths[first]),
            grace_ms=lengths.get("GRACE PERIOD"),
            retention_ms=lengths.get("RETENTION"),
            at=at,
        )

    def _lengths(self, kind: str) -> dict[str, int]:
        words = {"RETENTION": ("RETENTION",), "GRACE PERIOD": ("GRACE", "PERIOD")}
        lengths: dict[str, int] = {}
        if kind == "SESSION":
            lengths["GAP"] = self.parse_duration("the inactivity gap")
        else:
            words["SIZE"] = ("SIZE",)
        if kind == "HOPPING":
            words["ADVANCE BY"] = ("ADVANCE", "BY")
        while not lengths or self.take(","):
            found = next((w for w, texts in words.items() if self.take(*texts)), None)
            if found is None:
                self.fail_expected(" or ".join(words), [*words, "GRACE", "ADVANCE"])
            if found in lengths:
                self.fail(f"{found} appears twice")
            lengths[found] = self.parse_duration(found)
        return lengths

    def parse_duration(self, what: str) -> int:
        """A number and a unit, in ms; `what` it is for, in messages."""
        negative = self.take("-")
        number = self.whole_number(what)
        unit = self.token.upper.removesuffix("S") if self.token.kind is Kind.WORD else ""
        if unit not in UNITS_MS:
            units = [*UNITS_MS, *(f"{u}S" for u in UNITS_MS)]
            self.fail_expected(f"a unit of time ({', '.join(UNITS_MS)})", units)
        self.advance()
        return (-number if negative else number) * UNITS_MS[unit]
