"""PROTOBUF_NOSR: messages without any framing, laid out as ksqlDB lays out the declared columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from holdfast.ingest.formats.base import Decoded, Decoder, Payloads, null_columns
from holdfast.tasks.registered.messages import message_reader
from holdfast.tasks.registered.proto.files import ProtoError
from holdfast.tasks.registered.proto.read import MessageReader
from holdfast.types.columns.schema import Column
from holdfast.types.statements.sources import Nullable

__all__ = ["MessageDecoder", "read_messages"]

_PART_BYTES = 1 << 30  # below Arrow's limit for one array of binaries


class MessageDecoder(Decoder):
    """Decodes messages of the declared columns."""

    def __init__(
        self,
        declared: Sequence[Column],
        wanted: Sequence[Column],
        nullable: Nullable = Nullable.NONE,
    ) -> None:
        """Raises `Unsupported`: Protobuf cannot hold the declared columns."""
        self._wanted = tuple(wanted)
        self._reader = message_reader(tuple(declared), self._wanted, nullable)

    def decode(self, payloads: Payloads) -> Decoded:
        if not payloads:
            return Decoded(null_columns(self._wanted, 0))
        found = read_messages(self._reader, [p or b"" for p in payloads], self._wanted)
        if None not in payloads:
            return found
        order = pa.array([None if p is None else i for i, p in enumerate(payloads)], pa.int64())
        return Decoded(tuple(c.take(order) for c in found.columns), found.bad)


def read_messages(
    reader: MessageReader, messages: Sequence[bytes], wanted: Sequence[Column]
) -> Decoded:
    """Every message by itself: the columns of a bad one are null."""
    bad = reader.why_bad(messages)
    if not bad:
        return _fitting(reader, messages, wanted)
    good = [i for i in range(len(messages)) if i not in bad]
    if not good:
        return Decoded(null_columns(wanted, len(messages)), bad)
    found = _fitting(reader, [messages[i] for i in good], wanted)
    order = np.full(len(messages), -1, np.int64)
    order[good] = np.arange(len(good))
    rows = pa.array(order, mask=order < 0)
    bad |= {good[i]: reason for i, reason in found.bad.items()}
    return Decoded(tuple(c.take(rows) for c in found.columns), bad)


def _fitting(reader: MessageReader, messages: Sequence[bytes], wanted: Sequence[Column]) -> Decoded:
    """All at once; if a value does not fit its column, their halves, down to that message."""
    if len(messages) == 1 or sum(map(len, messages)) <= _PART_BYTES:
        try:
            return Decoded(reader.read(pa.array(messages, pa.binary())))
        except ProtoError as error:
            if len(messages) == 1:
                return Decoded(null_columns(wanted, 1), {0: str(error)})
    half = len(messages) // 2
    first = _fitting(reader, messages[:half], wanted)
    second = _fitting(reader, messages[half:], wanted)
    columns = zip(first.columns, second.columns, strict=True)
    late = {half + i: reason for i, reason in second.bad.items()}
    return Decoded(tuple(pa.concat_arrays(c) for c in columns), {**first.bad, **late})
