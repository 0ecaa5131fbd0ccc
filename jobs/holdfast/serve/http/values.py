"""Converts values that orjson cannot write, or writes differently from ksqlDB.

DATE is `2020-01-31`, TIME `23:59:59`, TIMESTAMP `2020-01-31T23:59:59.000`, BYTES base64, DECIMAL a
number with all its digits, and a DOUBLE that is NaN or infinite its name as a string.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa

from holdfast.serve.values import values_of
from holdfast.types.columns.schema import Base, Column, SqlType

__all__ = ["ready_rows", "rows_of"]

_Ready = Callable[[Any], Any]


def rows_of(batch: pa.RecordBatch, columns: Sequence[Column]) -> list[Sequence[Any]]:
    """The batch's rows, ready for orjson."""
    lists = [values_of(batch.column(i)) for i in range(batch.num_columns)]
    for index, column in enumerate(columns):
        ready = _ready(column.type)
        if ready is not None:
            lists[index] = [None if v is None else ready(v) for v in lists[index]]
    return list(zip(*lists, strict=True)) if lists else []


def ready_rows(rows: Sequence[Sequence[Any]], columns: Sequence[Column]) -> Sequence[Sequence[Any]]:
    """Rows of Python values, ready for orjson."""
    readies = _readies(tuple(columns))
    if not any(readies):
        return rows
    return [
        [v if r is None or v is None else r(v) for v, r in zip(row, readies, strict=True)]
        for row in rows
    ]


@lru_cache(maxsize=1024)
def _readies(columns: tuple[Column, ...]) -> tuple[_Ready | None, ...]:
    return tuple(_ready(c.type) for c in columns)


@lru_cache(maxsize=1024)
def _ready(kind: SqlType) -> _Ready | None:
    """The conversion of a non-null value; None if it needs none."""
    if kind.base is Base.ARRAY and kind.element is not None:
        return _array(_ready(kind.element))
    if kind.base is Base.MAP and kind.element is not None:
        return _map(_ready(kind.map_key), _ready(kind.element))
    if kind.base is Base.STRUCT:
        return _struct({f.name: _ready(f.type) for f in kind.fields})
    return _SCALARS.get(kind.base)


def _array(element: _Ready | None) -> _Ready | None:
    if element is None:
        return None
    return lambda values: [None if v is None else element(v) for v in values]


def _map(key: _Ready | None, element: _Ready | None) -> _Ready:
    def ready(value: Any) -> dict[str, Any]:
        pairs = value.items() if isinstance(value, dict) else value
        return {
            _text(k if key is None else key(k)): v if element is None or v is None else element(v)
            for k, v in pairs
        }

    return ready


def _text(key: Any) -> str:
    return key if isinstance(key, str) else orjson.dumps(key).decode()


def _struct(fields: dict[str, _Ready | None]) -> _Ready:
    def ready(value: dict[str, Any]) -> dict[str, Any]:
        return {
            n: value[n] if r is None or value[n] is None else r(value[n]) for n, r in fields.items()
        }

    return ready


def _double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _time(value: int | dt.time) -> str:
    if isinstance(value, dt.time):
        return value.isoformat()
    seconds, ms = divmod(value, 1000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{clock}.{ms:03}" if ms else clock


def _timestamp(value: dt.datetime) -> str:
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds")


_SCALARS: dict[Base, _Ready] = {
    Base.DOUBLE: _double,
    Base.DECIMAL: lambda value: orjson.Fragment(format(value, "f")),
    Base.BYTES: lambda value: base64.b64encode(value).decode(),
    Base.DATE: dt.date.isoformat,
    Base.TIME: _time,
    Base.TIMESTAMP: _timestamp,
}
