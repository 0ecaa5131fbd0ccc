"""Readers of Avro's types that hold no others."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from holdfast.ingest.formats.avro.cursor import Cursor, Rows
from holdfast.ingest.formats.base import Undecodable
from holdfast.ingest.formats.text import fit_unscaled
from holdfast.tasks.registered.avro_schema import AvroNode
from holdfast.types.columns.schema import Base, SqlType

__all__ = ["leaf"]

_Read: TypeAlias = "Callable[[Cursor, Rows], pa.Array]"
_MICROS = (1 << 63) // 1000
_DAY_MS = 86_400_000
_INTEGERS = ("int", "long")


def leaf(node: AvroNode, kind: SqlType | None) -> _Read | None:
    """The reader of a simple type; None: the type is not simple, or the column cannot hold it."""
    if node.kind == "null":
        arrow = pa.null() if kind is None else kind.arrow()
        return lambda _, rows: pa.nulls(len(rows), arrow)
    if node.kind in _INTEGERS:
        return _integer(node, kind)
    if node.kind == "boolean":
        return _boolean(kind)
    if node.kind in ("float", "double"):
        return _float(node, kind)
    if node.kind in ("string", "bytes", "fixed"):
        return _text(node, kind)
    return _enum(node, kind) if node.kind == "enum" else None


def _skipped(rows: Rows) -> pa.Array:
    return pa.nulls(len(rows))


def _integer(node: AvroNode, kind: SqlType | None) -> _Read | None:
    if kind is None:

        def skip(cursor: Cursor, rows: Rows) -> pa.Array:
            cursor.numbers(rows)
            return _skipped(rows)

        return skip
    base, bits = kind.base, 31 if node.kind == "int" else 63
    narrow = base in (Base.INTEGER, Base.DATE, Base.TIME)
    fits = base in (Base.INTEGER, Base.BIGINT, Base.STRING, Base.DATE, Base.TIME, Base.TIMESTAMP)
    if not fits or (narrow and bits == 63) or (base is Base.TIMESTAMP and bits == 31):
        return None
    arrow, micros = kind.arrow(), node.logical.endswith("micros")

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        values = cursor.numbers(rows)
        low, high = -(1 << bits), (1 << bits) - 1
        if base is Base.TIME:
            low, high = 0, _DAY_MS - 1
        elif base is Base.TIMESTAMP and not micros:
            low, high = -_MICROS, _MICROS - 1
        wrong = (values < low) | (values > high)
        if wrong.any():
            cursor.fail(rows[wrong], f"a number is out of the range of {base}")
            values = np.where(wrong, 0, values)
        if base is Base.TIMESTAMP:
            return pa.array(values if micros else values * 1_000).cast(arrow)
        if narrow:
            values = values.astype(np.int32)
        return pa.array(values).cast(arrow)

    return read


def _boolean(kind: SqlType | None) -> _Read | None:
    if kind is not None and kind.base not in (Base.BOOLEAN, Base.STRING):
        return None

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        values = cursor.take(rows, 1).ravel()
        wrong = values > 1
        if wrong.any():
            cursor.fail(rows[wrong], "not what its schema writes: a boolean is neither 0 nor 1")
        return pa.array(values == 1).cast(pa.bool_() if kind is None else kind.arrow())

    return read


def _float(node: AvroNode, kind: SqlType | None) -> _Read | None:
    if kind is not None and kind.base is not Base.DOUBLE:
        return None
    width, dtype = (4, "<f4") if node.kind == "float" else (8, "<f8")

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        values = np.ascontiguousarray(cursor.take(rows, width)).view(dtype).ravel()
        return pa.array(values.astype(np.float64))

    return read


def _text(node: AvroNode, kind: SqlType | None) -> _Read | None:
    def raw(cursor: Cursor, rows: Rows) -> pa.Array:
        sizes = (
            np.full(len(rows), node.size, np.int64)
            if node.kind == "fixed"
            else cursor.numbers(rows)
        )
        return cursor.texts(rows, sizes)

    if kind is None or (kind.base is Base.BYTES and node.logical != "decimal"):
        return raw
    if kind.base is Base.DECIMAL and node.logical == "decimal":
        return _decimal(node, kind, raw)
    if kind.base is Base.STRING and node.kind == "string":
        return lambda cursor, rows: _utf8(cursor, rows, raw(cursor, rows))
    return None


def _utf8(cursor: Cursor, rows: Rows, found: pa.Array) -> pa.Array:
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        texts: list[str] = []
        for row, value in zip(rows.tolist(), found.to_pylist(), strict=True):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError as error:
                texts.append("")
                cursor.bad.setdefault(row, f"not valid UTF-8 at byte {error.start} of a string")
        return pa.array(texts, pa.string())


def _decimal(node: AvroNode, kind: SqlType, raw: _Read) -> _Read:
    arrow = kind.arrow()

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        values: list[Decimal | None] = []
        for row, data in zip(rows.tolist(), raw(cursor, rows).to_pylist(), strict=True):
            try:
                values.append(fit_unscaled(data, node.scale, kind))
            except Undecodable as error:
                values.append(None)
                cursor.bad.setdefault(row, str(error))
        return pa.array(values, arrow)

    return read


def _enum(node: AvroNode, kind: SqlType | None) -> _Read | None:
    if kind is not None and kind.base is not Base.STRING:
        return None
    symbols = pa.array(node.symbols, pa.string())

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        places = cursor.numbers(rows)
        wrong = (places < 0) | (places >= len(symbols))
        if wrong.any():
            cursor.fail(rows[wrong], f"not what its schema writes: no symbol of {node.label}")
        return symbols.take(pa.array(np.where(wrong, 0, places), mask=wrong))

    return read
