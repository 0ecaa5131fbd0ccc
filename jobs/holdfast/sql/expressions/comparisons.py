"""Comparisons and the other predicates: = <> < <= > >=, BETWEEN, IN, LIKE, IS NULL, IS DISTINCT.

None of them is NULL in ksqlDB: a comparison with NULL is false.  `plain` gives the bare operator
(which is NULL then), for places where NULL counts as false; `handlers` give the true value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from holdfast.sql.expressions.literals import event_time_ms
from holdfast.sql.expressions.type_rules import common_type
from holdfast.sql.expressions.typed import Typed, describe
from holdfast.sql.functions.signatures import Call, py
from holdfast.sql.parse.script import start_of
from holdfast.types.columns.schema import BIGINT, BOOLEAN, STRING, Base, SqlType

if TYPE_CHECKING:
    from holdfast.sql.expressions.translator import Translator

__all__ = ["Comparisons"]

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_DISTINCT: dict[type[exp.Expr], str] = {
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
# What the engines match without trying one beginning after the other.
_QUICK = re.compile(r"%*[^%_]*%*|[^%_]*%[^%_]*")
_TIMES = (Base.DATE, Base.TIME, Base.TIMESTAMP)
_EQUAL_ONLY = (Base.BOOLEAN, Base.ARRAY, Base.MAP, Base.STRUCT)
_NAMES = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    "<": "LESS_THAN",
    "<=": "LESS_THAN_OR_EQUAL",
    ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
    "IS DISTINCT FROM": "IS_DISTINCT_FROM",
    "IS NOT DISTINCT FROM": "IS_NOT_DISTINCT_FROM",
}


def _is_quick(pattern: str, escape: str | None) -> bool:
    bare = (
        pattern
        if escape is None
        else re.sub(re.escape(escape) + ".", "x", pattern, flags=re.DOTALL)
    )
    return _QUICK.fullmatch(bare) is not None


class Comparisons:
    """The predicates of one translator."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._script = translator.script
        self._plain: dict[type[exp.Expr], Callable[..., str]] = {
            **dict.fromkeys(_OPERATORS, self._compare),
            **dict.fromkeys(_DISTINCT, self._distinct),
            exp.Between: self._between,
            exp.In: self._in,
            exp.Like: self._like,
            exp.Escape: self._like,
            exp.Is: self._is,
        }
        self.handlers: dict[type[exp.Expr], Callable[..., Typed]] = dict.fromkeys(
            self._plain, self._two_valued
        )

    def plain(self, node: exp.Expr) -> Typed:
        """The predicate as the engine has it: NULL when an operand is."""
        return Typed(BOOLEAN, self._plain[type(node)](node))

    def _two_valued(self, node: exp.Expr) -> Typed:
        text = self._plain[type(node)](node)
        never_null = isinstance(node, (exp.Is, *_DISTINCT))
        return Typed(BOOLEAN, text if never_null else f"coalesce({text}, false)")

    def _compare(self, node: exp.Binary) -> str:
        operator = _OPERATORS[type(node)]
        left, right = self._operands(node.this, node.expression, operator)
        return f"({left} {operator} {right})"

    def _distinct(self, node: exp.Binary) -> str:
        operator = _DISTINCT[type(node)]
        left, right = self._operands(node.this, node.expression, operator)
        if self._translator.engine.name == "Spark SQL":
            same = f"({left} <=> {right})"
            return same if isinstance(node, exp.NullSafeEQ) else f"(NOT {same})"
        return f"({left} {operator} {right})"

    def _between(self, node: exp.Between) -> str:
        low = self._operands(node.this, node.args["low"], ">=")
        high = self._operands(node.this, node.args["high"], "<=")
        return f"({low[0]} >= {low[1]} AND {high[0]} <= {high[1]})"

    def _in(self, node: exp.In) -> str:
        items = [i for i in node.expressions if not isinstance(i, exp.Null)]
        if not items:
            return "false"
        (value, *rest), wanted = self._translator.coercions.common([node.this, *items])
        if wanted is None:  # NULL is in no list
            return "false"
        texts = [self._comparable_text(t.sql, wanted) for t in rest]
        return f"({self._comparable_text(value.sql, wanted)} IN ({', '.join(texts)}))"

    def _like(self, node: exp.Expr) -> str:
        like = node.this if isinstance(node, exp.Escape) else node
        escape: str | None = None
        if isinstance(node, exp.Escape):
            escape = str(node.expression.this)
            if len(escape) != 1:
                raise self._script.invalid(start_of(node), "ESCAPE takes one character")
        value = self._translator.translate(like.this)
        pattern = self._translator.translate(like.expression)
        for side in (value, pattern):
            if side.type not in (STRING, None):
                raise self._script.invalid(
                    start_of(like),
                    f"LIKE compares STRING, not {describe(side.type)}. The column type for Like "
                    f"condition must be VARCHAR. The column type is {describe(side.type)}",
                )
        quick = pattern.constant and _is_quick(str(pattern.constant[0]), escape)
        self._translator.notes.changed |= not quick
        if quick or self._translator.released:
            return self._translator.engine.like(value.sql, pattern.sql, escape)
        args = [value, pattern]
        if escape is not None:
            args.append(Typed(STRING, self._translator.engine.string(escape)))
        translator = self._translator
        call = Call(translator.engine, tuple(args), BOOLEAN, notes=translator.notes)
        return py("LIKE")(call)

    def _is(self, node: exp.Is) -> str:
        return self.is_null(node, negated=False).sql

    def is_null(self, node: exp.Is, *, negated: bool) -> Typed:
        """IS NULL, or IS NOT NULL (which sqlglot gives as NOT over IS)."""
        if not isinstance(node.expression, exp.Null):
            raise self._script.invalid(
                start_of(node), "IS is followed by [NOT] NULL or [NOT] DISTINCT FROM"
            )
        operand = self._translator.translate(node.this).sql
        return Typed(BOOLEAN, f"({operand} IS {'NOT ' if negated else ''}NULL)")

    def _operands(self, left_node: exp.Expr, right_node: exp.Expr, kind: str) -> tuple[str, str]:
        left = self._translator.translate(left_node)
        right = self._translator.translate(right_node)
        left, right = self._dated(left, right, left_node), self._dated(right, left, right_node)
        if left.type is None or right.type is None:
            said = self._statement(left_node, kind, right_node)
            raise self._with_null(left, right, left_node, kind, said)
        wanted = _comparable(left.type, right.type, kind)
        if wanted is None:
            sides = zip((left_node, right_node), (left.type, right.type), strict=True)
            shown = [f"{self._script.excerpt(n)} ({describe(t)})" for n, t in sides]
            raise self._script.invalid(
                start_of(left_node),
                f"Cannot compare {shown[0]} to {shown[1]} with {_NAMES[kind]}.\n"
                + self._statement(left_node, kind, right_node),
                action="use CAST",
            )
        left = self._translator.coerce(left, wanted, left_node)
        right = self._translator.coerce(right, wanted, right_node)
        return self._comparable_text(left.sql, wanted), self._comparable_text(right.sql, wanted)

    def _statement(self, left: exp.Expr, kind: str, right: exp.Expr) -> str:
        return f"Statement: ({self._script.excerpt(left)} {kind} {self._script.excerpt(right)})"

    def _with_null(
        self, left: Typed, right: Typed, node: exp.Expr, kind: str, said: str
    ) -> Exception:
        sides = ["NULL" if t.type is None else t.type.base for t in (left, right)]
        return self._script.invalid(
            start_of(node),
            f"Comparison with NULL not supported: {sides[0]} {kind} {sides[1]}\n"
            f"Use 'IS NULL' or 'IS NOT NULL' instead.\n{said}",
        )

    def _comparable_text(self, sql: str, sql_type: SqlType) -> str:
        """Maps are equal when they have the same entries, in whatever order."""
        return self._translator.engine.sorted_entries(sql) if sql_type.base is Base.MAP else sql

    def _dated(self, side: Typed, other: Typed, at: exp.Expr) -> Typed:
        """A date string that is compared with an event time, as milliseconds."""
        if not other.event_time or side.type != STRING or not side.constant:
            return side
        moment = event_time_ms(str(side.constant[0]))
        if moment is None:
            raise self._script.invalid(
                start_of(at),
                f"Failed to parse timestamp '{side.constant[0]}'",
                action="write it like '2024-01-31' or '2024-01-31T10:00:00'",
            )
        return Typed(BIGINT, str(moment))


def _comparable(left: SqlType, right: SqlType, kind: str) -> SqlType | None:
    """The type in which ksqlDB compares the two, None if it does not."""
    if left.numeric and right.numeric:
        return common_type((left, right))
    if left.base in _EQUAL_ONLY:
        equality = kind in ("=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
        return common_type((left, right)) if equality and left.base is right.base else None
    if left == right:
        return left
    bases = {left.base, right.base}
    if bases == {Base.DATE, Base.TIMESTAMP}:
        return SqlType(Base.TIMESTAMP)
    if Base.STRING in bases:
        return next((t for t in (left, right) if t.base in _TIMES), None)
    return None
