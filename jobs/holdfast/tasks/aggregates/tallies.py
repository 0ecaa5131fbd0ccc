"""HISTOGRAM and ATTR: how often each value occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from holdfast.tasks.aggregates.base import (
    Aggregate,
    AggregateFunction,
    Literal,
    Partial,
    not_accepted,
)
from holdfast.tasks.aggregates.lists import hashable
from holdfast.tasks.aggregates.of_records import listed
from holdfast.tasks.pack.folds import Folding
from holdfast.types.columns.schema import BIGINT, STRING, Base, SqlType
from holdfast.types.statements.topology import AggregateCall

__all__ = ["Attr", "Histogram"]

_LIMIT = 1000  # entries of a HISTOGRAM
Tally = list[dict[str, Any]]


class _TallyCall(Aggregate):
    """State: values with their counts, in order of first arrival.

    Args:
        ignore_nulls: whether null is not a value.
        most: how many values are kept.
    """

    def __init__(
        self,
        call: AggregateCall,
        finish: Callable[[Tally], Any],
        *,
        ignore_nulls: bool,
        most: int | None,
    ) -> None:
        value = call.arg_types[0].arrow()
        self._partial = Partial(pa.list_(value), Folding.LIST, self._values)
        self._state = pa.list_(pa.struct([("v", value), ("n", pa.int64())]))
        self._type = call.type.arrow()
        self._finish = finish
        self._ignore_nulls = ignore_nulls
        self._most = most

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (self._partial,)

    def _values(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        (values,) = arguments
        return listed(values, values.is_valid() if self._ignore_nulls else None)

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (self._state,)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return self._each(old, partial, lambda values: ((v, 1) for v in values))

    def undo(self, state: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return self._each(state, partial, lambda values: ((v, -1) for v in values))

    def combine(
        self, first: Sequence[pa.Array], second: Sequence[pa.Array]
    ) -> tuple[pa.Array, ...]:
        return self._each(first, second, lambda tally: ((e["v"], e["n"]) for e in tally))

    def _each(
        self,
        old: Sequence[pa.Array],
        new: Sequence[pa.Array],
        changes: Callable[[list[Any]], Iterable[tuple[Any, int]]],
    ) -> tuple[pa.Array, ...]:
        pairs = zip(old[0].to_pylist(), new[0].to_pylist(), strict=True)
        return (
            pa.array([self._counted(a or [], changes(b or [])) for a, b in pairs], self._state),
        )

    def _counted(self, tally: Tally, changes: Iterable[tuple[Any, int]]) -> Tally:
        places = {hashable(entry["v"]): entry for entry in tally}
        for value, change in changes:
            entry = places.get(hashable(value))
            if entry is not None:
                entry["n"] = max(0, entry["n"] + change)
                if not entry["n"]:
                    del places[hashable(value)]
            elif change > 0 and (self._most is None or len(places) < self._most):
                places[hashable(value)] = {"v": value, "n": change}
        return list(places.values())

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return pa.array([self._finish(tally or []) for tally in state[0].to_pylist()], self._type)


class _AttrCall(_TallyCall):
    """ATTR, whose result is known for good once two values differ, if nothing is taken back.

    Args:
        undone: whether values are taken back, so that all of them have to be counted.
    """

    def __init__(self, call: AggregateCall, *, undone: bool = True) -> None:
        super().__init__(call, _only, ignore_nulls=False, most=None)
        self._call = call
        self._undone = undone

    def without_undo(self) -> Aggregate:
        return _AttrCall(self._call, undone=False)

    def _counted(self, tally: Tally, changes: Iterable[tuple[Any, int]]) -> Tally:
        if self._undone:
            return super()._counted(tally, changes)
        new = list(changes)
        # A state that has forgotten its values may be merged into one that has not: two sessions.
        if len(tally) > 1 or any(not count for _, count in new):
            return _SEVERAL
        found = super()._counted(tally, new)
        return found if len(found) <= 1 else _SEVERAL


_SEVERAL: Tally = [{"v": None, "n": 0}] * 2  # all there is to know of values that differ


def _counts(tally: Tally) -> list[tuple[str, int]]:
    return [(entry["v"], entry["n"]) for entry in tally]


def _only(tally: Tally) -> Any:
    return tally[0]["v"] if len(tally) == 1 else None


class Histogram(AggregateFunction):
    """How often each text occurs, as a map of at most 1000 entries; nulls do not count."""

    name = "HISTOGRAM"
    listed = True
    undoable = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or args[0] != STRING or literals:
            raise not_accepted(self.name, args, literals)
        return SqlType(Base.MAP, element=BIGINT)

    def bind(self, call: AggregateCall) -> Aggregate:
        return _TallyCall(call, _counts, ignore_nulls=True, most=_LIMIT)


class Attr(AggregateFunction):
    """The value that all records share; null as soon as two differ (null is a value, too)."""

    name = "ATTR"
    listed = True
    undoable = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals:
            raise not_accepted(self.name, args, literals)
        return args[0]

    def bind(self, call: AggregateCall) -> Aggregate:
        return _AttrCall(call)
