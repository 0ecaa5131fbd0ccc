"""The grammar of SELECT in a persistent query."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import TokenType, exp

from holdfast.sql.dialect import MisplacedError
from holdfast.sql.later import CLAUSES, Later
from holdfast.sql.parse_windows import WindowParser
from holdfast.sql.statements import JoinClause, Name, Select, SelectItem
from holdfast.types.topology import JoinKind

__all__ = ["SelectParser"]

_CLAUSES = ("WINDOW", "WHERE", "GROUP BY", "PARTITION BY", "HAVING", "EMIT", "LIMIT")
_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "OUTER")
_JOIN_KINDS = {"INNER": JoinKind.INNER, "LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT,
               "FULL": JoinKind.FULL}  # fmt: skip
_ENDS = {word for clause in _CLAUSES for word in (clause, clause.split()[0])} | {"FROM"}
_STOPS = _ENDS | set(_JOINS) | {"ON", "WITHIN"}


class SelectParser(WindowParser):
    """SELECT items FROM source [JOIN …] and the clauses after it, in ksqlDB's order."""

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
        joins = self._parse_join_clauses()
        select = Select(
            items=tuple(items),
            source=source,
            source_alias=alias,
            window=self.parse_window(),
            where=self._optional_condition(TokenType.WHERE),
            group_by=self._parse_keys(TokenType.GROUP_BY) or (),
            partition_by=self._parse_keys(TokenType.PARTITION_BY),
            having=self._optional_condition(TokenType.HAVING),
            at=start.start,
            joins=joins,
            final=self._parse_final(),
        )
        self._refuse_more()
        return select

    def _parse_join_clauses(self) -> tuple[JoinClause, ...]:
        joins: list[JoinClause] = []
        while self._curr.text.upper() in _JOINS:
            joins.append(self._parse_join_clause())
        if self._match(TokenType.COMMA, advance=False):
            self.raise_error("FROM takes one source\njoin a second one with JOIN ... ON ...")
        return tuple(joins)

    def _parse_join_clause(self) -> JoinClause:
        at = self._curr.start
        kind = _JOIN_KINDS.get(self._curr.text.upper())
        if kind is not None:
            self._advance()
            if kind is not JoinKind.INNER:
                self._match_text_seq("OUTER")
        if not self._match_text_seq("JOIN"):
            self._raise_expected("JOIN", ["JOIN"])
        source, alias = self._parse_source_name(), self._parse_source_alias()
        within = self.parse_within()
        if not self._match_text_seq("ON"):
            self._raise_expected("ON and the join condition", ["ON"])
        on = self._require_expression("a join condition")
        return JoinClause(kind or JoinKind.INNER, source, alias, within, on, at)

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

    def _parse_final(self) -> bool:
        if not self._match_text_seq("EMIT"):
            return False
        final = self._match_text_seq("FINAL") is True
        if not final and not self._match_text_seq("CHANGES"):
            self._raise_expected("CHANGES after EMIT", ["CHANGES", "FINAL"])
        return final

    def _refuse_more(self) -> None:
        if self._match(TokenType.LIMIT, advance=False):
            self.raise_later(CLAUSES["LIMIT"])
        done = self._index >= self._tokens_size or self._curr.token_type is TokenType.SEMICOLON
        if not done and self._curr.text.upper() in (*_CLAUSES, "GROUP", "PARTITION"):
            self.raise_error(
                f"{self._curr.text.upper()} is out of place\n"
                f"the clauses follow FROM in this order: {', '.join(_CLAUSES[:-1])}"
            )
