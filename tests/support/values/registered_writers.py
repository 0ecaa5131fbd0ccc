"""Writers of one kind of record in AVRO, PROTOBUF and JSON_SR, and payloads that are none.

They share no code with the engine: fastavro, Google's protobuf and json write and read.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["FORMATS", "bad_payloads", "decoded", "encoded", "schema_text"]

FORMATS = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON_SR": "JSON"}  # the registry's names
_DEEP = 10_000
_WIDE = b"\x7f" * 20  # a number of 48 digits
_TITLE, _AMOUNT, _PRICE = "title", "amount", "price"
_SALE = {_TITLE: "string", _AMOUNT: "int64", _PRICE: "decimal", "note": "string"}
_SOLD = {"N": "int64", "TOTAL": "int64", "PRICES": "decimal", "LONGEST": "int32"}


def schema_text(form: str, number: int) -> str:
    """The schema of the writer of this number; each has a field of its own."""
    own = f"own_{number}"
    if form == "PROTOBUF":
        return (
            'syntax = "proto3";\nimport "confluent/type/decimal.proto";\n'
            "message Sale {\n  string title = 1;\n  int64 amount = 2;\n"
            "  confluent.type.Decimal price = 3 [(confluent.field_meta) = {params: ["
            '{key: "precision", value: "10"}, {key: "scale", value: "2"}]}];\n'
            f"  string note = 4;\n  string {own} = 5;\n  Sale inner = 6;\n}}\n"
        )
    if form == "AVRO":
        price = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
        plain = [(_TITLE, "string"), (_AMOUNT, "long"), (_PRICE, price), ("note", "string")]
        fields: list[dict[str, Any]] = [{"name": n, "type": t} for n, t in plain]
        fields += [{"name": n, "type": ["null", t], "default": None}
                   for n, t in ((own, "string"), ("inner", "Sale"))]  # fmt: skip
        return json.dumps({"type": "record", "name": "Sale", "fields": fields})
    price = {"type": "number", "title": "org.apache.kafka.connect.data.Decimal",
             "connect.type": "bytes",
             "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"}}  # fmt: skip
    kinds = {_TITLE: {"type": "string"}, _AMOUNT: {"type": "integer"}, _PRICE: price,
             "note": {"type": "string"}, own: {"type": "string"}}  # fmt: skip
    return json.dumps({"type": "object", "title": "Sale", "properties": kinds})


def encoded(form: str, number: int, schema_id: int, sale: Mapping[str, Any]) -> bytes:
    """A sale as that writer writes it; `price` is a Decimal."""
    head = _head(schema_id)
    if form == "AVRO":
        data = io.BytesIO()
        parsed = fastavro.parse_schema(json.loads(schema_text(form, number)))
        fastavro.schemaless_writer(data, parsed, dict(sale))
        return head + data.getvalue()
    if form == "PROTOBUF":
        plain = {k: v for k, v in sale.items() if k != _PRICE}
        made = _message("Sale", _SALE)(**plain, price=_wire_decimal(_unscaled(sale[_PRICE])))
        return head + b"\0" + bytes(made.SerializeToString())
    row = {**sale, _PRICE: float(sale[_PRICE])}
    return head + json.dumps(row, ensure_ascii=False).encode()


def decoded(form: str, text: str, payload: bytes | None, *, key: bool) -> Any:
    """A result's key or value: a title, or {"N": …, "TOTAL": …, "PRICES": …, "LONGEST": …}.

    Args:
        text: the schema that the payload names.
    """
    assert payload is not None
    assert payload[:1] == b"\0"
    data = payload[5:]
    if form == "AVRO":
        return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(json.loads(text)))
    if form == "JSON_SR":
        found = json.loads(data, parse_float=Decimal)
        return found if key else {**found, "PRICES": Decimal(found["PRICES"])}
    assert data[:1] == b"\0", "the first message"
    made = _message("Key" if key else "Sold", {"TITLE": "string"} if key else _SOLD)
    row = made.FromString(data[1:])
    if key:
        return row.TITLE
    prices = int.from_bytes(row.PRICES.value, "big", signed=True)
    return {"N": row.N, "TOTAL": row.TOTAL, "LONGEST": row.LONGEST,
            "PRICES": Decimal(prices).scaleb(-row.PRICES.scale)}  # fmt: skip


def bad_payloads(form: str, good: bytes, ids: Mapping[str, int]) -> dict[bytes, str]:
    """Payloads that are no sale, and words of the reason for each.

    Args:
        good: a sale.
        ids: a schema of each format for something else, whose `amount` is text; and "unknown".
    """
    head, data = good[:5], good[5:]
    other = next(name for name in FORMATS if name != form)
    found = {
        b"": "not with 00 and a schema's id",
        b"\0\0\1": "a schema's id alone takes 5",
        b"\1" + good[1:]: "it begins with byte 01",
        good[:-1]: {"AVRO": "truncated", "PROTOBUF": "corrupt", "JSON_SR": "not valid JSON"}[form],
        _head(ids["unknown"]) + data: "has no schema with id",
        _head(ids[other]) + data: f"but the format needs {FORMATS[form]}",
        _head(ids[form]) + data: "BIGINT",
    }
    if form == "AVRO":
        title, note = b"\x06Ran", b"\x02x"
        deep = b"".join([title, b"\x02", b"\x02\1", note, b"\0\x02"])
        return found | {
            head + deep * _DEEP: "nested",
            head + title + b"\x02" + bytes([2 * len(_WIDE)]) + _WIDE + note + b"\0\0": "digits",
        }
    if form == "PROTOBUF":
        wide = _message("Sale", _SALE)(title="Ran", price=_wire_decimal(_WIDE))
        return found | {
            head + b"\x02\x0e" + data[1:]: "names message 7",
            head + b"\xfe\xff\xff\xff\x0f" + data[1:]: "names a message by",
            head + b"\0" + b"\x4b" * _DEEP + b"\x4c" * _DEEP: "corrupt",
            head + b"\0" + wide.SerializeToString(): "does not fit",
        }
    wide_text = base64.b64encode(_WIDE)
    return found | {
        head + b'{"note": ' + b"[" * _DEEP + b"]" * _DEEP + b"}": "nested too deeply",
        head + b'{"price": "' + wide_text + b'"}': "digits",
        head + b'{"price": ' + b"9" * 50 + b"}": "digits",
        head + b'{"price": 1e-99999999}': "without rounding",
    }


def _head(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def _unscaled(number: Decimal) -> bytes:
    return int(number.scaleb(2)).to_bytes(8, "big", signed=True)


def _wire_decimal(unscaled: bytes) -> Any:
    return {"value": unscaled, "precision": 10, "scale": 2}


def _message(name: str, fields: Mapping[str, str]) -> Any:
    """The class of a message with these fields, numbered from 1."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto3")
    number = file.message_type.add(name="Decimal")
    for place, (each, kind) in enumerate(
        {"value": "BYTES", "precision": "UINT32", "scale": "INT32"}.items(), 1
    ):
        number.field.add(name=each, number=place, type=field.Type.Value(f"TYPE_{kind}"), label=1)
    made = file.message_type.add(name=name)
    for place, (each, kind) in enumerate(fields.items(), 1):
        added = made.field.add(name=each, number=place, label=1)
        if kind == "decimal":
            added.type, added.type_name = field.TYPE_MESSAGE, f".{name}.Decimal"
        else:
            added.type = field.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{name}.{name}"))
