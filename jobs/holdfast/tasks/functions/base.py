"""One Python scalar function, and how it is evaluated over Arrow columns.

A function takes the values of one row and returns one value.  A DATE is days since the epoch, a
TIMESTAMP milliseconds since the epoch, a TIME milliseconds of the day, a MAP or a STRUCT a dict, a
DECIMAL a `Decimal`, BYTES are bytes.  A call that raises gives NULL, as in ksqlDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from holdfast.tasks.functions.limits import TooLargeError, checked, note
from holdfast.types.columns.schema import Base, SqlType

__all__ = ["PythonFunction", "Types", "evaluate"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Types:
    """The argument and result types of a call, for functions that depend on them."""

    result: SqlType
    args: tuple[SqlType, ...]


@dataclass(frozen=True)
class PythonFunction:
    """A function and its name.

    Attributes:
        body: computes the result from a row's values; with `typed` its first argument is `Types`.
        nulls: whether it takes NULL arguments; otherwise one NULL gives NULL without a call.
        columns: computes the same for whole columns, from `Types` and Arrow arrays; None: it
            cannot for these values.
    """

    name: str
    body: Callable[..., Any]
    nulls: bool = False
    typed: bool = False
    columns: Callable[..., pa.Array | None] | None = None


def evaluate(function: PythonFunction, types: Types, columns: Sequence[pa.Array]) -> pa.Array:
    """Evaluates the function over equally long columns, row by row.

    The result is of `types.result`'s Arrow type.
    """
    at_once = None if function.columns is None else function.columns(types, *columns)
    if at_once is not None:
        return at_once
    values = [_incoming(c, t) for c, t in zip(columns, types.args, strict=True)]
    before = (types,) if function.typed else ()
    results = [_row(function, before, row) for row in zip(*values, strict=True)]
    return _outgoing(results, types.result)


def _row(function: PythonFunction, before: tuple[Any, ...], row: tuple[Any, ...]) -> Any:
    if not function.nulls and None in row:
        return None
    try:
        return checked(function.body(*before, *row))
    except TooLargeError as error:
        note(function.name, error)
        return None
    except Exception:  # noqa: BLE001 - a failed call is NULL, and the row stays
        return None


def _incoming(column: pa.Array, sql_type: SqlType) -> list[Any]:
    if sql_type.base is Base.TIMESTAMP:
        return list(column.cast(pa.timestamp("ms", column.type.tz), safe=False)
                    .cast(pa.int64()).to_pylist())  # fmt: skip
    if sql_type.base is Base.DATE:
        return list(column.cast(pa.int32()).to_pylist())
    values = column.to_pylist()
    return [_plain(v, sql_type) for v in values] if _nested(sql_type) else values


def _nested(sql_type: SqlType) -> bool:
    return sql_type.base in (Base.ARRAY, Base.MAP, Base.STRUCT)


def _plain(value: Any, sql_type: SqlType) -> Any:
    """A nested value in the form that functions take."""
    return None if value is None else _inside(value, sql_type)


def _inside(value: Any, sql_type: SqlType) -> Any:
    if sql_type.base is Base.ARRAY and sql_type.element is not None:
        return [_plain(v, sql_type.element) for v in value]
    if sql_type.base is Base.MAP and sql_type.element is not None:
        return {_plain(k, sql_type.map_key): _plain(v, sql_type.element) for k, v in value}
    if sql_type.base is Base.STRUCT:
        return {f.name: _plain(value[f.name], f.type) for f in sql_type.fields}
    if sql_type.base is Base.TIMESTAMP:
        return (value.replace(tzinfo=UTC) - _EPOCH) // _MS
    if sql_type.base is Base.DATE:
        return (value - _EPOCH_DAY).days
    return value


def _outgoing(values: list[Any], sql_type: SqlType) -> pa.Array:
    try:
        return pa.array(values, _in_ms(sql_type)).cast(sql_type.arrow())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.concat_arrays([_one(v, sql_type) for v in values])


def _one(value: Any, sql_type: SqlType) -> pa.Array:
    """One result as an array; NULL if it is not a value of the type."""
    try:
        return pa.array([value], _in_ms(sql_type)).cast(sql_type.arrow())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.nulls(1, sql_type.arrow())


def _in_ms(sql_type: SqlType) -> pa.DataType:
    """The Arrow type with TIMESTAMPs in milliseconds."""
    if sql_type.base is Base.TIMESTAMP:
        return pa.timestamp("ms", tz="UTC")
    if sql_type.base is Base.ARRAY and sql_type.element is not None:
        return pa.list_(_in_ms(sql_type.element))
    if sql_type.base is Base.MAP and sql_type.element is not None:
        return pa.map_(_in_ms(sql_type.map_key), _in_ms(sql_type.element))
    if sql_type.base is Base.STRUCT:
        return pa.struct([pa.field(f.name, _in_ms(f.type)) for f in sql_type.fields])
    return sql_type.arrow()
