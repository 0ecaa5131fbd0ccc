"""Aggregates whose state is a list: the COLLECTs, the TOPKs and COUNT_DISTINCT."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.base import (
    Aggregate,
    AggregateFunction,
    ByElement,
    Literal,
    Partial,
    not_accepted,
)
from holdfast.tasks.aggregates.of_records import listed, records
from holdfast.tasks.evaluate.doubles import rank
from holdfast.tasks.pack.folds import Folding
from holdfast.types.columns.schema import BIGINT, Base, Column, SqlType
from holdfast.types.statements.topology import AggregateCall

__all__ = [
    "COLLECT_LIMIT",
    "CollectList",
    "CollectSet",
    "CountDistinct",
    "ListAggregate",
    "TopK",
    "TopKDistinct",
    "hashable",
]

COLLECT_LIMIT = 1000  # elements, where no property says otherwise
_UNSORTED = (Base.ARRAY, Base.MAP, Base.STRUCT, Base.BOOLEAN)


class ListAggregate(Aggregate):
    """Keeps a list per key; `kept` says which elements stay.

    An element is a call's argument; of several, a struct of them all.

    Args:
        element: the type of an element.
        ignore_nulls: whether a record counts only if its first argument is not null.
    """

    def __init__(self, element: SqlType, *, ignore_nulls: bool) -> None:
        self._element = element.arrow()
        self._type = pa.list_(self._element)
        self._ignore_nulls = ignore_nulls
        self._partial = Partial(self._type, Folding.LIST, self._elements)

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (self._partial,)

    def _elements(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        first = arguments[0]
        values = first if len(arguments) == 1 else records(arguments, list(self._element), rows)
        return listed(values, first.is_valid() if self._ignore_nulls else None)

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (self._type,)

    @abstractmethod
    def kept(self, old: list[Any], new: list[Any]) -> list[Any]:
        """The list to keep, from the stored one and this batch's (in arrival order)."""

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        pairs = zip(old[0].to_pylist(), partial[0].to_pylist(), strict=True)
        return (pa.array([self.kept(a or [], b or []) for a, b in pairs], self._type),)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return state[0]


def hashable(value: Any) -> Any:
    """A hashable stand-in for an element; two are equal exactly where Java's elements are."""
    if isinstance(value, float):
        return rank(value)
    if isinstance(value, list):
        pairs = all(isinstance(v, tuple) for v in value)  # a map, whose entries have no order
        return frozenset(map(hashable, value)) if value and pairs else tuple(map(hashable, value))
    if isinstance(value, tuple):
        return tuple(map(hashable, value))
    if isinstance(value, dict):
        return tuple((k, hashable(v)) for k, v in value.items())
    return value


def _distinct(values: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(hashable(value), value)
    return list(found.values())


class _CollectCall(ListAggregate):
    def __init__(self, call: AggregateCall, *, distinct: bool) -> None:
        super().__init__(call.arg_types[0], ignore_nulls=False)
        limit = int(str(call.literals[0])) if call.literals else COLLECT_LIMIT
        self._limit = limit if limit >= 0 else None
        self._distinct = distinct

    def kept(self, old: list[Any], new: list[Any]) -> list[Any]:
        both = old + new
        return (_distinct(both) if self._distinct else both)[: self._limit]

    def undo(self, state: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        pairs = zip(state[0].to_pylist(), partial[0].to_pylist(), strict=True)
        return (pa.array([_without(a or [], b or []) for a, b in pairs], self._type),)


def _without(values: list[Any], gone: list[Any]) -> list[Any]:
    """Removes the last occurrence of each value in `gone`, if the limit let it in."""
    for value in map(hashable, gone):
        at = next((i for i in reversed(range(len(values))) if hashable(values[i]) == value), None)
        if at is not None:
            values.pop(at)
    return values


class _Collect(AggregateFunction):
    listed = True
    distinct: bool

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals:
            raise not_accepted(self.name, args, literals)
        return SqlType(Base.ARRAY, element=args[0])

    def settings(self, properties: Mapping[str, str], result: SqlType) -> tuple[Literal, ...]:
        """The limit from `ksql.functions.<name>.limit`; a negative value means no limit."""
        limit = properties.get(f"ksql.functions.{self.name.lower()}.limit")
        return () if limit is None else (int(limit),)

    def bind(self, call: AggregateCall) -> Aggregate:
        return _CollectCall(call, distinct=self.distinct)


class CollectList(_Collect):
    """Every value in order of arrival, nulls included, at most the first 1000 (or the limit)."""

    name = "COLLECT_LIST"
    undoable = True
    distinct = False


class CollectSet(_Collect):
    """Every distinct value in order of first arrival, null included; COLLECT_LIST's limit."""

    name = "COLLECT_SET"
    distinct = True


class _CountDistinctCall(ListAggregate):
    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call.arg_types[0], ignore_nulls=True)

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (Partial(self._type, Folding.DISTINCT, self._elements),)

    def kept(self, old: list[Any], new: list[Any]) -> list[Any]:
        return _distinct(old + new)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return pa.array([len(v) if v else 0 for v in state[0].to_pylist()], pa.int64())

    def by_element(self) -> ByElement | None:
        return _CountOfNew(self.partials)


class _CountOfNew(ByElement):
    """COUNT_DISTINCT whose values are element rows: the state is their number."""

    def __init__(self, partials: tuple[Partial, ...]) -> None:
        self._partials = partials

    @property
    def partials(self) -> tuple[Partial, ...]:
        return self._partials

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(),)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        return (pc.add(old[0].fill_null(0), partial[0]),)

    def combine(
        self, first: Sequence[pa.Array], second: Sequence[pa.Array]
    ) -> tuple[pa.Array, ...]:
        raise TypeError("two sets have no common number of values")

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return state[0].fill_null(0)

    def of_lists(self, lists: pa.Array) -> tuple[pa.Array, ...]:
        counts = [None if v is None else len(_distinct(v)) for v in lists.to_pylist()]
        return (pa.array(counts, pa.int64()),)


class CountDistinct(AggregateFunction):
    """The exact number of distinct values that are not null.

    ksqlDB estimates it (HyperLogLog); exactness costs a row per distinct value (ADR 53).  The
    order of values is not part of the result, so they are made distinct before the shuffle.
    """

    name = "COUNT_DISTINCT"
    by_element = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals:
            raise not_accepted(self.name, args, literals)
        return BIGINT

    def bind(self, call: AggregateCall) -> Aggregate:
        return _CountDistinctCall(call)


class _TopKCall(ListAggregate):
    """One TOPK call; with several columns, the first one ranks the records."""

    def __init__(self, call: AggregateCall, *, distinct: bool) -> None:
        element = call.type.element
        assert element is not None
        self._struct = len(call.args) > 1
        super().__init__(element, ignore_nulls=True)
        self._count = int(str(call.literals[0]))
        self._distinct = distinct

    def kept(self, old: list[Any], new: list[Any]) -> list[Any]:
        both = _distinct(old + new) if self._distinct else old + new
        return sorted(both, key=self._rank, reverse=True)[: self._count]

    def _rank(self, value: Any) -> Any:
        first = value[_SORTED] if self._struct else value
        return rank(first) if isinstance(first, float) else first


_SORTED = "sort_col"


class TopK(AggregateFunction):
    """The k largest values, largest first; nulls are ignored.

    With more columns, the k largest records, as structs of `sort_col`, `col0`, `col1` …
    """

    name = "TOPK"
    listed = True
    distinct = False
    several = True

    def columns(self, count: int) -> int:
        return max(count - 1, 1)

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        k = literals[0] if len(literals) == 1 else None
        fits = bool(args) and args[0].base not in _UNSORTED and (self.several or len(args) == 1)
        if not fits or not isinstance(k, int) or isinstance(k, bool):
            raise not_accepted(self.name, args, literals)
        if k < 1:
            raise ValueError(f"{self.name} needs k >= 1, not {k}")
        if len(args) == 1:
            return SqlType(Base.ARRAY, element=args[0])
        names = [_SORTED, *(f"col{i}" for i in range(len(args) - 1))]
        fields = tuple(Column(n, a) for n, a in zip(names, args, strict=True))
        return SqlType(Base.ARRAY, element=SqlType(Base.STRUCT, fields=fields))

    def bind(self, call: AggregateCall) -> Aggregate:
        return _TopKCall(call, distinct=self.distinct)


class TopKDistinct(TopK):
    """The k largest distinct values, largest first."""

    name = "TOPKDISTINCT"
    distinct = True
    several = False
