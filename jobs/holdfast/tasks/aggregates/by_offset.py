"""EARLIEST_BY_OFFSET and LATEST_BY_OFFSET, single value or the N first or last."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.base import (
    ORDER,
    Aggregate,
    AggregateFunction,
    Literal,
    Partial,
    not_accepted,
    ordered_list,
)
from holdfast.tasks.aggregates.lists import ListAggregate
from holdfast.types.schema import Base, SqlType
from holdfast.types.topology import AggregateCall

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
        argument = call.args[0]
        only = f" FILTER (WHERE ({argument}) IS NOT NULL)" if ignore_nulls else ""
        function = "max_by" if latest else "min_by"
        self._latest = latest
        self._type = call.type.arrow()
        seen = f"count({argument if ignore_nulls else '1'}) > 0"
        self._partials = (
            Partial(f"{function}({argument}, struct({ORDER})){only}", self._type),
            Partial(seen, pa.bool_()),
        )

    @property
    def partials(self) -> tuple[Partial, ...]:
        return self._partials

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return self._type, pa.bool_()

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        first, second = (partial, old) if self._latest else (old, partial)
        seen = pc.fill_null(first[1], False)
        value = pc.if_else(seen, first[0], second[0])
        return value, pc.or_(seen, pc.fill_null(second[1], False))

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return state[0]


class _ByOffset(AggregateFunction):
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
        argument, kind = call.args[0], call.arg_types[0]
        only = f"({argument}) IS NOT NULL" if ignore_nulls else None
        super().__init__(ordered_list(argument.sql, kind, only), kind)
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
