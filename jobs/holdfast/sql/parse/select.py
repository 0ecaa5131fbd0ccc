"""The grammar of SELECT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from holdfast.sql.parse.clauses import JoinClause, Name, Select, SelectItem
from holdfast.sql.parse.dialect import Kind
from holdfast.sql.parse.script import did_you_mean, resolve_identifier
from holdfast.sql.parse.windows import WindowParser
from holdfast.types.statements.topology import JoinKind

__all__ = ["SelectParser"]

_CLAUSES = ("WINDOW", "WHERE", "GROUP BY", "PARTITION BY", "HAVING", "EMIT")
_CLAUSE_WORDS = ("WINDOW", "WHERE", "GROUP", "PARTITION", "HAVING", "EMIT")
_JOIN_KINDS = {"INNER": JoinKind.INNER, "LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT,
               "FULL": JoinKind.FULL}  # fmt: skip


class SelectParser(WindowParser):
    """SELECT items FROM source [JOIN …] and the clauses after it, in ksqlDB's order."""

    def parse_select(self) -> Select:
        """A SELECT without LIMIT."""
        start = self.token
        if not self.take("SELECT"):
            self.fail(f"expected SELECT but found {self.found()}")
        if self.at("DISTINCT"):
            self.fail("ksqlDB has no SELECT DISTINCT\ngroup by the columns instead")
        items = tuple(self.listed(self._item))
        if not self.take("FROM"):
            self.fail_expected("FROM", ["FROM", "AS"])
        source, alias = self._relation()
        joins = self._joins()
        select = Select(
            items=items,
            source=source,
            source_alias=alias,
            window=self.parse_window(),
            where=self._condition("WHERE"),
            group_by=self._keys("GROUP") or (),
            partition_by=self._keys("PARTITION"),
            having=self._condition("HAVING"),
            at=start.start,
            joins=joins,
        )
        changes, final = self._emit()
        select = replace(select, changes=changes, final=final)
        self._refuse_more()
        self._check_qualifiers(select)
        return select

    def _check_qualifiers(self, select: Select) -> None:
        """Refuse `x.column` and `x.*` where FROM and JOIN name no x."""
        names = {select.source, *(j.source for j in select.joins)}
        aliases = {select.source_alias, *(j.alias for j in select.joins)} - {None}
        known = {n.text for n in names | aliases if n is not None}
        stars = [i.qualifier for i in select.items if i.qualifier is not None]
        for name in [*stars, *_qualifiers(select)]:
            if name.text not in known:
                self.refuse(
                    f"'{name.text}' is not a valid stream/table name or alias."
                    f"\n{did_you_mean(name.text, known)}",
                    name.at,
                )

    def _item(self) -> SelectItem:
        at = self.token.start
        if self.take("*"):
            return SelectItem(None, None, at)
        if self.at_name() and self.ahead(1).upper == ".":
            star = self._qualified_star()
            if star is not None:
                return star
        if self.at("FROM"):
            self.fail(f"expected a column or an expression but found {self.found()}")
        node = self.parse_expression("a column or an expression")
        if self.take("->", "*"):
            return SelectItem(exp.Dot(this=node, expression=exp.Star()), None, at)
        return SelectItem(node, self._alias(), at)

    def _qualified_star(self) -> SelectItem | None:
        if self.ahead(2).upper != "*":
            return None
        name = self.name("the name of a stream or table")
        self.take(".", "*")
        return SelectItem(None, None, name.at, name)

    def _alias(self) -> Name | None:
        if self.take("AS"):
            return self.name("an alias")
        following = self.ahead(1)
        emit = following.kind is Kind.WORD and following.upper not in _CLAUSE_WORDS
        clause = self.at("PARTITION", "BY") or self.at("ORDER", "BY")
        if (self.at("EMIT") and emit) or clause or not self.at_name():
            return None
        return self.name("an alias")

    def _relation(self) -> tuple[Name, Name | None]:
        source = self.source_name("the name of a stream or table")
        if self.at("("):
            self.fail("FROM takes a stream or table, not a function")
        return source, self._alias()

    def source_name(self, what: str) -> Name:
        """A stream's or table's name: letters, digits, _ and -."""
        name = self.name(what)
        if not name.text.replace("_", "").replace("-", "").isalnum() or not name.text.isascii():
            self.refuse(
                "Illegal argument: Source names may only contain alphanumeric values, '_' or '-'. "
                f"Got: '{name.text}'",
                name.at,
            )
        return name

    def _joins(self) -> tuple[JoinClause, ...]:
        joins: list[JoinClause] = []
        while self.token.upper in (*_JOIN_KINDS, "JOIN") and self.token.kind is Kind.WORD:
            joins.append(self._join())
        if self.at(","):
            self.fail("FROM takes one source\njoin a second one with JOIN ... ON ...")
        return tuple(joins)

    def _join(self) -> JoinClause:
        at = self.token.start
        kind = _JOIN_KINDS.get(self.token.upper)
        if kind is not None:
            self.advance()
            if kind is not JoinKind.INNER:
                self.take("OUTER")
        if not self.take("JOIN"):
            self.fail_expected("JOIN", ["JOIN"])
        source, alias = self._relation()
        within = self.parse_within()
        if not self.take("ON"):
            self.fail_expected("ON and the join condition", ["ON"])
        on = self.parse_expression("a join condition")
        return JoinClause(kind or JoinKind.INNER, source, alias, within, on, at)

    def _condition(self, clause: str) -> exp.Expr | None:
        return self.parse_expression("a condition") if self.take(clause) else None

    def _keys(self, clause: str) -> tuple[exp.Expr, ...] | None:
        """GROUP BY / PARTITION BY a, b or (a, b); without predicates, as in the grammar."""
        if not self.take(clause, "BY"):
            return None
        if not self._at_tuple():
            return tuple(self.listed(self.parse_value))
        self.expect("(")
        if self.at(")"):
            self.refuse(f"{clause} BY requires at least one expression", self.token.start)
        keys = self.listed(self.parse_value)
        if not self.take(")"):
            self.fail_unclosed()
        return tuple(keys)

    def _at_tuple(self) -> bool:
        """Whether the next ( opens a list: it is empty, or has a comma of its own."""
        if not self.at("("):
            return False
        depth = 0
        for token in self._tokens[self._index :]:
            depth += {"(": 1, ")": -1}.get(token.upper, 0)
            if depth == 0 or (depth == 1 and token.upper == ","):
                return token.upper == "," or self.at("(", ")")
        return False

    def _emit(self) -> tuple[bool, bool]:
        """Whether EMIT CHANGES, or EMIT FINAL, is written."""
        if not self.take("EMIT"):
            return False, False
        final = self.take("FINAL")
        if not final and not self.take("CHANGES"):
            self.fail_expected("CHANGES after EMIT", ["CHANGES", "FINAL"])
        return not final, final

    def _refuse_more(self) -> None:
        if self.token.upper in _CLAUSE_WORDS and self.token.kind is Kind.WORD:
            self.fail(
                f"{self.token.upper} is out of place\n"
                f"the clauses follow FROM in this order: {', '.join(_CLAUSES)}"
            )


def _qualifiers(select: Select) -> Iterator[Name]:
    """The sources that columns are written with, in the statement's order."""
    nodes = [i.expression for i in select.items]
    nodes += [j.on for j in select.joins]
    nodes += [select.where, *select.group_by, *(select.partition_by or ()), select.having]
    for node in nodes:
        for column in () if node is None else node.find_all(exp.Column, bfs=False):
            table = column.args.get("table")
            if table is not None:
                yield Name(resolve_identifier(table), table.meta["start"])
