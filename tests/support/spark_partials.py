"""The partials of aggregates as Spark SQL makes them: a row per batch of records.

`tests/unit/tasks/pack/test_spark_partials.py` shows on a real Spark that it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from holdfast.tasks.aggregates.registry import bind
from holdfast.tasks.evaluate.doubles import rank
from holdfast.types.schema import Base
from holdfast.types.topology import AggregateCall

__all__ = ["partials_of"]

Row = Mapping[str, Any]
Values = list[Any]


def partials_of(call: AggregateCall, rows: Sequence[Row]) -> Values:
    """The partial columns of `call` over records in order of arrival, which all have one key."""
    columns = [[row[a.ref or ""] for row in rows] for a in call.args]
    made = _MADE[call.function](call, columns, len(rows))
    assert len(made) == len(bind(call).partials)
    return made


def _there(values: Values) -> Values:
    return [v for v in values if v is not None]


def _sum(values: Values) -> Any:
    there = _there(values)
    if not there:
        return None
    if isinstance(there[0], float):
        total = 0.0
        for value in there:
            total += value
        return total
    return there[0] if isinstance(there[0], Decimal) and len(there) == 1 else _added(there)


def _added(values: Values) -> Any:
    total: Any = sum(values)
    return total if isinstance(total, Decimal) else (total + 2**63) % 2**64 - 2**63


def _ordered(value: Any) -> Any:
    return rank(value) if isinstance(value, float) else value


def _count(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    return [len(_there(columns[0])) if columns else rows]


def _summed(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    if call.type.base is Base.DECIMAL and call.type.precision > 28:
        return [_there(columns[0])]
    return [_sum(columns[0])]


def _average(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    whole = call.arg_types[0].base in (Base.INTEGER, Base.BIGINT)
    values = [v if whole or v is None else float(v) for v in columns[0]]
    return [_sum(values), len(_there(values))]


def _extreme(pick: Callable[..., Any]) -> Callable[..., Values]:
    return lambda _, columns, __: [pick(_there(columns[0]), key=_ordered, default=None)]


def _list_sum(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    whole = [_sum(v) or 0 for v in _there(columns[0])]
    return [_sum(whole)]


def _listed(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    return [columns[0]]


def _distinct(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    there = _there(columns[0])
    return [there if there and isinstance(there[0], float) else sorted(set(there), reverse=True)]


def _topk(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    names = ["sort_col", *(f"col{i}" for i in range(len(columns) - 1))]
    records = [v for v in zip(*columns, strict=True) if v[0] is not None]
    if len(columns) == 1:
        return [[v for (v,) in records]]
    return [[dict(zip(names, v, strict=True)) for v in records]]


def _by_offset(*, latest: bool) -> Callable[..., Values]:
    def made(call: AggregateCall, columns: list[Values], rows: int) -> Values:
        skips = not any(v is False for v in call.literals)
        values = _there(columns[0]) if skips else columns[0]
        if any(isinstance(v, int) and not isinstance(v, bool) for v in call.literals):
            return [values]
        return [(values[-1] if latest else values[0]) if values else None, bool(values)]

    return made


def _moments(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    there = _there(columns[0])
    mean, squares = 0.0, 0.0
    for count, value in enumerate(map(float, there), 1):
        delta = value - mean
        mean += delta / count
        squares += delta * (delta - delta / count) if not math.isnan(delta) else math.nan
    return [len(there), _average(call, columns, rows)[0], squares]


def _correlation(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    pairs = [(float(x), float(y)) for x, y in zip(*columns, strict=True) if None not in (x, y)]
    terms = ([x, y, x * x, y * y, x * y] for x, y in pairs)
    sums = [_sum(list(column)) for column in zip(*terms, strict=True)] or [None] * 5
    return [*sums, len(pairs)]


def _text_list(call: AggregateCall, columns: list[Values], rows: int) -> Values:
    return [_there(columns[0])]


_MADE: dict[str, Callable[..., Values]] = {
    "COUNT": _count, "SUM": _summed, "SUM_LIST": _list_sum, "AVG": _average,
    "MIN": _extreme(min), "MAX": _extreme(max),
    "EARLIEST_BY_OFFSET": _by_offset(latest=False), "LATEST_BY_OFFSET": _by_offset(latest=True),
    "COLLECT_LIST": _listed, "COLLECT_SET": _listed, "COUNT_DISTINCT": _distinct,
    "TOPK": _topk, "TOPKDISTINCT": _topk, "HISTOGRAM": _text_list, "ATTR": _listed,
    "STDDEV_SAMPLE": _moments, "STDDEV_SAMP": _moments, "CORRELATION": _correlation,
}  # fmt: skip
