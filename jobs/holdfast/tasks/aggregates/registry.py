"""Which aggregates exist, by upper-case SQL name."""

from __future__ import annotations

from holdfast.tasks.aggregates.approximate import (
    ApproxCountDistinct,
    ApproxQuantile,
    ApproxTopK,
)
from holdfast.tasks.aggregates.base import Aggregate, AggregateFunction
from holdfast.tasks.aggregates.by_offset import EarliestByOffset, LatestByOffset
from holdfast.tasks.aggregates.extremes import Max, Min
from holdfast.tasks.aggregates.lists import (
    CollectList,
    CollectSet,
    CountDistinct,
    TopK,
    TopKDistinct,
)
from holdfast.tasks.aggregates.numeric import Avg, Count, Sum, SumList
from holdfast.tasks.aggregates.statistics import Correlation, StddevSamp, StddevSample
from holdfast.tasks.aggregates.tallies import Attr, Histogram
from holdfast.tasks.aggregates.user import registered
from holdfast.types.statements.topology import AggregateCall

__all__ = ["bind", "function_of", "lookup", "names"]

_BUILT_IN: dict[str, AggregateFunction] = {
    f.name: f
    for f in (
        Count(), Sum(), Avg(), Min(), Max(), EarliestByOffset(), LatestByOffset(),
        CollectList(), CollectSet(), TopK(), TopKDistinct(), CountDistinct(), SumList(),
        StddevSample(), StddevSamp(), Correlation(), Histogram(), Attr(),
        ApproxCountDistinct(), ApproxQuantile(), ApproxTopK(),
    )
}  # fmt: skip


def lookup(name: str) -> AggregateFunction | None:
    """The aggregate `name` (upper-case), built in or registered by the user."""
    return _BUILT_IN.get(name) or registered().get(name)


def names() -> list[str]:
    """The names of all aggregates, for "did you mean"."""
    return sorted({*_BUILT_IN, *registered()})


def function_of(call: AggregateCall) -> AggregateFunction:
    """The function of a planned call.

    Raises:
        KeyError: the function is not registered in this process.
    """
    function = lookup(call.function)
    if function is None:
        raise KeyError(call.function)
    return function


def bind(call: AggregateCall) -> Aggregate:
    """The aggregate for a planned call.

    Raises:
        KeyError: the function is not registered in this process.
    """
    return function_of(call).bind(call)
