"""Aggregates whose state is a list: the COLLECTs, the TOPKs and COUNT_DISTINCT."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from holdfast.tasks.aggregates.base import ORDER, Aggregate, AggregateFunction, Literal, Partial
from holdfast.types.schema import BIGINT, Base, SqlType
from holdfast.types.topology import AggregateCall

__all__ = [
    "COLLECT_LIMIT",
    "CollectList",
    "CollectSet",
    "CountDistinct",
    "ListAggregate",
    "TopK",
    "TopKDistinct",
]

COLLECT_LIMIT = 1000  # ksqlDB's default of ksql.functions.collect_list.limit


class ListAggregate(Aggregate):
    """Keeps a list per key; `kept` says which elements stay."""

    def __init__(self, call: AggregateCall, *, skip_nulls: bool, distinct: bool = False) -> None:
        argument = call.args[0]
        element = call.arg_types[0].arrow()
        self._type = pa.list_(element)
        self._partials = (Partial(_spark_list(argument, skip_nulls, distinct), self._type),)

    @property
    def partials(self) -> tuple[Partial, ...]:
        return self._partials

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


def _spark_list(argument: str, skip_nulls: bool, distinct: bool) -> str:
    if distinct:
        return f"collect_set({argument})"
    only = f" FILTER (WHERE {argument} IS NOT NULL)" if skip_nulls else ""
    ordered = f"array_sort(collect_list(struct({ORDER}, {argument} AS v)){only})"
    return f"transform({ordered}, e -> e.v)"


def _hashable(value: Any) -> Any:
    """A stand-in for `value` that can be a member of a set."""
    if isinstance(value, list):
        return tuple(_hashable(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in value.items())
    return value


def _distinct(values: list[Any]) -> list[Any]:
    return list({_hashable(v): v for v in reversed(values)}.values())[::-1]


class _CollectListCall(ListAggregate):
    def kept(self, old: list[Any], new: list[Any]) -> list[Any]:
        return (old + new)[:COLLECT_LIMIT]


class _CollectSetCall(ListAggregate):
    def kept(self, old: list[Any], new: list[Any]) -> list[Any]:
        return _distinct(old + new)[:COLLECT_LIMIT]


class _CountDistinctCall(ListAggregate):
    def kept(self, old: list[Any], new: list[Any]) -> list[Any]:
        return _distinct(old + new)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return pa.array([len(v) if v else 0 for v in state[0].to_pylist()], pa.int64())


class _TopKCall(ListAggregate):
    def __init__(self, call: AggregateCall, count: int, *, distinct: bool) -> None:
        super().__init__(call, skip_nulls=True, distinct=distinct)
        self._count = count
        self._distinct = distinct

    def kept(self, old: list[Any], new: list[Any]) -> list[Any]:
        both = _distinct(old + new) if self._distinct else old + new
        return sorted(both, reverse=True)[: self._count]


class _ListFunction(AggregateFunction):
    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals:
            raise ValueError(f"{self.name} takes one column")
        return SqlType(Base.ARRAY, element=args[0])


class CollectList(_ListFunction):
    """Every value in order of arrival, nulls included, at most the first 1000."""

    name = "COLLECT_LIST"

    def bind(self, call: AggregateCall) -> Aggregate:
        return _CollectListCall(call, skip_nulls=False)


class CollectSet(_ListFunction):
    """Every distinct value in order of first arrival, at most the first 1000."""

    name = "COLLECT_SET"

    def bind(self, call: AggregateCall) -> Aggregate:
        return _CollectSetCall(call, skip_nulls=True)


class CountDistinct(AggregateFunction):
    """The exact number of distinct values that are not null.

    ksqlDB estimates it (HyperLogLog); exactness costs a list of the distinct values per key.
    """

    name = "COUNT_DISTINCT"

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals:
            raise ValueError("COUNT_DISTINCT takes one column")
        return BIGINT

    def bind(self, call: AggregateCall) -> Aggregate:
        return _CountDistinctCall(call, skip_nulls=True, distinct=True)


class TopK(AggregateFunction):
    """The k largest values, largest first; nulls are ignored."""

    name = "TOPK"
    distinct = False

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        k = literals[0] if len(literals) == 1 else None
        if len(args) != 1 or not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise ValueError(f"{self.name}(column, k) takes one column and a whole number k >= 1")
        if args[0].base in (Base.ARRAY, Base.MAP, Base.STRUCT, Base.BOOLEAN):
            raise ValueError(f"{self.name} needs values that can be ordered, not {args[0]}")
        return SqlType(Base.ARRAY, element=args[0])

    def bind(self, call: AggregateCall) -> Aggregate:
        return _TopKCall(call, int(str(call.literals[0])), distinct=self.distinct)


class TopKDistinct(TopK):
    """The k largest distinct values, largest first."""

    name = "TOPKDISTINCT"
    distinct = True
