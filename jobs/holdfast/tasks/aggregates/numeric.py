"""COUNT, SUM, SUM_LIST and AVG: fixed-width state, merged by addition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.base import (
    Aggregate,
    AggregateFunction,
    Literal,
    Partial,
    not_accepted,
)
from holdfast.tasks.pack.folds import FOLDED, Fold, Folding
from holdfast.types.schema import BIGINT, DOUBLE, Base, SqlType
from holdfast.types.topology import AggregateCall, Expression

__all__ = ["Avg", "Count", "Sum", "SumList"]

_SUMMED = (Base.INTEGER, Base.BIGINT, Base.DOUBLE)


class _Added(Aggregate):
    """State columns are added and subtracted one by one; null stands for zero."""

    def __init__(self, *partials: Partial) -> None:
        self._partials = partials
        self._zeros = [pa.scalar(0, pa.int64()).cast(p.type) for p in partials]

    @property
    def partials(self) -> tuple[Partial, ...]:
        return self._partials

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return tuple(p.type for p in self._partials)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return self._each(pc.add, old, partial)

    def undo(self, state: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return self._each(pc.subtract, state, partial)

    def _each(
        self,
        operation: Callable[[pa.Array, pa.Array], pa.Array],
        first: Sequence[pa.Array],
        second: Sequence[pa.Array],
    ) -> tuple[pa.Array, ...]:
        columns = zip(first, second, self._zeros, strict=True)
        return tuple(
            operation(pc.fill_null(a, zero), pc.fill_null(b, zero)) for a, b, zero in columns
        )


class _CountCall(_Added):
    def __init__(self, fold: Fold) -> None:
        super().__init__(_counted(fold))

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return pc.fill_null(state[0], 0)


def _counting(argument: Expression | None) -> Fold:
    return Fold(Folding.ADD, argument, counts=True)


def _counted(fold: Fold) -> Partial:
    return Partial(f"count({1 if fold.of is None else fold.of})", pa.int64(), fold)


class Count(AggregateFunction):
    """COUNT(*) counts records, COUNT(x) those whose x is not null."""

    name = "COUNT"
    undoable = True
    plain = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) > 1 or literals:
            raise not_accepted(self.name, args, literals)
        return BIGINT

    def folds(self, call: AggregateCall) -> tuple[Fold]:
        return (_counting(call.args[0] if call.args else None),)

    def bind(self, call: AggregateCall) -> Aggregate:
        return _CountCall(*self.folds(call))


class _SumCall(_Added):
    """Sums of whole numbers wrap at their type's bounds, as Java's do."""

    def __init__(self, call: AggregateCall, summed: str, fold: Fold | None = None) -> None:
        self._whole = call.type.base is Base.INTEGER
        super().__init__(Partial(summed, pa.int64() if self._whole else call.type.arrow(), fold))

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        total = pc.fill_null(state[0], self._zeros[0])
        return _wrapped(total) if self._whole else total


class _DecimalSumCall(Aggregate):
    """State: the exact sum, far wider than a DECIMAL; a result that its type cannot hold is NULL.

    Only the result is checked: whether an intermediate sum fits would depend on how records are
    cut into batches.
    """

    def __init__(self, call: AggregateCall) -> None:
        kind, argument = call.type, call.args[0]
        self._type = kind.arrow()
        self._state = pa.decimal256(_STATE_DIGITS, kind.scale)
        self._zero = pa.scalar(0, pa.int64()).cast(self._state)
        self._bound = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), self._state)
        self._listed = kind.precision > _SPARK_SUMS
        if self._listed:
            self._partial = Partial(f"collect_list({argument})", pa.list_(self._type))
        else:
            wide = f"CAST(sum({argument}) AS DECIMAL(38,{kind.scale}))"
            self._partial = Partial(wide, pa.decimal128(38, kind.scale))

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (self._partial,)

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (self._state,)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return (self._each(pc.add, old[0], self._summed(partial[0])),)

    def combine(
        self, first: Sequence[pa.Array], second: Sequence[pa.Array]
    ) -> tuple[pa.Array, ...]:
        return (self._each(pc.add, first[0], second[0]),)

    def undo(self, state: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return (self._each(pc.subtract, state[0], self._summed(partial[0])),)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        total = pc.fill_null(state[0], self._zero)
        fits = pc.less(pc.abs(total), self._bound)
        return pc.if_else(fits, total, pa.scalar(None, self._state)).cast(self._type)

    def _each(
        self, operation: Callable[[pa.Array, pa.Array], pa.Array], first: pa.Array, other: pa.Array
    ) -> pa.Array:
        whole = operation(pc.fill_null(first, self._zero), pc.fill_null(other, self._zero))
        return whole.cast(self._state)  # Arrow's result has one more digit

    def _summed(self, partial: pa.Array) -> pa.Array:
        if not self._listed:
            return partial.cast(self._state)
        values = partial.flatten().cast(self._state)
        table = pa.table({"row": pc.list_parent_indices(partial), "value": values})
        sums = table.group_by("row").aggregate([("value", "sum")])
        at = pc.index_in(pa.array(range(len(partial))), sums["row"].combine_chunks())
        return sums["value_sum"].cast(self._state).combine_chunks().take(at)


_STATE_DIGITS = 75  # Arrow's additions need one more (its limit is 76): room for 10^37 values
_SPARK_SUMS = 28  # up to these digits Spark's sum (ten digits more) holds a batch's sum


def _wrapped(total: pa.Array) -> pa.Array:
    """BIGINT to INTEGER, keeping the low 32 bits."""
    low = pc.shift_right(pc.shift_left(total, 32), 32)
    return low.cast(pa.int32())


class Sum(AggregateFunction):
    """SUM ignores nulls, is 0 when all were null, and has its argument's type, as in ksqlDB.

    A sum of decimals that does not fit is NULL, where ksqlDB's query fails.
    """

    name = "SUM"
    undoable = True
    plain = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals or not args[0].numeric:
            raise not_accepted(self.name, args, literals)
        return args[0]

    def folds(self, call: AggregateCall) -> tuple[Fold | None]:
        return (Fold(Folding.ADD, call.args[0]) if call.type.base in FOLDED else None,)

    def bind(self, call: AggregateCall) -> Aggregate:
        if call.type.base is Base.DECIMAL:
            return _DecimalSumCall(call)
        return _SumCall(call, f"sum({call.args[0]})", *self.folds(call))


class SumList(AggregateFunction):
    """The sum of the numbers in all the arrays."""

    name = "SUM_LIST"
    undoable = True
    plain = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        element = args[0].element if len(args) == 1 and args[0].base is Base.ARRAY else None
        if element is None or element.base not in _SUMMED or literals:
            raise not_accepted(self.name, args, literals)
        return element

    def bind(self, call: AggregateCall) -> Aggregate:
        kind = "BIGINT" if call.type.base is Base.INTEGER else call.type.spark()
        present = f"filter({call.args[0]}, e -> e IS NOT NULL)"
        summed = f"aggregate({present}, CAST(0 AS {kind}), (s, e) -> s + CAST(e AS {kind}))"
        return _SumCall(call, f"sum({summed})")


class _AvgCall(_Added):
    def __init__(self, call: AggregateCall, fold: Fold | None, count: Fold) -> None:
        whole = call.arg_types[0].base in (Base.INTEGER, Base.BIGINT)
        summed = f"sum(CAST({call.args[0]} AS {'BIGINT' if whole else 'DOUBLE'}))"
        super().__init__(
            Partial(summed, pa.int64() if whole else pa.float64(), fold), _counted(count)
        )

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        count = pc.fill_null(state[1], 0)
        total = pc.fill_null(state[0], self._zeros[0]).cast(pa.float64(), safe=False)
        none = pc.equal(count, 0)
        divisor = pc.if_else(none, 1, count).cast(pa.float64(), safe=False)
        return pc.if_else(none, 0.0, pc.divide(total, divisor))


class Avg(AggregateFunction):
    """AVG is a DOUBLE; 0 while every argument was null, as in ksqlDB."""

    name = "AVG"
    undoable = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals or not args[0].numeric:
            raise not_accepted(self.name, args, literals)
        return DOUBLE

    def folds(self, call: AggregateCall) -> tuple[Fold | None, Fold]:
        summed = Fold(Folding.ADD, call.args[0]) if call.arg_types[0].base in FOLDED else None
        return summed, _counting(call.args[0])

    def bind(self, call: AggregateCall) -> Aggregate:
        return _AvgCall(call, *self.folds(call))
