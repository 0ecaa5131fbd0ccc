"""A changelog's rows, as far as they can be read without the engine: key, newest time, count.

key    one STRING column: UTF-8; one INTEGER or BIGINT: 4 or 8 bytes, big-endian;
       several columns: a JSON object of k0, k1 …; then the window start in ms, 8 bytes
row    version u8 | nulls u64 | newest event time i64 | first aggregate …, little-endian

The distinct values of an aggregate may be records of their own, by row version 2:

key    0x02 | length of the row's key u32 | the row's key | number of the aggregate u16 | value
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from holdfast.judge.values import Key, RowHead
from holdfast.types.columns.schema import Base, Column
from holdfast.types.statements.topology import AggregateStep

__all__ = ["HEAD", "Parse", "element_counts", "element_of", "key_parser", "row_heads"]

Parse = Callable[[bytes], tuple[Any, ...]]

_INSIDE, _APART = 1, 2  # versions of rows whose distinct values are inside, or records apart
HEAD, _COUNT = struct.Struct("<BQq"), struct.Struct("<q")
_WINDOW = struct.Struct(">q")
_LENGTH, _NUMBER = struct.Struct(">I"), struct.Struct(">H")
_NUMBERS = {Base.INTEGER: struct.Struct(">i"), Base.BIGINT: struct.Struct(">q")}
# Types whose form in JSON is the same on both sides.
_PLAIN = frozenset({Base.STRING, Base.INTEGER, Base.BIGINT, Base.BOOLEAN})


def row_heads(
    rows: Iterable[tuple[bytes, bytes]], keys: Sequence[Column], step: AggregateStep
) -> dict[Key, RowHead | None] | None:
    """The heads of the rows, by key; None for a row in another layout.

    Args:
        rows: state keys, and at least the first 25 bytes of each row.
        keys: the key columns.

    Returns:
        None where keys of these types cannot be read.

    Raises:
        ValueError, struct.error: a malformed key.
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
    if len(row) < least or row[0] not in (_INSIDE, _APART):
        return None
    _, nulls, newest_ms = HEAD.unpack_from(row)
    if not counted:
        return RowHead(newest_ms, None)
    records = 0 if nulls & 1 else _COUNT.unpack_from(row, HEAD.size)[0]
    return RowHead(newest_ms, records)


def element_counts(
    rows: Iterable[tuple[bytes, bytes]],
    elements: Mapping[tuple[bytes, int], int],
    keys: Sequence[Column],
    step: AggregateStep,
) -> dict[Key, dict[str, int]]:
    """The number of distinct values of each row, by the value column that counts them.

    Args:
        rows: see `row_heads`; those that have their values inside are left out.
        elements: how many there are of each state key and aggregate, by its number.
        keys: the key columns.

    Raises:
        ValueError, struct.error: a malformed key.
    """
    parse, counting = key_parser(keys), _counting(step)
    if parse is None or not counting:
        return {}
    width = _WINDOW.size if step.window is not None else 0
    found = {}
    for state_key, row in rows:
        if row[:1] == bytes([_APART]):
            plain, window = state_key[: len(state_key) - width], state_key[len(state_key) - width :]
            bounds = _WINDOW.unpack(window) if width else ()
            counts = {name: elements.get((state_key, n), 0) for n, name in counting.items()}
            found[(*parse(plain), *bounds)] = counts
    return found


def _counting(step: AggregateStep) -> dict[int, str]:
    """By the number of an aggregate that counts distinct values, the column that it alone makes."""
    numbers = {call.name: n for n, call in enumerate(step.aggregates)
               if call.function == "COUNT_DISTINCT"}  # fmt: skip
    return {numbers[o.ref]: o.column.name for o in step.outputs if o.ref in numbers}


def element_of(key: bytes) -> tuple[bytes, int]:
    """The state key and the number of the aggregate that an element's record belongs to.

    Raises:
        struct.error: a malformed key.
    """
    (length,) = _LENGTH.unpack_from(key, 1)
    end = 1 + _LENGTH.size + length
    (number,) = _NUMBER.unpack_from(key, end)
    return key[1 + _LENGTH.size : end], number


def key_parser(keys: Sequence[Column]) -> Parse | None:
    """A parser of a state key's columns, without its window; None: types that cannot be read."""
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
