"""Which keys and windows a WHERE clause leaves: read off its comparisons with constants.

What cannot be read off bounds nothing; the condition is evaluated over the rows then, so that a
bound need only be wide enough, never tight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from holdfast.sql.expressions.literals import event_time_ms
from holdfast.sql.expressions.translator import Translator
from holdfast.sql.expressions.type_rules import common_type
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.parse.script import resolve_identifier
from holdfast.sql.plan.aggregate import evaluated
from holdfast.sql.plan.projection import plain_column
from holdfast.sql.read.asked import EVERYTHING, Bounds, Box, Domain, Point
from holdfast.tasks.evaluate.outputs import evaluate_text
from holdfast.types.columns.schema import BIGINT, DOUBLE, Base, SqlType

__all__ = ["bounds_of"]

_WHOLE = (Base.INTEGER, Base.BIGINT)
_ORDERED = (*_WHOLE, Base.STRING)
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE,
    exp.EQ: exp.EQ, exp.NullSafeEQ: exp.NullSafeEQ,
}  # fmt: skip


def bounds_of(node: exp.Expr, rows: Translator, bounded: Mapping[str, SqlType]) -> Bounds:
    """The bounds that a condition puts on the columns `bounded` (by name, with their types).

    Args:
        node: the condition; it has been translated, so its types are right.
        rows: translates expressions over the rows.
    """
    return _Reader(rows, bounded).read(node)


class _Reader:
    def __init__(self, rows: Translator, bounded: Mapping[str, SqlType]) -> None:
        self._rows = rows
        self._bounded = bounded

        self._handlers: dict[type[exp.Expr], Callable[..., Bounds]] = {
            exp.Paren: lambda node: self.read(node.this),
            exp.And: lambda node: self.read(node.this).both(self.read(node.expression)),
            exp.Or: lambda node: self.read(node.this).either(self.read(node.expression)),
            exp.In: self._in,
            exp.Between: self._between,
            **dict.fromkeys(_MIRRORED, self._comparison),
        }

    def read(self, node: exp.Expr) -> Bounds:
        handler = self._handlers.get(type(node))
        return EVERYTHING if handler is None else handler(node)

    def _between(self, node: exp.Between) -> Bounds:
        low = self._compared(exp.GTE, node.this, node.args["low"])
        return low.both(self._compared(exp.LTE, node.this, node.args["high"]))

    def _comparison(self, node: exp.Binary) -> Bounds:
        if self._column(node.this) is not None:
            return self._compared(type(node), node.this, node.expression)
        return self._compared(_MIRRORED[type(node)], node.expression, node.this)

    def _column(self, node: exp.Expr) -> str | None:
        column = plain_column(node)
        name = None if column is None else resolve_identifier(column.this)
        return name if name in self._bounded else None

    def _in(self, node: exp.In) -> Bounds:
        name = self._column(node.this)
        if name is None:
            return EVERYTHING
        wanted = self._bounded[name]
        items = [i for i in node.expressions if not isinstance(i, exp.Null)]
        (_, *given), common = self._rows.coercions.common([node.this, *items])
        if common != wanted:
            return EVERYTHING
        points = [self._point(i, t, wanted) for i, t in zip(items, given, strict=True)]
        if any(p is None for p in points):
            return EVERYTHING
        return _bounds(name, _points([p for p in points if p is not None]))

    def _compared(self, kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> Bounds:
        name = self._column(left)
        if name is None:
            return EVERYTHING
        wanted = self._bounded[name]
        point = self._point(right, self._dated(self._rows.translate(right), wanted), wanted)
        if point is None:
            return EVERYTHING
        if kind in (exp.EQ, exp.NullSafeEQ):
            return _bounds(name, _points([point]))
        if wanted.base not in _ORDERED:
            return EVERYTHING
        return _interval(name, kind, point.value, whole=wanted.base in _WHOLE)

    def _point(self, node: exp.Expr, typed: Typed, wanted: SqlType) -> Point | None:
        """A constant that is compared as a value of the type; None of anything else."""
        if any(node.find_all(exp.Column)):
            return None
        if typed.type is None or common_type((wanted, typed.type)) != wanted:
            return None
        value = _value(self._rows, typed, wanted, node)
        if value is None or (wanted == DOUBLE and (value == 0 or math.isnan(value))):
            return None  # 0.0 equals -0.0, which is another key; NaN equals nothing
        literal = isinstance(node, exp.Literal) and typed.type.base in _ORDERED
        return Point(value, node.meta.get("start") if literal else None)

    def _dated(self, typed: Typed, wanted: SqlType) -> Typed:
        if wanted == BIGINT and typed.type is not None and typed.type.base is Base.STRING:
            moment = event_time_ms(str(typed.constant[0])) if typed.constant else None
            return Typed(BIGINT if moment is not None else None, str(moment), (moment,))
        return typed


def _value(rows: Translator, typed: Typed, wanted: SqlType, node: exp.Expr) -> Any:
    constant = typed.constant[0] if typed.constant else None
    kind = str if wanted.base is Base.STRING else int
    if wanted.base in _ORDERED and type(constant) is kind:
        return constant
    value = rows.made(lambda each: each.coerce(typed, wanted, node))
    assert value is not None
    one_row = {"x": pa.array([0])}
    # What the typed part calls was noted elsewhere.
    made = evaluate_text(evaluated(value).sql, wanted, one_row)
    return made.cast(wanted.arrow())[0].as_py()


def _bounds(name: str, domain: Domain) -> Bounds:
    return Bounds(() if domain.empty else (Box({name: domain}),), exact=True)


def _points(found: list[Point]) -> Domain:
    return Domain({repr(p.value): p for p in found})


def _interval(name: str, kind: type[exp.Expr], value: Any, *, whole: bool) -> Bounds:
    strict = kind in (exp.LT, exp.GT)
    step = 1 if strict and whole else 0
    above = kind in (exp.GT, exp.GTE)
    if step:
        value += step if above else -step
    domain = Domain(low=value) if above else Domain(high=value)
    return Bounds((Box({name: domain}),), exact=whole or not strict)
