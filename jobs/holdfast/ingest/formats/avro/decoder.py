"""Avro, decoded a column at a time: numpy reads the same field of all records at once.

A cursor per record moves over the joined payloads.  What is wrong with one record marks it alone:
its cursor goes to its end, where nothing is read any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from holdfast.errors import SchemaRefused
from holdfast.ingest.formats.avro.aliases import rename_by_aliases
from holdfast.ingest.formats.avro.cursor import Cursor
from holdfast.ingest.formats.avro.readers import Read, column_readers, whole_reader
from holdfast.ingest.formats.base import Decoded, Undecodable, null_columns
from holdfast.ingest.formats.registered import MakeReader, SchemaReader
from holdfast.tasks.registered.avro_schema import AvroNode, parse_avro
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import Schema

__all__ = ["avro_reader"]

_JOINED_MAX = 1 << 30  # bytes; Arrow's offsets have 32 bits


def avro_reader(
    wanted: Sequence[Column], unwrapped: bool, declared: Schema | None = None
) -> MakeReader:
    """The function that makes the reader of one writer's schema.

    Args:
        declared: the schema that the columns come from, whose aliases count; None: none.
    """

    def make(schema: Schema) -> SchemaReader:
        try:
            root = parse_avro(schema)
            if declared is not None:
                rename_by_aliases(root, parse_avro(declared))
            return _AvroReader(root, wanted, unwrapped=unwrapped)
        except (SchemaRefused, Undecodable) as error:
            columns = ", ".join(map(str, wanted))
            raise Undecodable(f"{error}; it is {schema.text[:300]}, read as {columns}") from None

    return make


class _AvroReader(SchemaReader):
    def __init__(self, root: AvroNode, wanted: Sequence[Column], *, unwrapped: bool) -> None:
        if not unwrapped and root.kind != "record":
            raise Undecodable(f"it is of type {root.label}, not a record")
        self._wanted = tuple(wanted)
        self._read: Read = (
            whole_reader(root, wanted[0]) if unwrapped else column_readers(root, wanted)
        )
        self._unwrapped = unwrapped

    def decode(self, payloads: Sequence[bytes], start: int) -> Decoded:
        if sum(map(len, payloads)) > _JOINED_MAX and len(payloads) > 1:
            return self._halves(payloads, start)
        return self._decoded(Cursor(payloads, start))

    def decode_alike(self, payloads: Sequence[bytes], head: bytes) -> Decoded | None:
        if sum(map(len, payloads)) > _JOINED_MAX:
            return super().decode_alike(payloads, head)
        cursor = Cursor(payloads, len(head))
        return self._decoded(cursor) if cursor.behind(head) else None

    def _decoded(self, cursor: Cursor) -> Decoded:
        rows = np.arange(len(cursor.end))
        found = self._read(cursor, rows)
        cursor.finish()
        columns = [found] if self._unwrapped else found.flatten()
        if not cursor.bad:
            nulls = np.flatnonzero(found.is_null()) if self._unwrapped and found.null_count else ()
            return Decoded(tuple(columns), {}, frozenset(map(int, nulls)))
        good = np.ones(len(rows), np.bool_)
        good[list(cursor.bad)] = False
        index = pa.array(rows, mask=~good)
        return Decoded(tuple(c.take(index) for c in columns), dict(cursor.bad))

    def _halves(self, payloads: Sequence[bytes], start: int) -> Decoded:
        middle = len(payloads) // 2
        first, second = (
            self.decode(payloads[:middle], start),
            self.decode(payloads[middle:], start),
        )
        columns = zip(first.columns, second.columns, strict=True)
        return Decoded(
            tuple(pa.concat_arrays(pair) for pair in columns) or null_columns(self._wanted, 0),
            {**first.bad, **{middle + i: why for i, why in second.bad.items()}},
            first.nulls | {middle + i for i in second.nulls},
        )
