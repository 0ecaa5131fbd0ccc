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
from holdfast.tasks.pack.folds import Folding
from holdfast.types.columns.schema import Base, SqlType
from holdfast.types.statements.topology import AggregateCall

__all__ = ["Max", "Min"]

_ORDERED = (
    Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.DECIMAL, Base.STRING,
    Base.BYTES, Base.DATE, Base.TIME, Base.TIMESTAMP,
)  # fmt: skip


class _ExtremeCall(Aggregate):
    def __init__(
        self, call: AggregateCall, folding: Folding, pick: Callable[..., pa.Array]
    ) -> None:
        self._type = call.type.arrow()
        self._partials = (Partial(self._type, folding, lambda arguments, _: arguments[0]),)
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


class _Extreme(AggregateFunction):
    plain = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals or args[0].base not in _ORDERED:
            raise not_accepted(self.name, args, literals)
        return args[0]


class Min(_Extreme):
    """The smallest value that is not null."""

    name = "MIN"

    def bind(self, call: AggregateCall) -> Aggregate:
        return _ExtremeCall(call, Folding.MIN, pc.min_element_wise)


class Max(_Extreme):
    """The largest value that is not null."""

    name = "MAX"

    def bind(self, call: AggregateCall) -> Aggregate:
        return _ExtremeCall(call, Folding.MAX, pc.max_element_wise)
