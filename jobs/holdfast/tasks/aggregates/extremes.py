"""MIN and MAX; doubles are compared by `Double.compare`, as in ksqlDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.base import (
    Aggregate,
    AggregateFunction,
    Literal,
    Partial,
    not_accepted,
)
from holdfast.tasks.evaluate.doubles import is_double, of_ranks, ranks_of
from holdfast.tasks.pack.folds import FOLDED, Fold, Folding
from holdfast.types.schema import Base, SqlType
from holdfast.types.topology import AggregateCall

__all__ = ["Max", "Min"]

_ORDERED = (
    Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.DECIMAL, Base.STRING,
    Base.BYTES, Base.DATE, Base.TIME, Base.TIMESTAMP,
)  # fmt: skip


class _ExtremeCall(Aggregate):
    def __init__(
        self, call: AggregateCall, fold: Fold | None, name: str, pick: Callable[..., pa.Array]
    ) -> None:
        self._type = call.type.arrow()
        double = call.type.base is Base.DOUBLE
        spark = (_double_sql if double else _plain_sql)(name.lower(), call.args[0].sql)
        self._partials = (Partial(spark, self._type, fold),)
        self._pick = pick

    @property
    def partials(self) -> tuple[Partial, ...]:
        return self._partials

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (self._type,)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        if is_double(self._type):
            found = self._pick(ranks_of(old[0]), ranks_of(partial[0]), skip_nulls=True)
            doubles = of_ranks(found.fill_null(0).to_numpy(zero_copy_only=False))
            return (pc.if_else(found.is_valid(), pa.array(doubles), None),)
        if not pa.types.is_timestamp(self._type):
            return (self._pick(old[0], partial[0], skip_nulls=True),)
        # Arrow does not compare times that have a zone.
        first, second = old[0].cast(pa.int64()), partial[0].cast(pa.int64())
        return (self._pick(first, second, skip_nulls=True).cast(self._type),)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return state[0]


def _plain_sql(function: str, argument: str) -> str:
    return f"{function}({argument})"


def _double_sql(function: str, argument: str) -> str:
    """Spark SQL that tells -0.0 from 0.0 by their texts; Spark itself treats them as equal.

    Spark's optimizer also merges a CASE over these two literals; multiplying by the sign avoids it.
    """
    extreme = f"{function}({argument})"
    above = f"CAST({argument} AS STRING) = '0.0'"
    positive = f"{function}(CASE WHEN ({argument}) = 0D THEN {above} END)"
    zero = f"abs({extreme}) * CASE WHEN {positive} THEN 1D ELSE -1D END"
    return f"CASE WHEN {extreme} = 0D THEN {zero} ELSE {extreme} END"


class _Extreme(AggregateFunction):
    plain = True
    folding: Folding

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals or args[0].base not in _ORDERED:
            raise not_accepted(self.name, args, literals)
        return args[0]

    def folds(self, call: AggregateCall) -> tuple[Fold | None]:
        return (Fold(self.folding, call.args[0]) if call.type.base in FOLDED else None,)


class Min(_Extreme):
    """The smallest value that is not null."""

    name = "MIN"
    folding = Folding.MIN

    def bind(self, call: AggregateCall) -> Aggregate:
        return _ExtremeCall(call, *self.folds(call), self.name, pc.min_element_wise)


class Max(_Extreme):
    """The largest value that is not null."""

    name = "MAX"
    folding = Folding.MAX

    def bind(self, call: AggregateCall) -> Aggregate:
        return _ExtremeCall(call, *self.folds(call), self.name, pc.max_element_wise)
