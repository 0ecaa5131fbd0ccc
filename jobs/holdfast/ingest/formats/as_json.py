"""Records of any format as JSON, for those who show a record at a time."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ingest.formats.protobuf import MessageDecoder
from holdfast.tasks.evaluate.values import encode_values
from holdfast.types.schema import Column
from holdfast.types.sources import Format, Nullable, Sink, Source, WindowKind

__all__ = ["AsJson", "message_as_json"]

_TIME_BYTES = 8


class AsJson:
    """Translates the messages of one stream or table; other formats stay as they are.

    Attributes:
        formats: of the key and of the value, once translated.
    """

    def __init__(self, of: Source | Sink) -> None:
        self._of = of
        self.formats = (_translated(of.key_format), _translated(of.value_format))

    def key(self, data: bytes | None) -> bytes | None:
        """The record key; its window stays behind it.

        Raises:
            ValueError: it is no message of the key columns.
        """
        of = self._of
        if data is None or of.key_format is not Format.PROTOBUF_NOSR:
            return data
        times = 0 if of.window is None else 2 if of.window is WindowKind.SESSION else 1
        cut = len(data) - times * _TIME_BYTES
        return message_as_json(data[:cut], of.key_columns, of.key_nullable) + data[cut:]

    def value(self, data: bytes | None) -> bytes | None:
        """The record value.

        Raises:
            ValueError: it is no message of the value columns.
        """
        of = self._of
        if data is None or of.value_format is not Format.PROTOBUF_NOSR:
            return data
        return message_as_json(data, of.value_columns, of.nullable)


def _translated(form: Format) -> Format:
    return Format.JSON if form is Format.PROTOBUF_NOSR else form


def message_as_json(data: bytes, columns: Sequence[Column], nullable: Nullable) -> bytes:
    """One message as the JSON object that ksqlDB would write.

    Raises:
        ValueError: it is no message of the columns.
    """
    found = MessageDecoder(columns, columns, nullable).decode([data])
    if found.bad:
        raise ValueError(found.bad[0])
    return encode_values(columns, found.columns, Format.JSON)[0] or b"null"
