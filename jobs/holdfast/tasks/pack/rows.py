"""The encoding of a row of state: fixed-width columns by numpy, followed by the rest.

    version u8 | nulls u64 | rowtime i64 | fixed columns … | msgpack of the variable columns

A table whose columns are all fixed-width (COUNT, SUM, AVG, MIN of numbers: the usual case) is
encoded and decoded without a Python step per row.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from collections.abc import Sequence
from functools import cache
from itertools import repeat
from operator import is_not
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import StoreCorrupted
from holdfast.tasks.evaluate.as_numbers import as_numbers, from_numbers
from holdfast.tasks.evaluate.doubles import canonical, is_double
from holdfast.tasks.pack.packed_texts import pack_texts, unpack_texts
from holdfast.types.columns.byte_columns import fixed
from holdfast.types.columns.pieces import Lazy

__all__ = ["ROW_VERSION", "RowCodec", "row_time"]

ROW_VERSION = 1

_FIXED_MAX = 64  # bits of the null mask
_ROWTIME = struct.Struct("<9xq")


@cache
def _in_place() -> dict[pa.DataType, str]:
    """NumPy's names of the fixed-width types."""
    return {
        pa.bool_(): "u1",
        pa.int32(): "<i4",
        pa.int64(): "<i8",
        pa.float64(): "<f8",
        pa.date32(): "<i4",
        pa.timestamp("us", tz="UTC"): "<i8",
    }


@cache
def _stored_as() -> dict[pa.DataType, pa.DataType]:
    return {
        pa.bool_(): pa.uint8(),
        pa.date32(): pa.int32(),
        pa.timestamp("us", tz="UTC"): pa.int64(),
    }


def row_time(row: bytes) -> int:
    """The rowtime of an encoded row, ms."""
    time: int = _ROWTIME.unpack_from(row)[0]
    return time


class RowCodec:
    """Encodes and decodes rows of one table.

    Args:
        types: Arrow types of the state columns, in order.
        version: of the rows; tables whose columns have changed tell them apart by it.
    """

    def __init__(self, types: Sequence[pa.DataType], version: int = ROW_VERSION) -> None:
        self._types = list(types)
        self._version = version
        fixed = [i for i, t in enumerate(self._types) if t in _in_place()]
        self._fixed = fixed[:_FIXED_MAX]
        self._variable = [i for i in range(len(self._types)) if i not in set(self._fixed)]
        fields = [("version", "u1"), ("nulls", "<u8"), ("rowtime", "<i8")]
        fields += [(f"c{i}", _in_place()[self._types[i]]) for i in self._fixed]
        self._dtype = np.dtype(fields)
        texts = all(self._types[i] == pa.string() for i in self._variable)
        self._only_texts = bool(self._variable) and texts

    def encode(
        self, rowtime: npt.NDArray[np.int64], columns: Sequence[pa.Array]
    ) -> Sequence[bytes]:
        """One byte string per row; `rowtime` in ms, `columns` in the order of `types`."""
        rows = np.empty(len(rowtime), self._dtype)
        rows["version"] = self._version
        rows["rowtime"] = rowtime
        nulls = np.zeros(len(rowtime), np.uint64)
        for bit, i in enumerate(self._fixed):
            rows[f"c{i}"], is_null = _to_numpy(columns[i])
            if is_null is not None:
                nulls |= is_null.astype(np.uint64) << np.uint64(bit)
        rows["nulls"] = nulls
        if self._only_texts:
            packed = pack_texts(rows, [_whole(columns[i]) for i in self._variable])
            if packed is not None:
                return packed
        heads: Lazy[bytes] = Lazy(fixed(rows))
        if not self._variable:
            return heads
        tails = zip(*(_plain(columns[i]) for i in self._variable), strict=True)
        return [h + _pack(t) for h, t in zip(heads, tails, strict=True)]

    def decode(
        self, rows: Sequence[bytes | None]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], list[pa.Array]]:
        """(rowtime in ms, present, columns); absent rows are null in every column.

        Raises:
            StoreCorrupted: a row was written by another version.
        """
        present = np.fromiter(map(is_not, rows, repeat(None)), np.bool_, len(rows))
        width, there = self._dtype.itemsize, filter(None, rows)
        heads = b"".join(row[:width] for row in there) if self._variable else b"".join(there)
        count = int(np.count_nonzero(present))
        if len(heads) != width * count:
            raise _wrong_layout(f"{len(heads)} bytes for {count} rows of {width}")
        found = np.frombuffer(heads, self._dtype)
        if (found["version"] != self._version).any():
            newest = int(found["version"].max())
            raise _wrong_layout(f"row version {newest}, expected {self._version}")
        table = np.zeros(len(rows), self._dtype)
        table[present] = found
        columns: list[pa.Array] = [None] * len(self._types)
        for bit, i in enumerate(self._fixed):
            is_null = ~present | ((table["nulls"] >> np.uint64(bit)) & np.uint64(1)).astype(bool)
            columns[i] = _from_numpy(table[f"c{i}"], is_null, self._types[i])
        self._decode_variable(rows, width, columns)
        return np.ascontiguousarray(table["rowtime"]), present, columns

    def _decode_variable(
        self, rows: Sequence[bytes | None], width: int, columns: list[pa.Array]
    ) -> None:
        if not self._variable:
            return
        if self._only_texts:
            texts = unpack_texts(rows, width, len(self._variable))
            if texts is not None:
                for i, column in zip(self._variable, texts, strict=True):
                    columns[i] = column
                return
        absent = (None,) * len(self._variable)
        tails = [absent if r is None else _unpack(r[width:]) for r in rows]
        for at, i in enumerate(self._variable):
            kind = self._types[i]
            values = [t[at] for t in tails]
            if _packed(kind):
                values = [_restore(v, kind) for v in values]
            columns[i] = from_numbers(values, kind)


def _wrong_layout(fact: str) -> StoreCorrupted:
    return StoreCorrupted(
        f"A stored row does not have the layout of this table: {fact}.",
        cause="the store or its changelog was written by another statement or version",
        action="start the job under a new application.id, or use the version that wrote it",
    )


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _to_numpy(column: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    column = _whole(column)
    storage = _stored_as().get(column.type)
    plain = column.cast(storage) if storage is not None else column
    is_null = None
    if column.null_count:
        is_null = pc.is_null(column).to_numpy(zero_copy_only=False)
        plain = pc.fill_null(plain, 0)
    values = plain.to_numpy(zero_copy_only=False)
    return canonical(values) if is_double(column.type) else values, is_null


def _from_numpy(
    values: npt.NDArray[Any], is_null: npt.NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    storage = _stored_as().get(kind, kind)
    mask = is_null if is_null.any() else None
    array = pa.array(np.ascontiguousarray(values), storage, mask=mask)
    return array.cast(kind) if storage != kind else array


def _plain(column: pa.Array) -> list[Any]:
    values: list[Any] = as_numbers(column).to_pylist()
    return [_simple(v, column.type) for v in values] if _packed(column.type) else values


def _packed(kind: pa.DataType) -> bool:
    """Whether values of a type must pass through `_simple` before msgpack."""
    return bool(pa.types.is_nested(kind) or pa.types.is_decimal(kind) or pa.types.is_date(kind))


def _simple(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911 - one line per type
    """A value that msgpack can write; `_restore` is the inverse."""
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return str(value)
    if pa.types.is_date(kind):
        return value + _EPOCH_DAY
    if pa.types.is_list(kind):
        return [_simple(v, kind.value_type) for v in value]
    if pa.types.is_map(kind):
        return [(_simple(k, kind.key_type), _simple(v, kind.item_type)) for k, v in value]
    if pa.types.is_struct(kind):
        return {f.name: _simple(value[f.name], f.type) for f in kind}
    return value


_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()


def _restore(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911 - one line per type
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return decimal.Decimal(value)
    if pa.types.is_date(kind):
        return value - _EPOCH_DAY
    if pa.types.is_list(kind):
        return [_restore(v, kind.value_type) for v in value]
    if pa.types.is_struct(kind):
        return {f.name: _restore(value.get(f.name), f.type) for f in kind}
    if pa.types.is_map(kind):
        return [(_restore(k, kind.key_type), _restore(v, kind.item_type)) for k, v in value]
    return value


def _pack(values: tuple[Any, ...]) -> bytes:
    return bytes(msgpack.packb(values))


def _unpack(data: bytes) -> Sequence[Any]:
    unpacked: Sequence[Any] = msgpack.unpackb(data, strict_map_key=False)
    return unpacked
