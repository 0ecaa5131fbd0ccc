"""COUNT, SUM and AVG: fixed-width state, merged by addition."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.base import Aggregate, AggregateFunction, Literal, Partial
from holdfast.types.schema import BIGINT, DOUBLE, Base, SqlType
from holdfast.types.topology import AggregateCall

__all__ = ["Avg", "Count", "Sum"]


def _add(old: pa.Array, new: pa.Array, zero: object) -> pa.Array:
    """`old + new`, where null stands for "no value yet"."""
    return pc.add(pc.fill_null(old, zero), pc.fill_null(new, zero))


class _CountCall(Aggregate):
    def __init__(self, call: AggregateCall) -> None:
        argument = call.args[0] if call.args else "1"
        self._partials = (Partial(f"count({argument})", pa.int64()),)

    @property
    def partials(self) -> tuple[Partial, ...]:
        return self._partials

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(),)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return (_add(old[0], partial[0], 0),)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return pc.fill_null(state[0], 0)


class Count(AggregateFunction):
    """COUNT(*) counts records, COUNT(x) those whose x is not null."""

    name = "COUNT"

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) > 1:
            raise ValueError(f"COUNT takes * or one argument, not {len(args)}")
        return BIGINT

    def bind(self, call: AggregateCall) -> Aggregate:
        return _CountCall(call)


class _SumCall(Aggregate):
    def __init__(self, call: AggregateCall) -> None:
        self._type = call.type.arrow()
        if call.type.base is Base.DECIMAL:
            self._state: pa.DataType = pa.decimal128(38, call.type.scale)
            spark = f"CAST(sum({call.args[0]}) AS DECIMAL(38,{call.type.scale}))"
        else:
            self._state = self._type
            spark = f"sum({call.args[0]})"
        self._partials = (Partial(spark, self._state),)
        self._zero = pa.scalar(0, pa.int64()).cast(self._state)

    @property
    def partials(self) -> tuple[Partial, ...]:
        return self._partials

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (self._state,)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        total = _add(old[0], partial[0], self._zero)
        return (total if total.type == self._state else total.cast(self._state, safe=False),)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        total = pc.fill_null(state[0], self._zero)
        return total if total.type == self._type else total.cast(self._type)


class Sum(AggregateFunction):
    """SUM ignores nulls and is 0 when all were null, as in ksqlDB.

    SUM(INTEGER) is BIGINT here (ksqlDB: INTEGER, which wraps at 2^31), SUM(DECIMAL(p, s)) is
    DECIMAL(min(38, p + 10), s) as in Spark.
    """

    name = "SUM"

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or not args[0].numeric:
            given = ", ".join(str(a) for a in args) or "nothing"
            raise ValueError(f"SUM takes one number, not {given}")
        if args[0].base is Base.INTEGER:
            return BIGINT
        if args[0].base is Base.DECIMAL:
            return SqlType(Base.DECIMAL, min(38, args[0].precision + 10), args[0].scale)
        return args[0]

    def bind(self, call: AggregateCall) -> Aggregate:
        return _SumCall(call)


class _AvgCall(Aggregate):
    def __init__(self, call: AggregateCall) -> None:
        argument = call.args[0]
        self._partials = (
            Partial(f"sum(CAST({argument} AS DOUBLE))", pa.float64()),
            Partial(f"count({argument})", pa.int64()),
        )

    @property
    def partials(self) -> tuple[Partial, ...]:
        return self._partials

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.float64(), pa.int64())

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return _add(old[0], partial[0], 0.0), _add(old[1], partial[1], 0)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        count = pc.fill_null(state[1], 0)
        divisor = pc.if_else(pc.equal(count, 0), pa.scalar(None, pa.int64()), count)
        return pc.divide(state[0], divisor.cast(pa.float64()))


class Avg(AggregateFunction):
    """AVG is a DOUBLE; null while every argument was null."""

    name = "AVG"

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or not args[0].numeric:
            given = ", ".join(str(a) for a in args) or "nothing"
            raise ValueError(f"AVG takes one number, not {given}")
        return DOUBLE

    def bind(self, call: AggregateCall) -> Aggregate:
        return _AvgCall(call)
