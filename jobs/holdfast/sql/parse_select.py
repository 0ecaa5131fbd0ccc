"""The grammar of SELECT in a persistent query."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import TokenType, exp

from holdfast.sql.dialect import ExpressionParser, MisplacedError
from holdfast.sql.later import CLAUSES, Later
from holdfast.sql.script import did_you_mean
from holdfast.sql.statements import Name, Select, SelectItem, WindowClause
from holdfast.types.topology import WindowKind

__all__ = ["UNITS_MS", "SelectParser"]

UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}
_CLAUSES = ("WINDOW", "WHERE", "GROUP BY", "PARTITION BY", "HAVING", "EMIT", "LIMIT")
_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "OUTER")
_WINDOW_KINDS = ("TUMBLING", "HOPPING", "SESSION")
_ENDS = {word for clause in _CLAUSES for word in (clause, clause.split()[0])} | {"FROM"}
_STOPS = _ENDS | set(_JOINS)


class SelectParser(ExpressionParser):
    """SELECT items FROM source [WINDOW] [WHERE] [GROUP BY] [PARTITION BY] [HAVING] [EMIT]."""

    def raise_later(self, later: Later) -> NoReturn:
        """Refuse, at the current token, something that comes later."""
        token = self._curr if self._index < self._tokens_size else self._prev
        raise MisplacedError(f"{later.fact}\n{later.action}", token.start, unsupported=True)

    def parse_select(self) -> Select:
        start = self._curr
        if not self._match_text_seq("SELECT"):
            self.raise_error(f"expected SELECT after AS but found {self._found()}")
        if self._match(TokenType.DISTINCT, advance=False):
            self.raise_error("ksqlDB has no SELECT DISTINCT\ngroup by the columns instead")
        items = [self._parse_item()]
        while self._match(TokenType.COMMA):
            items.append(self._parse_item())
        if not self._match(TokenType.FROM):
            self._raise_expected("FROM", ["FROM", "AS"])
        source = self._parse_source_name()
        alias = self._parse_source_alias()
        if self._curr.text.upper() in _JOINS or self._match(TokenType.COMMA, advance=False):
            self.raise_later(CLAUSES["JOIN"])
        select = Select(
            items=tuple(items),
            source=source,
            source_alias=alias,
            window=self._optional_window(),
            where=self._optional_condition(TokenType.WHERE),
            group_by=self._parse_keys(TokenType.GROUP_BY) or (),
            partition_by=self._parse_keys(TokenType.PARTITION_BY),
            having=self._optional_condition(TokenType.HAVING),
            at=start.start,
        )
        self._parse_emit()
        return select

    def _raise_expected(self, wanted: str, known: list[str]) -> NoReturn:
        hint = did_you_mean(self._curr.text, known)
        self.raise_error(f"expected {wanted} but found {self._found()}\n{hint}")
        raise AssertionError("unreachable")

    def _parse_item(self) -> SelectItem:
        at = self._curr.start
        if self._match(TokenType.STAR):
            return SelectItem(None, None, at)
        if self._curr.text.upper() in _ENDS and self._curr.token_type is not TokenType.IDENTIFIER:
            self.raise_error(f"expected a column or an expression but found {self._found()}")
        node = self._require_expression("a column or an expression")
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            table = node.args["table"]
            name = table.this if table.args.get("quoted") else table.this.upper()
            return SelectItem(None, None, at, Name(name, at))
        return SelectItem(node, self._parse_item_alias(), at)

    def _require_expression(self, what: str) -> exp.Expr:
        node = self._parse_disjunction()
        if node is None:
            self.raise_error(f"expected {what} but found {self._found()}")
        assert isinstance(node, exp.Expr)
        return node

    def _parse_item_alias(self) -> Name | None:
        at = self._curr.start
        if self._match(TokenType.ALIAS):
            at = self._curr.start
            return Name(self._parse_resolved_name("an alias"), at)
        return self._parse_bare_alias(at)

    def _parse_bare_alias(self, at: int) -> Name | None:
        token = self._curr
        names = (TokenType.IDENTIFIER, TokenType.VAR)
        stop = token.token_type is TokenType.VAR and token.text.upper() in _STOPS
        if self._index >= self._tokens_size or token.token_type not in names or stop:
            return None
        return Name(self._parse_resolved_name("an alias"), at)

    def _parse_source_name(self) -> Name:
        at = self._curr.start
        return Name(self._parse_resolved_name("the name of a stream or table"), at)

    def _parse_source_alias(self) -> Name | None:
        at = self._curr.start
        if self._match(TokenType.ALIAS):
            at = self._curr.start
            return Name(self._parse_resolved_name("an alias"), at)
        return self._parse_bare_alias(at)

    def _optional_condition(self, clause: TokenType) -> exp.Expr | None:
        if not self._match(clause):
            return None
        return self._require_expression("a condition")

    def _parse_keys(self, clause: TokenType) -> tuple[exp.Expr, ...] | None:
        if not self._match(clause):
            return None
        keys = [self._require_expression("an expression")]
        while self._match(TokenType.COMMA):
            keys.append(self._require_expression("an expression"))
        if len(keys) == 1 and isinstance(keys[0], exp.Tuple):
            return tuple(keys[0].expressions)
        return tuple(k.this if isinstance(k, exp.Paren) else k for k in keys)

    def _parse_emit(self) -> None:
        if self._match_text_seq("EMIT"):
            if self._match_text_seq("FINAL", advance=False):
                self.raise_later(CLAUSES["FINAL"])
            if not self._match_text_seq("CHANGES"):
                self._raise_expected("CHANGES after EMIT", ["CHANGES", "FINAL"])
        if self._match(TokenType.LIMIT, advance=False):
            self.raise_later(CLAUSES["LIMIT"])
        done = self._index >= self._tokens_size or self._curr.token_type is TokenType.SEMICOLON
        if not done and self._curr.text.upper() in (*_CLAUSES, "GROUP", "PARTITION"):
            self.raise_error(
                f"{self._curr.text.upper()} is out of place\n"
                f"the clauses follow FROM in this order: {', '.join(_CLAUSES[:-1])}"
            )

    def _optional_window(self) -> WindowClause | None:
        if not self._match(TokenType.WINDOW):
            return None
        token = self._curr
        kind = token.text.upper()
        if kind == "SESSION":
            self.raise_later(CLAUSES["SESSION"])
        if kind not in _WINDOW_KINDS:
            self._raise_expected("TUMBLING or HOPPING after WINDOW", list(_WINDOW_KINDS))
        self._advance()
        self._expect(TokenType.L_PAREN, "(")
        lengths = self._parse_window_lengths(kind)
        self._expect(TokenType.R_PAREN, ", or )")
        return self._window(WindowKind(kind), lengths, token.start)

    def _window(self, kind: WindowKind, lengths: dict[str, int], at: int) -> WindowClause:
        for word in ("SIZE", "ADVANCE BY") if kind is WindowKind.HOPPING else ("SIZE",):
            if word not in lengths:
                raise MisplacedError(f"WINDOW {kind} needs {word}, for example {word} 1 HOUR", at)
        return WindowClause(
            kind=kind,
            size_ms=lengths["SIZE"],
            advance_ms=lengths.get("ADVANCE BY", lengths["SIZE"]),
            grace_ms=lengths.get("GRACE PERIOD"),
            retention_ms=lengths.get("RETENTION"),
            at=at,
        )

    def _parse_window_lengths(self, kind: str) -> dict[str, int]:
        words = {
            "SIZE": ("SIZE",),
            "RETENTION": ("RETENTION",),
            "GRACE PERIOD": ("GRACE", "PERIOD"),
        }
        if kind == "HOPPING":
            words["ADVANCE BY"] = ("ADVANCE", "BY")
        lengths: dict[str, int] = {}
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
