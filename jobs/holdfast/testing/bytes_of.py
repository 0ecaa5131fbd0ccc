"""Converts between JSON and a record's bytes, by the formats of the topic's stream or table."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from holdfast.errors import InvalidTestCase
from holdfast.ingest.formats.as_json import AsJson, registered_as_json
from holdfast.ingest.formats.json.decoder import JsonDecoder
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.tasks.registered.messages import written_messages
from holdfast.testing.cases import Spec, SpecWindow, WindowType
from holdfast.testing.json_text import dumps, loads
from holdfast.testing.registry import encoded_input
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.sources import Format, Nullable, Sink, Source, WindowKind

__all__ = ["Headers", "RawRecord", "TopicCodec"]

Headers = tuple[tuple[str, bytes | None], ...]
_TIME = struct.Struct(">q")
_NUMBERS = {Base.INTEGER: ">i", Base.BIGINT: ">q", Base.DOUBLE: ">d"}


@dataclass(frozen=True)
class RawRecord:
    """A record of a topic, as a broker would hold it."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class TopicCodec:
    """Encodes and decodes the records of one topic."""

    def __init__(self, of: Source | Sink, schemas: Schemas | None = None) -> None:
        """`schemas`: the registry of formats that have one."""
        self._of = of
        self._schemas = schemas
        self._plain = AsJson(of, schemas)

    def encode(self, spec: Spec) -> RawRecord:
        """The bytes of an input record.

        Raises:
            InvalidTestCase: the topic's format cannot hold the key or value.
        """
        of = self._of
        key = self._encoded(spec.key, key=True, what=f"key of {of.topic}")
        value = self._encoded(spec.value, key=False, what=f"value of {of.topic}")
        if spec.window is not None and key is not None:
            key += _window_bytes(spec.window)
        return RawRecord(key, value, spec.timestamp or 0, spec.headers or ())

    def decode(self, record: RawRecord) -> Spec:
        """The form of a record in a test file.

        Raises:
            InvalidTestCase: its bytes do not match the topic's formats.
        """
        of, window = self._of, None
        try:
            key = self._plain.key(record.key)
            if of.window is not None and key is not None:
                key, window = _split(key, of.window, of.window_size_ms)
            return Spec(
                topic=of.topic,
                key=self._decoded(key, key=True),
                value=self._decoded(self._value(record.value), key=False),
                timestamp=record.timestamp,
                window=window,
                headers=record.headers,
            )
        except (ValueError, struct.error) as error:
            raise InvalidTestCase(
                f"A record of topic {of.topic} is not in its formats: {error} "
                f"(key {record.key!r}, value {record.value!r})."
            ) from error

    def _value(self, data: bytes | None) -> bytes | None:
        if data is not None and self._of.value_format.schema_kind and self._schemas is not None:
            return registered_as_json(data, self._schemas, self._of.nullable)
        return self._plain.value(data)

    def _of_part(self, *, key: bool) -> tuple[Format, tuple[Column, ...], Nullable]:
        of = self._of
        if key:
            return of.key_format, of.key_columns, of.key_nullable
        return of.value_format, of.value_columns, of.nullable

    def _decoded(self, data: bytes | None, *, key: bool) -> Any:
        form, columns, _ = self._of_part(key=key)
        found = _decoded(data, self._plain.formats[0 if key else 1], columns)
        if form.schema_kind is None:
            return found
        alone = len(columns) == 1 and (key or not self._of.wrap_single)
        alone = alone and LANGUAGES[form].unwraps
        kind = columns[0].type if alone else SqlType(Base.STRUCT, fields=columns)
        return _whole_doubles(found, kind)

    def _encoded(self, value: Any, *, key: bool, what: str) -> bytes | None:
        form, columns, nullable = self._of_part(key=key)
        if value is None:
            return None
        if form.schema_kind is not None and self._schemas is not None:
            return encoded_input(value, self._of, self._schemas, key=key)
        if form is Format.PROTOBUF_NOSR:
            return _message(value, columns, nullable, what)
        if form is Format.JSON:
            return dumps(value).encode()
        if form is Format.KAFKA and columns:
            return _kafka(value, columns[0], what)
        if isinstance(value, dict | list):
            raise InvalidTestCase(
                f"The {what} is JSON ({dumps(value)}), but its format is {form}.",
                action="write it as text",
            )
        return _text(value).encode()


def _message(value: Any, columns: Sequence[Column], nullable: Nullable, what: str) -> bytes:
    read = JsonDecoder(columns).decode([dumps(value).encode()])
    if read.bad:
        raise InvalidTestCase(f"The {what} is {dumps(value)}, which does not fit: {read.bad[0]}")
    message: bytes = written_messages(columns, read.columns, nullable)[0].as_py()
    return message


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _kafka(value: Any, column: Column, what: str) -> bytes:
    form = _NUMBERS.get(column.type.base)
    if form is None:
        return _text(value).encode()
    try:
        return struct.pack(form, float(value) if form == ">d" else int(value))
    except (TypeError, ValueError, struct.error) as error:
        raise InvalidTestCase(
            f"The {what} is {dumps(value)}, which is no {column.type} ({column.name})."
        ) from error


def _decoded(data: bytes | None, form: Format, columns: Sequence[Column]) -> Any:
    if data is None:
        return None
    if form is Format.JSON:
        return loads(data)
    base = columns[0].type.base if columns and form is Format.KAFKA else None
    if base in _NUMBERS:
        (number,) = struct.unpack(_NUMBERS[base], data)
        return Decimal(repr(number)) if base is Base.DOUBLE else number
    return data.decode()


def _whole_doubles(value: Any, kind: SqlType) -> Any:
    """The value with 2 for 2.0 of a DOUBLE: JSON shows it so, but there it has no scale."""
    if isinstance(value, dict) and kind.base is Base.STRUCT:
        kinds = {f.name: f.type for f in kind.fields}
        return {n: _whole_doubles(v, kinds[n]) if n in kinds else v for n, v in value.items()}
    if isinstance(value, dict) and kind.element is not None:
        return {name: _whole_doubles(v, kind.element) for name, v in value.items()}
    if isinstance(value, list) and kind.element is not None:
        return [_whole_doubles(v, kind.element) for v in value]
    if isinstance(value, Decimal) and kind.base is Base.DOUBLE and value == value.to_integral():
        return int(value)
    return value


def _window_bytes(window: SpecWindow) -> bytes:
    """Kafka Streams' layouts: the start of a time window; the end and start of a session."""
    start = _TIME.pack(window.start)
    return start if window.type is WindowType.TIME else _TIME.pack(window.end) + start


def _split(key: bytes, kind: WindowKind, size_ms: int) -> tuple[bytes, SpecWindow]:
    (start,) = _TIME.unpack(key[-8:])
    if kind is not WindowKind.SESSION:
        return key[:-8], SpecWindow(start, start + size_ms, WindowType.TIME)
    (end,) = _TIME.unpack(key[-16:-8])
    return key[:-16], SpecWindow(start, end, WindowType.SESSION)
