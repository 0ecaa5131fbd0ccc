"""PROTOBUF: messages of any writer's schema, each behind its place within the schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from holdfast.ingest.formats.base import Decoded, Undecodable, null_columns
from holdfast.ingest.formats.protobuf import read_messages
from holdfast.ingest.formats.registered import MakeReader, SchemaReader, placed
from holdfast.tasks.registered.proto.files import ProtoError, ProtoFile
from holdfast.tasks.registered.proto.framed import TOGETHER_MAX, Framed
from holdfast.tasks.registered.proto.framing import indexes_at
from holdfast.tasks.registered.proto.parse import parse_proto
from holdfast.tasks.registered.proto.read import MessageReader
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import Schema
from holdfast.types.statements.sources import Nullable

__all__ = ["protobuf_reader"]


def protobuf_reader(wanted: Sequence[Column], nullable: Nullable) -> MakeReader:
    """The function that makes the reader of one writer's schema; its data are always messages."""

    def make(schema: Schema) -> SchemaReader:
        try:
            return _ProtobufReader(schema, wanted, nullable)
        except ProtoError as error:
            raise Undecodable(f"{error}; it is {schema.text[:300]}") from None

    return make


class _ProtobufReader(SchemaReader):
    def __init__(self, schema: Schema, wanted: Sequence[Column], nullable: Nullable) -> None:
        self._nullable = nullable
        self._text = schema.text
        self._file: ProtoFile = parse_proto(schema.text, schema.references)
        self._wanted = tuple(wanted)
        self._readers: dict[str, MessageReader | str] = {}

    def decode(self, payloads: Sequence[bytes], start: int) -> Decoded:
        bad: dict[int, str] = {}
        parts = []
        for head, places in _by_header(payloads, start).items():
            try:
                indexes, end = indexes_at(head, start)
                reader = self._reader(indexes)
            except ProtoError as error:
                bad |= dict.fromkeys(places, str(error))
                continue
            messages = [payloads[i][end:] for i in places]
            part = read_messages(reader, messages, self._wanted)
            if len(places) == len(payloads):
                return part
            bad |= {places[i]: why for i, why in part.bad.items()}
            parts.append((np.array(places), part))
        if not parts:
            return Decoded(null_columns(self._wanted, len(payloads)), bad)
        return placed(parts, bad, len(payloads))

    def decode_alike(self, payloads: Sequence[bytes], head: bytes) -> Decoded | None:
        """Where all are of one message, and all are good, at once."""
        whole = _header_of(payloads[0], len(head))
        if whole is not None and sum(map(len, payloads)) <= TOGETHER_MAX:
            framed = Framed(payloads, whole)
            columns = self._all(whole, framed, len(head)) if framed.is_alike else None
            if columns is not None:
                return Decoded(columns)
        return super().decode_alike(payloads, head)

    def _all(self, head: bytes, framed: Framed, start: int) -> tuple[pa.Array, ...] | None:
        """The columns of payloads that are all good; None: one is not, or there is no reader."""
        try:
            return self._reader(indexes_at(head, start)[0]).read_all(framed)
        except ProtoError:
            return None

    def _reader(self, indexes: Sequence[int]) -> MessageReader:
        message = self._file.at(indexes)
        if message.name not in self._readers:
            self._readers[message.name] = self._made(message.name)
        found = self._readers[message.name]
        if isinstance(found, str):
            raise ProtoError(found)
        return found

    def _made(self, name: str) -> MessageReader | str:
        """The reader, or why there is none."""
        try:
            message = self._file.messages[name]
            return MessageReader(self._file, message, self._wanted, self._nullable)
        except ProtoError as error:
            columns = ", ".join(map(str, self._wanted))
            return f"{error}; message {name} of {self._text[:300]}, read as {columns}"


def _by_header(payloads: Sequence[bytes], start: int) -> dict[bytes, list[int]]:
    """The places of all payloads by what stands before their messages; mostly it is the same.

    A broken header is a group by itself.
    """
    known = _header_of(payloads[0], start)
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, payload in enumerate(payloads):
        # A header says where it ends, so that none is the beginning of another one.
        same = known is not None and payload.startswith(known)
        head = known if same else _header_of(payload, start)
        found[payload if head is None else head].append(place)
    return found


def _header_of(payload: bytes, start: int) -> bytes | None:
    """All up to the message; None: it is broken."""
    try:
        return payload[: indexes_at(payload, start)[1]]
    except ProtoError:
        return None
