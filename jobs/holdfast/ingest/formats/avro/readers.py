"""Readers of Avro's types into the types of SQL columns, made once for each writer's schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.ingest.formats.avro.cursor import Cursor, Rows
from holdfast.ingest.formats.avro.leaves import leaf
from holdfast.ingest.formats.base import Undecodable
from holdfast.tasks.registered.avro_encode import field_of
from holdfast.tasks.registered.avro_schema import LEVELS_MAX, AvroNode, map_parts
from holdfast.types.columns.schema import Base, Column, SqlType

__all__ = ["Read", "column_readers", "whole_reader"]

Read: TypeAlias = "Callable[[Cursor, Rows], pa.Array]"
"""Reads a value of each of the rows, and moves their places behind it."""
_EMPTY_ITEMS_MAX = 100_000  # items of no bytes in one record: its size does not bound them


def column_readers(record: AvroNode, wanted: Sequence[Column]) -> Read:
    """Reads a record into a STRUCT of the wanted columns.

    Raises:
        Undecodable: a field is of a type that its column cannot hold.
    """
    return _record(record, wanted, 0)


def whole_reader(root: AvroNode, column: Column) -> Read:
    """Reads a value that is the column's own, without a record.

    Raises:
        Undecodable: the column cannot hold it.
    """
    return _reader(root, column.type, column.name, 0)


def _record(record: AvroNode, wanted: Sequence[Column], level: int) -> Read:
    places = {id(f): i for i, c in enumerate(wanted) if (f := field_of(record, c.name))}
    steps: list[tuple[int | None, Read]] = []
    for each in record.fields:
        at = places.get(id(each))
        read = (
            _reader(each.type, wanted[at].type, wanted[at].name, level + 1)
            if at is not None
            else _reader(each.type, None, each.name, level + 1)
        )
        steps.append((at, read))
    kinds = [c.type.arrow() for c in wanted]
    fields = [pa.field(c.name, k) for c, k in zip(wanted, kinds, strict=True)]

    def read_record(cursor: Cursor, rows: Rows) -> pa.Array:
        found: list[pa.Array | None] = [None] * len(wanted)
        for at, read in steps:
            made = read(cursor, rows)
            if at is not None:
                found[at] = made
        arrays = [
            pa.nulls(len(rows), k) if a is None else a for a, k in zip(found, kinds, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=fields)

    return read_record


def _reader(node: AvroNode, kind: SqlType | None, path: str, level: int) -> Read:
    """`kind` None: the value is read over."""
    if level > LEVELS_MAX:
        return _too_deep
    if node.kind == "union":
        return _union(node, kind, path, level)
    made = leaf(node, kind)
    if made is not None:
        return made
    if node.kind in ("array", "map"):
        return _items(node, kind, path, level)
    if node.kind == "record" and kind is None:
        return _later(node, level)
    if node.kind == "record" and kind is not None and kind.base is Base.STRUCT:
        return _record(node, kind.fields, level)
    raise Undecodable(f"its {node.label} cannot be read as {path} {kind}")


def _too_deep(cursor: Cursor, rows: Rows) -> pa.Array:
    if len(rows):
        cursor.fail(rows, f"data are nested in more than {LEVELS_MAX} levels")
    return pa.nulls(len(rows))


def _later(node: AvroNode, level: int) -> Read:
    """Reads over a record, which may hold itself: its reader is made when data need it."""
    made: list[Read] = []

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        if not len(rows):
            return pa.nulls(0)
        if not made:
            made.append(_record(node, (), level))
        made[0](cursor, rows)
        return pa.nulls(len(rows))

    return read


def _union(node: AvroNode, kind: SqlType | None, path: str, level: int) -> Read:
    readers, problems = [], {}
    for at, branch in enumerate(node.branches):
        try:
            readers.append(_branch(node, branch, kind, path, level))
        except Undecodable as error:
            problems[at] = str(error)
            readers.append(_reader(branch, None, path, level + 1))
    if len(problems) == sum(b.kind != "null" for b in node.branches) and problems:
        raise Undecodable(next(iter(problems.values())))
    arrow = pa.null() if kind is None else kind.arrow()

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        chosen = cursor.numbers(rows)
        wrong = (chosen < 0) | (chosen >= len(readers))
        if wrong.any():
            cursor.fail(rows[wrong], f"not what its schema writes: a union of {len(readers)} types")
            chosen = np.where(wrong, 0, chosen)
        if len(rows) and (chosen == chosen[0]).all():
            return _typed(_read(cursor, rows, int(chosen[0])), arrow)
        order = np.full(len(rows), -1, np.int64)
        parts, before = [], 0
        for at in np.unique(chosen).tolist():
            places = np.flatnonzero(chosen == at)
            parts.append(_typed(_read(cursor, rows[places], at), arrow))
            order[places] = np.arange(before, before + len(places))
            before += len(places)
        if not parts:
            return pa.nulls(0, arrow)
        return pa.concat_arrays(parts).take(pa.array(order))

    def _read(cursor: Cursor, rows: Rows, at: int) -> pa.Array:
        found = readers[at](cursor, rows)
        if at in problems:
            cursor.fail(rows, problems[at])
        return found

    return read


def _typed(found: pa.Array, kind: pa.DataType) -> pa.Array:
    return found if found.type == kind else pa.nulls(len(found), kind)


def _branch(node: AvroNode, branch: AvroNode, kind: SqlType | None, path: str, level: int) -> Read:
    others = [b for b in node.branches if b.kind != "null"]
    if kind is None or branch.kind == "null" or kind.base is not Base.STRUCT or len(others) == 1:
        return _reader(branch, kind, path, level + 1)
    name = branch.name.rpartition(".")[2] or branch.kind
    field = next((f for f in kind.fields if f.name in (name, name.upper())), None)
    if field is None:
        return _reader(branch, kind, path, level + 1)
    inner = _reader(branch, field.type, f"{path}->{field.name}", level + 1)
    fields = [pa.field(f.name, f.type.arrow()) for f in kind.fields]

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        found = inner(cursor, rows)
        arrays = [found if f.name == field.name else pa.nulls(len(rows), f.type) for f in fields]
        return pa.StructArray.from_arrays(arrays, fields=fields)

    return read


def _items(node: AvroNode, kind: SqlType | None, path: str, level: int) -> Read:
    """Arrays and maps."""
    assert node.items is not None
    element = None if kind is None else kind.element
    parts = map_parts(node)
    entry: Read
    if kind is None or (node.kind == "array" and kind.base is Base.ARRAY):
        entry = _reader(node.items, element, f"{path}[]", level + 1)
        if node.kind == "map":
            entry = _entry(AvroNode("string"), node.items, None, path, level)
    elif kind.base is Base.MAP and (node.kind == "map" or parts is not None):
        key, value = parts or (AvroNode("string"), node.items)
        entry = _entry(key, value, kind, path, level)
    else:
        raise Undecodable(f"its {node.label} cannot be read as {path} {kind}")

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        counts, items = _blocks(cursor, rows, entry)
        if kind is None:
            return pa.nulls(len(rows))
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        if kind.base is Base.ARRAY:
            return pa.ListArray.from_arrays(offsets, items)
        return _maps(cursor, rows, offsets, items)

    return read


def _maps(cursor: Cursor, rows: Rows, offsets: pa.Array, items: pa.Array) -> pa.Array:
    keys, values = items.field(0), items.field(1)
    if keys.null_count:
        ends = offsets.to_numpy()
        odd = np.searchsorted(ends, np.flatnonzero(keys.is_null()), side="right") - 1
        cursor.fail(rows[np.unique(odd)], "a MAP has a null key")
        keys = pc.fill_null(keys, pa.scalar("" if keys.type == pa.string() else 0, keys.type))
    return pa.MapArray.from_arrays(offsets, keys, values)


def _entry(key: AvroNode, value: AvroNode, kind: SqlType | None, path: str, level: int) -> Read:
    keys = _reader(key, None if kind is None else kind.map_key, f"{path}->MAP_KEY", level + 1)
    values = _reader(value, None if kind is None else kind.element, f"{path}->MAP_VAL", level + 1)

    def read(cursor: Cursor, rows: Rows) -> pa.Array:
        found = [keys(cursor, rows), values(cursor, rows)]
        return pa.StructArray.from_arrays(found, names=["key", "value"])

    return read


def _blocks(cursor: Cursor, rows: Rows, entry: Read) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """How many items each row has, and all items in order: the n-th of all rows at once."""
    counts = np.zeros(len(rows), np.int64)
    left = np.zeros(len(rows), np.int64)
    owners, parts = [], []
    active = np.arange(len(rows))
    while len(active):
        fresh = active[left[active] == 0]
        if len(fresh):
            left[fresh] = _block_sizes(cursor, rows[fresh], counts[fresh])
            active = active[left[active] > 0]
            if not len(active):
                break
        parts.append(entry(cursor, rows[active]))
        owners.append(active)
        left[active] -= 1
        counts[active] += 1
        if cursor.bad:
            ended = np.fromiter((int(r) in cursor.bad for r in rows[active]), bool, len(active))
            active = active[~ended]
    if not parts:
        return counts, entry(cursor, rows[:0])
    order = np.argsort(np.concatenate(owners), kind="stable")
    return counts, pa.concat_arrays(parts).take(pa.array(order))


def _block_sizes(
    cursor: Cursor, rows: Rows, before: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The number of items in the next block of each row; 0: there is none."""
    sizes = cursor.numbers(rows)
    measured = np.flatnonzero(sizes < 0)
    if len(measured):
        cursor.numbers(rows[measured])  # the block's size in bytes
        sizes[measured] = -sizes[measured]
    # An item may take no bytes at all.
    many = (sizes < 0) | (sizes + before > cursor.left(rows) + before + _EMPTY_ITEMS_MAX)
    if many.any():
        cursor.fail(rows[many], "not what its schema writes: more items than bytes")
    bad = np.fromiter((int(r) in cursor.bad for r in rows), bool, len(rows)) if cursor.bad else many
    return np.where(bad, 0, sizes)
