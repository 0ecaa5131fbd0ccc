"""The rows of a changelog as far as they can be read without the engine: keys, newest time, count.

key    one STRING column: UTF-8; one INTEGER or BIGINT: 4 or 8 bytes, big-endian;
       several columns: a JSON object of k0, k1 …; then the window start in ms, 8 bytes
row    version u8 | nulls u64 | newest event time i64 | first aggregate …, little-endian
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from holdfast.judge.values import Key, RowHead
from holdfast.types.schema import Base, Column
from holdfast.types.topology import AggregateStep

__all__ = ["HEAD", "Parse", "key_parser", "row_heads"]

Parse = Callable[[bytes], tuple[Any, ...]]

_VERSION = 1
HEAD, _COUNT = struct.Struct("<BQq"), struct.Struct("<q")
_WINDOW = struct.Struct(">q")
_NUMBERS = {Base.INTEGER: struct.Struct(">i"), Base.BIGINT: struct.Struct(">q")}
# Types whose form in JSON is the same on both sides.
_PLAIN = frozenset({Base.STRING, Base.INTEGER, Base.BIGINT, Base.BOOLEAN})


def row_heads(
    rows: Iterable[tuple[bytes, bytes]], keys: Sequence[Column], step: AggregateStep
) -> dict[Key, RowHead | None] | None:
    """What the rows say, by key; None in place of a row of another layout.

    Args:
        rows: state keys, and at least the first 25 bytes of each row.
        keys: the key columns.

    Returns:
        None where keys of these types are not read here.

    Raises:
        ValueError, struct.error: a key that is no such key.
    """
    parse = key_parser(keys)
    if parse is None:
        return None
    first = step.aggregates[0] if step.aggregates else None
    counted = first is not None and first.function == "COUNT" and not first.args
    if step.window is None:
        return {parse(key): _head(row, counted=counted) for key, row in rows}
    width = _WINDOW.size
    return {
        (*parse(key[:-width]), *_WINDOW.unpack(key[-width:])): _head(row, counted=counted)
        for key, row in rows
    }


def _head(row: bytes, *, counted: bool) -> RowHead | None:
    least = HEAD.size + (_COUNT.size if counted else 0)
    if len(row) < least or row[0] != _VERSION:
        return None
    _, nulls, newest_ms = HEAD.unpack_from(row)
    if not counted:
        return RowHead(newest_ms, None)
    records = 0 if nulls & 1 else _COUNT.unpack_from(row, HEAD.size)[0]
    return RowHead(newest_ms, records)


def key_parser(keys: Sequence[Column]) -> Parse | None:
    """What makes key columns of a state key without its window; None: not of these types."""
    bases = [column.type.base for column in keys]
    if not bases or not _PLAIN.issuperset(bases):
        return None
    if len(bases) == 1 and bases[0] is Base.STRING:
        return lambda key: (key.decode(),)
    if len(bases) == 1 and bases[0] in _NUMBERS:
        return _NUMBERS[bases[0]].unpack
    names = [f"k{i}" for i in range(len(bases))]

    def parts(key: bytes) -> tuple[Any, ...]:
        found = orjson.loads(key)
        return tuple(found[name] for name in names)

    return parts
