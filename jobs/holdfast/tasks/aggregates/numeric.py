"""COUNT, SUM, SUM_LIST and AVG: fixed-width state, merged by addition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.base import (
    Aggregate,
    AggregateFunction,
    Literal,
    Partial,
    not_accepted,
)
from holdfast.tasks.aggregates.of_records import cast_to, counted
from holdfast.tasks.pack.folds import Folding, Groups, fold
from holdfast.types.columns.schema import BIGINT, DOUBLE, Base, SqlType
from holdfast.types.statements.differences import as_ksqldb
from holdfast.types.statements.topology import AggregateCall

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
    def __init__(self) -> None:
        super().__init__(counted())

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return pc.fill_null(state[0], 0)


class Count(AggregateFunction):
    """COUNT(*) counts records, COUNT(x) those whose x is not null."""

    name = "COUNT"
    undoable = True
    plain = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) > 1 or literals:
            raise not_accepted(self.name, args, literals)
        return BIGINT

    def bind(self, call: AggregateCall) -> Aggregate:
        return _CountCall()


class _SumCall(_Added):
    """Sums of whole numbers wrap at their type's bounds, as Java's do."""

    def __init__(self, call: AggregateCall) -> None:
        self._whole = call.type.base is Base.INTEGER
        kind = pa.int64() if self._whole else call.type.arrow()
        super().__init__(Partial(kind, Folding.ADD, self.numbers(kind)))

    def numbers(self, kind: pa.DataType) -> Callable[[Sequence[pa.Array], int], pa.Array]:
        """Makes the number that each record adds; null if it adds none."""
        return cast_to(kind)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        total = pc.fill_null(state[0], self._zeros[0])
        return _wrapped(total) if self._whole else total


class _DecimalSumCall(Aggregate):
    """State: the exact sum, far wider than a DECIMAL; a result that its type cannot hold is NULL.

    Only the result is checked: whether an intermediate sum fits would depend on how records are
    cut into batches.  With `_STRICT` such a result ends the query.
    """

    def __init__(self, call: AggregateCall) -> None:
        kind = call.type
        self.can_overflow = _STRICT in call.literals
        self._type = kind.arrow()
        self._state = pa.decimal256(_STATE_DIGITS, kind.scale)
        self._zero = pa.scalar(0, pa.int64()).cast(self._state)
        self._bound = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), self._state)
        self._partial = Partial(self._state, Folding.ADD, cast_to(self._state))

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (self._partial,)

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (self._state,)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return (self._each(pc.add, old[0], partial[0]),)

    def undo(self, state: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return (self._each(pc.subtract, state[0], partial[0]),)

    def overflow(self, state: Sequence[pa.Array]) -> tuple[int, str] | None:
        fits = pc.fill_null(pc.less(pc.abs(state[0]), self._bound), True)
        row = pc.index(fits, False).as_py()
        return None if row < 0 else (row, format(state[0][row].as_py(), "f"))

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        total = pc.fill_null(state[0], self._zero)
        fits = pc.less(pc.abs(total), self._bound)
        return pc.if_else(fits, total, pa.scalar(None, self._state)).cast(self._type)

    def _each(
        self, operation: Callable[[pa.Array, pa.Array], pa.Array], first: pa.Array, other: pa.Array
    ) -> pa.Array:
        whole = operation(pc.fill_null(first, self._zero), pc.fill_null(other, self._zero))
        return whole.cast(self._state)  # Arrow's result has one more digit


_STRICT = "overflow ends the query"  # a constant of calls, so that it is in their fingerprints
_STATE_DIGITS = 75  # Arrow's additions need one more (its limit is 76): room for 10^37 values


def _wrapped(total: pa.Array) -> pa.Array:
    """BIGINT to INTEGER, keeping the low 32 bits."""
    low = pc.shift_right(pc.shift_left(total, 32), 32)
    return low.cast(pa.int32())


class Sum(AggregateFunction):
    """SUM ignores nulls, is 0 when all were null, and has its argument's type, as in ksqlDB.

    A sum of decimals that does not fit is NULL, or ends the query, as in ksqlDB.
    """

    name = "SUM"
    undoable = True
    plain = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals or not args[0].numeric:
            raise not_accepted(self.name, args, literals)
        return args[0]

    def settings(self, properties: Mapping[str, str], result: SqlType) -> tuple[Literal, ...]:
        strict = result.base is Base.DECIMAL and as_ksqldb(properties)
        return (_STRICT,) if strict else ()

    def bind(self, call: AggregateCall) -> Aggregate:
        if call.type.base is Base.DECIMAL:
            return _DecimalSumCall(call)
        return _SumCall(call)


class _SumListCall(_SumCall):
    def numbers(self, kind: pa.DataType) -> Callable[[Sequence[pa.Array], int], pa.Array]:
        return lambda arguments, _: _sums(arguments[0], kind)


def _sums(lists: pa.Array, kind: pa.DataType) -> pa.Array:
    """The sum of each list's numbers: 0 of none, null of a list that is null."""
    count, lengths = len(lists), pc.fill_null(lists.value_lengths(), 0).to_numpy()
    zeros = pa.array(np.zeros(count)).cast(kind)
    numbers = pa.concat_arrays([zeros, lists.flatten().cast(kind)])
    codes = np.concatenate([np.arange(count), np.repeat(np.arange(count), lengths)])
    return pc.if_else(lists.is_valid(), fold(Folding.ADD, numbers, Groups(codes, count)), None)


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
        return _SumListCall(call)


class _AvgCall(_Added):
    def __init__(self, call: AggregateCall) -> None:
        whole = call.arg_types[0].base in (Base.INTEGER, Base.BIGINT)
        kind = pa.int64() if whole else pa.float64()
        super().__init__(Partial(kind, Folding.ADD, cast_to(kind)), counted())

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

    def bind(self, call: AggregateCall) -> Aggregate:
        return _AvgCall(call)
