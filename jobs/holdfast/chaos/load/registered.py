"""Bytes of a workload's records in formats with schemas, not by the engine's encoders.

Avro is written by fastavro and Protobuf by Google's library.  Values are in JSON form.
"""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import Refused
from holdfast.judge.read.declared_messages import declared_schema
from holdfast.judge.read.messages import MessageReader
from holdfast.judge.values import Untranslatable
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema, Schemas
from holdfast.types.statements.sources import Format, Nullable

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["Encode", "cut_off", "encoder", "message_encoder"]

Encode = Callable[[Sequence[Any]], bytes]
"""A record's key or value from the values of its columns."""

_HEADER_BYTES = 5
_BROKEN = {
    Format.AVRO: b"\xff",
    Format.JSON_SR: b'{"half": ',
    Format.PROTOBUF: b"\0\xff",
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def encoder(
    form: Format,
    columns: Sequence[Column],
    data: DataSchema | None,
    schemas: Schemas | None,
    example: Sequence[Any],
) -> Encode:
    """The encoder of keys or values; a schema that is new is registered with the first record.

    Raises:
        Refused: there is no registry, or the example cannot be written by the schema.
    """
    if data is None or schemas is None:
        raise Refused(
            f"The workload cannot write {form} without a registry.",
            action="set schema.registry.url",
        )
    try:
        write, head = _WRITERS[form](data, columns), b""
        write(example)
    except (TypeError, ValueError, LookupError, AttributeError, Untranslatable) as error:
        raise Refused(
            f"The workload cannot make values for the schema of {data.subject}: {error}",
            action="feed the topic yourself and judge the job with `holdfast verify`",
        ) from None

    def encode(values: Sequence[Any]) -> bytes:
        nonlocal head
        written = write(values)
        if not head:
            number = schemas.register(data.subject, data.schema) if data.id is None else data.id
            head = b"\0" + number.to_bytes(4, "big")
        return head + written

    return encode


def cut_off(form: Format, written: bytes) -> bytes:
    """A record of the same schema that ends too early."""
    return written[:_HEADER_BYTES] + _BROKEN[form]


def _named(columns: Sequence[Column], values: Sequence[Any]) -> Mapping[str, tuple[Any, SqlType]]:
    pairs = zip(columns, values, strict=True)
    return {c.name.upper(): (value, c.type) for c, value in pairs}


def _fields(value: Mapping[str, Any], kind: SqlType) -> Mapping[str, tuple[Any, SqlType]]:
    return _named(kind.fields, [value[f.name] for f in kind.fields])


# -- JSON_SR -----------------------------------------------------------------------------------


def _json_schema(data: DataSchema, columns: Sequence[Column]) -> Encode:
    written = json.loads(data.schema.text)
    properties = written.get("properties")
    if properties is None:
        return lambda values: orjson.dumps(_json(values[0], columns[0].type))
    names = {name.upper(): name for name in properties}

    def write(values: Sequence[Any]) -> bytes:
        found = _named(columns, values)
        return orjson.dumps({names[n]: _json(*pair) for n, pair in found.items() if n in names})

    return write


def _json(value: Any, kind: SqlType) -> Any:
    """Connect's MAP is an array of entries."""
    if kind.base is Base.MAP and kind.element is not None:
        return [{"key": k, "value": _json(v, kind.element)} for k, v in value.items()]
    if kind.base is Base.ARRAY and kind.element is not None:
        return [_json(v, kind.element) for v in value]
    if kind.base is Base.STRUCT:
        return {name: _json(*pair) for name, pair in _fields(value, kind).items()}
    return value


# -- AVRO --------------------------------------------------------------------------------------


def _avro(data: DataSchema, columns: Sequence[Column]) -> Encode:
    import fastavro

    named: dict[str, Any] = {}
    for _, text in data.schema.references:
        fastavro.parse_schema(json.loads(text), named)
    plain = json.loads(data.schema.text)
    parsed = fastavro.parse_schema(plain, named)
    record = isinstance(plain, dict) and plain.get("type") == "record"

    def write(values: Sequence[Any]) -> bytes:
        stream = io.BytesIO()
        found = _named(columns, values)
        made = _avro_record(found, plain) if record else _avro_value(*_only(found), plain)
        fastavro.schemaless_writer(stream, parsed, made)
        return stream.getvalue()

    return write


def _only(found: Mapping[str, tuple[Any, SqlType]]) -> tuple[Any, SqlType]:
    (pair,) = found.values()
    return pair


def _avro_record(found: Mapping[str, tuple[Any, SqlType]], schema: Any) -> dict[str, Any]:
    return {
        field["name"]: _avro_value(*found[field["name"].upper()], field["type"])
        for field in schema["fields"]
        if field["name"].upper() in found
    }


def _avro_value(value: Any, kind: SqlType, schema: Any) -> Any:
    """As fastavro takes a value of a schema; in a union it is never the null."""
    if isinstance(schema, list):
        (schema,) = [each for each in schema if each != "null"][:1]
    if kind.base is Base.STRUCT and isinstance(schema, dict):
        return _avro_record(_fields(value, kind), schema)
    if kind.base is Base.ARRAY and kind.element is not None:
        return [_avro_value(v, kind.element, schema["items"]) for v in value]
    if kind.base is Base.MAP and kind.element is not None:
        return _avro_map(value, kind.element, schema)
    if kind.base is Base.STRING and isinstance(schema, dict) and schema["type"] == "enum":
        return schema["symbols"][len(value) % len(schema["symbols"])]
    return _avro_scalar(value, kind)


def _avro_map(value: Mapping[str, Any], element: SqlType, schema: Any) -> Any:
    if schema["type"] == "map":
        return {k: _avro_value(v, element, schema["values"]) for k, v in value.items()}
    _, item = schema["items"]["fields"]
    return [{"key": k, "value": _avro_value(v, element, item["type"])} for k, v in value.items()]


def _avro_scalar(value: Any, kind: SqlType) -> Any:
    if kind.base is Base.DECIMAL:
        return Decimal(value)
    return base64.b64decode(value) if kind.base is Base.BYTES else value


# -- PROTOBUF ----------------------------------------------------------------------------------


def _protobuf(data: DataSchema, columns: Sequence[Column]) -> Encode:
    indexes, kind = MessageReader(data.schema).named(data.full_name)
    write = _messages(kind, columns)
    return lambda values: indexes + write(values)


def message_encoder(columns: Sequence[Column], nullable: Nullable) -> Encode:
    """The encoder of PROTOBUF_NOSR: messages of the columns, with nothing before them.

    Raises:
        Untranslatable: Protobuf has no type for one of them.
    """
    _, kind = MessageReader(declared_schema(columns, nullable)).named("")
    return _messages(kind, columns)


def _messages(kind: type[Message], columns: Sequence[Column]) -> Encode:
    from google.protobuf.json_format import ParseDict

    def write(values: Sequence[Any]) -> bytes:
        made = ParseDict(_message(_named(columns, values), kind.DESCRIPTOR), kind())
        return bytes(made.SerializeToString())

    return write


def _message(found: Mapping[str, tuple[Any, SqlType]], kind: Any) -> dict[str, Any]:
    """A message in the form of `json_format`; of a oneof, the first member."""
    made = {}
    for field in kind.fields:
        oneof = field.containing_oneof
        pair = found.get(field.name.upper())
        if pair is None and oneof is not None and field.full_name == oneof.fields[0].full_name:
            whole = found.get(f"{oneof.name}_{oneof.index}".upper())
            pair = _fields(*whole).get(field.name.upper()) if whole is not None else None
        if pair is not None:
            made[field.name] = _field(*pair, field)
    return made


def _field(value: Any, kind: SqlType, field: Any) -> Any:
    if not field.is_repeated:
        return _single(value, kind, field)
    if kind.base is Base.ARRAY and kind.element is not None:
        return [_single(v, kind.element, field) for v in value]
    entry, element = field.message_type, kind.element
    assert element is not None, "only ARRAY and MAP are repeated"
    item = entry.fields_by_name["value"]
    entries = {k: _single(v, element, item) for k, v in value.items()}
    if entry.GetOptions().map_entry:
        return entries
    return [{"key": k, "value": v} for k, v in entries.items()]


def _single(value: Any, kind: SqlType, field: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[len(value) % len(field.enum_type.values)].name
    if kind.base is Base.STRUCT:
        return _message(_fields(value, kind), field.message_type)
    own = _OWN.get(kind.base)
    return value if own is None else own(value, kind)


def _instant(value: int, _: SqlType) -> str:
    at = _EPOCH + dt.timedelta(milliseconds=value)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _date(value: int, _: SqlType) -> dict[str, int]:
    day = _EPOCH.date() + dt.timedelta(days=value)
    return {"year": day.year, "month": day.month, "day": day.day}


def _time(value: int, _: SqlType) -> dict[str, int]:
    seconds, millis = divmod(value, 1_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return {"hours": hour, "minutes": minute, "seconds": second, "nanos": millis * 1_000_000}


def _decimal(value: int, kind: SqlType) -> dict[str, Any]:
    unscaled = value * 10**kind.scale
    data = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    text = base64.b64encode(data).decode()
    return {"value": text, "precision": kind.precision, "scale": kind.scale}


_OWN: Mapping[Base, Callable[[Any, SqlType], Any]] = {
    Base.TIMESTAMP: _instant,
    Base.DATE: _date,
    Base.TIME: _time,
    Base.DECIMAL: _decimal,
}
_WRITERS: Mapping[Format, Callable[[DataSchema, Sequence[Column]], Encode]] = {
    Format.AVRO: _avro,
    Format.JSON_SR: _json_schema,
    Format.PROTOBUF: _protobuf,
}
