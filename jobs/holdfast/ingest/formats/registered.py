"""Payloads of formats with a schema registry: a zero byte, the schema's id (4 bytes), the data.

Each payload is read by its own writer's schema.  Payloads of one schema are decoded together; most
chunks have one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import SchemaMissing
from holdfast.ingest.formats.base import Decoded, Decoder, Payloads, Undecodable, null_columns
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import Schema, SchemaKind, Schemas

__all__ = [
    "HEADER_BYTES",
    "MakeReader",
    "RegisteredDecoder",
    "SchemaReader",
    "placed",
]

HEADER_BYTES = 5
_MAGIC = 0
_SCHEMAS_MAX = 1_000  # readers kept; a topic with more schemas makes some of them again


class SchemaReader(ABC):
    """Decodes what one schema wrote into the wanted columns."""

    @abstractmethod
    def decode(self, payloads: Sequence[bytes], start: int) -> Decoded:
        """Decodes each payload from its byte `start` on, as `Decoder.decode` does."""

    def decode_alike(self, payloads: Sequence[bytes], head: bytes) -> Decoded | None:
        """Decodes payloads that all begin with this header; None: one does not."""
        if all(map(bytes.startswith, payloads, repeat(head))):
            return self.decode(payloads, len(head))
        return None


MakeReader: TypeAlias = Callable[[Schema], SchemaReader]
"""Raises `Undecodable`: what the schema writes does not fit the columns; it names both schemas."""


class RegisteredDecoder(Decoder):
    """Finds each payload's schema, and decodes the payloads of each schema together."""

    def __init__(
        self, kind: SchemaKind, wanted: Sequence[Column], schemas: Schemas, make: MakeReader
    ) -> None:
        """See the module.

        Args:
            make: makes the reader of one schema.
        """
        self._kind = kind
        self._wanted = tuple(wanted)
        self._schemas = schemas
        self._make = make
        self._readers: dict[int, SchemaReader | str] = {}

    def decode(self, payloads: Payloads) -> Decoded:
        """See `Decoder`.

        Raises:
            RegistryUnavailable: an id is not known yet, and the registry does not answer.
        """
        if not payloads:
            return Decoded(null_columns(self._wanted, 0))
        alike = self._alike(payloads)
        if alike is not None:
            return alike
        ids = _ids(payloads)
        found = np.unique(ids)
        bad = {i: _headless(payloads[i]) for i in np.flatnonzero(ids == _BAD).tolist()}
        parts = []
        for schema_id in found[found >= 0].tolist():
            places = np.flatnonzero(ids == schema_id)
            part = self._of_schema(schema_id, [payloads[i] or b"" for i in places.tolist()])
            bad |= {int(places[i]): why for i, why in part.bad.items()}
            parts.append((places, part))
        if not parts:
            return Decoded(null_columns(self._wanted, len(payloads)), bad)
        return placed(parts, bad, len(payloads))

    def _alike(self, payloads: Payloads) -> Decoded | None:
        """Payloads of one schema; None: they are not, or it has no reader."""
        head = _head(payloads[0])
        if head[0] != _MAGIC or None in payloads:
            return None
        reader = self._reader(int.from_bytes(head[1:], "big"))
        if not isinstance(reader, SchemaReader):
            return None
        return reader.decode_alike(payloads, head)  # type: ignore[arg-type]

    def _of_schema(self, schema_id: int, payloads: Sequence[bytes]) -> Decoded:
        reader = self._reader(schema_id)
        if isinstance(reader, SchemaReader):
            return reader.decode(payloads, HEADER_BYTES)
        return Decoded(
            null_columns(self._wanted, len(payloads)), dict.fromkeys(range(len(payloads)), reader)
        )

    def _reader(self, schema_id: int) -> SchemaReader | str:
        """The reader, or why there is none."""
        known = self._readers.get(schema_id)
        if known is not None:
            return known
        try:
            made: SchemaReader | str = self._made(schema_id)
        except SchemaMissing as error:
            return error.fact  # not kept: it may be registered later
        except Undecodable as error:
            made = f"schema {schema_id}: {error}"
        if len(self._readers) >= _SCHEMAS_MAX:
            self._readers.clear()
        self._readers[schema_id] = made
        return made

    def _made(self, schema_id: int) -> SchemaReader:
        schema = self._schemas.by_id(schema_id)
        if schema.kind is not self._kind:
            raise Undecodable(f"it is of type {schema.kind}, but the format needs {self._kind}")
        return self._make(schema)


def placed(
    parts: Sequence[tuple[npt.NDArray[np.intp], Decoded]], bad: Mapping[int, str], rows: int
) -> Decoded:
    """The rows of all parts, each at its payload's place; the others are null."""
    index = np.full(rows, -1, np.int64)
    before = 0
    for places, _ in parts:
        index[places] = np.arange(before, before + len(places))
        before += len(places)
    order = pa.array(index, mask=index < 0)
    columns = zip(*(p.columns for _, p in parts), strict=True)
    nulls = frozenset(int(places[i]) for places, part in parts for i in part.nulls)
    return Decoded(tuple(pa.concat_arrays(c).take(order) for c in columns), bad, nulls)


_BAD, _NULL = -1, -2


def _ids(payloads: Payloads) -> npt.NDArray[np.int64]:
    """The schema id of each payload; `_BAD` without a header, `_NULL` without a payload."""
    heads = b"".join([_head(p) for p in payloads])
    rows = np.frombuffer(heads, np.dtype([("magic", "u1"), ("id", ">u4")]))
    ids = rows["id"].astype(np.int64)
    ids[rows["magic"] != _MAGIC] = _BAD
    ids[rows["magic"] == _ABSENT] = _NULL
    return ids


_ABSENT = 0xFE
_NO_HEAD = bytes([_ABSENT, 0, 0, 0, 0])
_BAD_HEAD = bytes([1, 0, 0, 0, 0])


def _head(payload: bytes | None) -> bytes:
    if payload is None:
        return _NO_HEAD
    if len(payload) < HEADER_BYTES or payload[0] != _MAGIC:
        return _BAD_HEAD
    return payload[:HEADER_BYTES]


def _headless(payload: bytes | None) -> str:
    data = payload or b""
    if data[:1] != bytes([_MAGIC]):
        return f"it begins with byte {data[:1].hex() or '(none)'}, not with 00 and a schema's id"
    return f"{len(data)} bytes, but a schema's id alone takes {HEADER_BYTES}"
