"""Sales in Avro and Protobuf, written and read here by hand: no engine's code, and quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from holdfast.types.columns.schemas import Schema, SchemaKind

__all__ = ["SCHEMAS", "Encode", "encoder", "sale_of"]

Encode = Callable[[bytes, int, bytes, int], bytes]
"""The value of a sale: customer, amount, title, event time in ms."""

_AVRO = (
    '{"type":"record","name":"Sale","fields":[{"name":"customer","type":"string"},'
    '{"name":"amount","type":"long"},{"name":"title","type":"string"},{"name":"ts","type":"long"}]}'
)
_PROTO = """syntax = "proto3";
message Sale {
  string customer = 1;
  int64 amount = 2;
  string title = 3;
  int64 ts = 4;
}
"""
SCHEMAS = {
    "AVRO": Schema(SchemaKind.AVRO, _AVRO),
    "PROTOBUF": Schema(SchemaKind.PROTOBUF, _PROTO),
}
_HEAD_BYTES = 5


def encoder(form: str, schema_id: int) -> Encode:
    """The encoder of a format with a registry."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    if form == "AVRO":
        return lambda customer, amount, title, ts: b"".join(
            (
                head, _varint(2 * len(customer)), customer, _varint(2 * amount),
                _varint(2 * len(title)), title, _varint(2 * ts),
            )
        )  # fmt: skip
    return lambda customer, amount, title, ts: b"".join(
        (
            head, b"\0\x0a", _varint(len(customer)), customer, b"\x10", _varint(amount),
            b"\x1a", _varint(len(title)), title, b"\x20", _varint(ts),
        )
    )  # fmt: skip


def sale_of(value: bytes) -> tuple[bytes, int, bytes]:
    """Customer, amount and title of such a value."""
    data = iter(value[_HEAD_BYTES:])
    if value[_HEAD_BYTES]:  # the size of the customer's name; a message has its place there
        customer = _bytes(data, _number(data) // 2)
        amount = _number(data) // 2
        return customer, amount, _bytes(data, _number(data) // 2)
    _bytes(data, 2)
    customer = _bytes(data, _number(data))
    _bytes(data, 1)
    amount = _number(data)
    _bytes(data, 1)
    return customer, amount, _bytes(data, _number(data))


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def _number(data: Iterator[int]) -> int:
    number = shift = 0
    while True:
        byte = next(data)
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number


def _bytes(data: Iterator[int], count: int) -> bytes:
    return bytes(islice(data, count))
