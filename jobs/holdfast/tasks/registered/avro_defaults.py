"""The bytes of a field's default, which a schema writes as JSON."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.errors import SchemaRefused
from holdfast.tasks.registered.avro_pieces import varints
from holdfast.tasks.registered.avro_schema import AvroField, AvroNode

__all__ = ["default_bytes", "varint"]

_WHOLE = {"int": 32, "long": 64}  # bits
_REAL = {"float": "<f", "double": "<d"}


def varint(number: int) -> bytes:
    """A zigzag varint."""
    return bytes(varints(np.array([number], np.int64))[0].as_py())


def default_bytes(field: AvroField) -> bytes:
    """The default of a field, encoded.

    Raises:
        SchemaRefused: it is no value of the field's type.
    """
    try:
        return _encoded(field.type, field.default)
    except (KeyError, TypeError, ValueError, OverflowError, struct.error):
        raise SchemaRefused(
            f"The default of the schema's field {field.name}, {field.default!r}, is no "
            f"{field.type.label}."
        ) from None


def _encoded(node: AvroNode, value: Any) -> bytes:
    if node.kind == "union":
        return _branch(node.branches, value)
    if node.kind == "null" and value is None:
        return b""
    if node.kind == "boolean" and isinstance(value, bool):
        return bytes([value])
    if isinstance(value, str):
        return _text(node, value)
    return _number(node, value) if type(value) in (int, float) else _nested(node, value)


def _number(node: AvroNode, value: Any) -> bytes:
    if node.kind in _REAL:
        return struct.pack(_REAL[node.kind], value)
    if type(value) is not int or value.bit_length() >= _WHOLE[node.kind]:
        raise TypeError(value)
    return varint(value)


def _text(node: AvroNode, value: str) -> bytes:
    if node.kind == "enum":
        return varint(node.symbols.index(value))
    # Avro writes bytes in JSON as characters up to 255.
    data = value.encode("utf-8" if node.kind == "string" else "latin-1")
    if node.kind == "fixed" and len(data) == node.size:
        return data
    if node.kind not in ("bytes", "string"):
        raise TypeError(value)
    return varint(len(data)) + data


def _nested(node: AvroNode, value: Any) -> bytes:
    if node.kind == "record" and isinstance(value, dict):
        return b"".join(_encoded(f.type, value.get(f.name, f.default)) for f in node.fields)
    if node.kind == "array" and node.items is not None and isinstance(value, list):
        return _block([_encoded(node.items, each) for each in value])
    if node.kind == "map" and node.items is not None and isinstance(value, dict):
        items = node.items
        pairs = ((k.encode(), _encoded(items, v)) for k, v in value.items())
        return _block([varint(len(key)) + key + item for key, item in pairs])
    raise TypeError(value)


def _block(items: Sequence[bytes]) -> bytes:
    return (varint(len(items)) + b"".join(items) if items else b"") + b"\0"


def _branch(branches: Sequence[AvroNode], value: Any) -> bytes:
    for at, branch in enumerate(branches):
        try:
            return varint(at) + _encoded(branch, value)
        except (KeyError, TypeError, ValueError):
            continue
    raise TypeError(value)
