"""EARLIEST_BY_OFFSET and LATEST_BY_OFFSET, single value or the N first or last."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.base import (
    Aggregate,
    AggregateFunction,
    Literal,
    Partial,
    not_accepted,
)
from holdfast.tasks.aggregates.lists import ListAggregate
from holdfast.tasks.aggregates.of_records import listed
from holdfast.tasks.pack.folds import Folding
from holdfast.types.columns.schema import Base, SqlType
from holdfast.types.statements.topology import AggregateCall

__all__ = ["EarliestByOffset", "LatestByOffset"]


def _options(name: str, literals: Sequence[Literal]) -> tuple[int | None, bool]:
    """(N or None, ignore nulls) of a call's literal arguments."""
    rest = list(literals)
    count: int | None = None
    ignore_nulls = True
    if rest and isinstance(rest[0], int) and not isinstance(rest[0], bool):
        count = rest.pop(0)  # type: ignore[assignment]
    if rest and isinstance(rest[0], bool):
        ignore_nulls = bool(rest.pop(0))
    if rest or (count is not None and count < 1):
        raise ValueError(f"{name}(column [, N >= 1] [, ignore nulls as a boolean]) is expected")
    return count, ignore_nulls


class _SingleCall(Aggregate):
    """State: the value, and whether there was one (a null may be a value)."""

    def __init__(self, call: AggregateCall, *, latest: bool, ignore_nulls: bool) -> None:
        self._latest = latest
        self._ignore_nulls = ignore_nulls
        self._type = call.type.arrow()
        folding = Folding.LAST if latest else Folding.FIRST
        self._partial = Partial(pa.list_(self._type), folding, self._values)

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (self._partial,)

    def _values(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        (values,) = arguments
        return listed(values, values.is_valid() if self._ignore_nulls else None)

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return self._type, pa.bool_()

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return self.combine(old, _end_of(partial[0], last=self._latest))

    def combine(
        self, first: Sequence[pa.Array], second: Sequence[pa.Array]
    ) -> tuple[pa.Array, ...]:
        if self._latest:
            first, second = second, first
        seen = pc.fill_null(first[1], False)
        value = pc.if_else(seen, first[0], second[0])
        return value, pc.or_(seen, pc.fill_null(second[1], False))

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return state[0]


def _end_of(lists: pa.Array, *, last: bool) -> tuple[pa.Array, pa.Array]:
    """The first or last value of each list, and whether there is one."""
    seen = pc.greater(pc.fill_null(lists.value_lengths(), 0), 0)
    places = pc.subtract(lists.offsets[1:], 1) if last else lists.offsets[:-1]
    return lists.values.take(pc.if_else(seen, places, None)), seen


class _ByOffset(AggregateFunction):
    listed = True
    latest: bool

    def columns(self, count: int) -> int:
        return min(count, 1)

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1:
            raise not_accepted(self.name, args, literals)
        count, _ = _options(self.name, literals)
        return args[0] if count is None else SqlType(Base.ARRAY, element=args[0])

    def bind(self, call: AggregateCall) -> Aggregate:
        count, ignore_nulls = _options(self.name, call.literals)
        if count is None:
            return _SingleCall(call, latest=self.latest, ignore_nulls=ignore_nulls)
        return _ManyCall(call, count, latest=self.latest, ignore_nulls=ignore_nulls)


class _ManyCall(ListAggregate):
    def __init__(
        self, call: AggregateCall, count: int, *, latest: bool, ignore_nulls: bool
    ) -> None:
        super().__init__(call.arg_types[0], ignore_nulls=ignore_nulls)
        self._count = count
        self._latest = latest

    def kept(self, old: list[object], new: list[object]) -> list[object]:
        both = old + new
        return both[-self._count :] if self._latest else both[: self._count]


class EarliestByOffset(_ByOffset):
    """The value of the record that came first."""

    name = "EARLIEST_BY_OFFSET"
    latest = False


class LatestByOffset(_ByOffset):
    """The value of the record that came last."""

    name = "LATEST_BY_OFFSET"
    latest = True
