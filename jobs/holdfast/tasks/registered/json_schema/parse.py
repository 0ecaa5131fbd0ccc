"""Parses JSON schemas by the rules of Connect's converter.

Types beside null are optional.  `oneOf` and `anyOf` of several types are a union, a STRUCT in SQL
with a field for each.  `allOf` is one object with all properties, or the one type that it narrows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from holdfast.errors import SchemaRefused
from holdfast.tasks.registered.json_schema.nodes import LEVELS_MAX, ONE_OF, JsonField, JsonNode
from holdfast.tasks.registered.json_schema.references import Documents, Place
from holdfast.types.columns.schemas import Schema

__all__ = ["parse_json_schema"]

_Written: TypeAlias = "dict[str, Any]"
_TEXT_MAX = 4 << 20  # characters
_NODES_MAX = 100_000  # schemas within a schema; references may repeat parts without end
_CONNECT = "org.apache.kafka.connect.data."
_NUMBERS = {
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "int64": "int64",
    "float32": "float64",
    "float64": "float64",
    "bytes": "decimal",
}
_LOGICAL = {
    ("int32", _CONNECT + "Date"): "date",
    ("int32", _CONNECT + "Time"): "time",
    ("int64", _CONNECT + "Timestamp"): "timestamp",
}
_UNKNOWN_PRECISION = 64  # ksqlDB's, more than a DECIMAL has


def parse_json_schema(schema: Schema) -> JsonNode:
    """The root of a schema.

    Raises:
        SchemaRefused: it is not JSON, refers to what it does not have, or is nested more deeply
            than `LEVELS_MAX`.
    """
    texts = {"": schema.text, **dict(schema.references)}
    documents = {}
    for name, text in texts.items():
        if len(text) > _TEXT_MAX:
            raise SchemaRefused(f"A JSON schema has {len(text)} characters, over {_TEXT_MAX}.")
        try:
            documents[name] = json.loads(text, parse_float=Decimal)
        except (ValueError, RecursionError, ArithmeticError) as error:
            raise _wrong(f"it is not JSON ({error})") from None
    try:
        return _Parser(Documents(documents)).referred("#", Place(""), 0)
    except RecursionError:
        raise _wrong(f"schemas are nested in more than {LEVELS_MAX} levels") from None


class _Parser:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._targets: dict[Place, JsonNode] = {}
        self._made = 0

    def referred(self, name: Any, at: Place, level: int) -> JsonNode:
        """The node that a `$ref` at some place refers to; `#` is the root."""
        written, place = self._documents.find(name, at)
        target = self._targets.get(place)
        if target is None:
            target = self._targets[place] = JsonNode("ref")
            target.target = self.node(written, place, level + 1)
        return JsonNode("ref", target=target)

    def node(self, written: Any, at: Place, level: int) -> JsonNode:
        self._made += 1
        if level > LEVELS_MAX:
            raise _wrong(f"schemas are nested in more than {LEVELS_MAX} levels")
        if self._made > _NODES_MAX:
            raise _wrong(f"it is made of more than {_NODES_MAX} schemas")
        if not isinstance(written, dict):
            return _unsupported(f"{_short(written)}, which says no type")
        if "$ref" in written:
            return self.referred(written["$ref"], at, level)
        parts = [p for p in ("allOf", "anyOf", "oneOf") if isinstance(written.get(p), list)]
        own = _own_type(written)
        if not parts:
            return self._single(written, own, at, level)
        if len(parts) > 1 or parts == ["allOf"] or own is not None or "enum" in written:
            return self._all(written, at, level)
        return self._any(written[parts[0]], at, level)

    def _single(self, written: _Written, own: Any, at: Place, level: int) -> JsonNode:
        """A schema without parts that are combined."""
        if isinstance(own, list):
            each = [written | {"type": t} for t in own]
            return self._any(each, at, level)
        if "enum" in written and own in (None, "string"):
            return JsonNode("string", default=_text_or_none(written.get("default")))
        node = self._typed(written, own, at, level)
        node.default = written.get("default")
        return node

    def _typed(self, written: _Written, own: Any, at: Place, level: int) -> JsonNode:
        connect = written.get("connect.type")
        if own in ("integer", "number"):
            return _number(written, own, connect)
        if own in ("boolean", "string"):
            return JsonNode("bytes" if (own, connect) == ("string", "bytes") else own)
        if own == "array":
            return self._array(written, connect, at, level)
        if own == "object":
            return self._object(written, connect, at, level)
        no_type = f"{_short(written)}, which says no type"
        return _unsupported("null alone" if own == "null" else no_type)

    def _array(self, written: _Written, connect: Any, at: Place, level: int) -> JsonNode:
        items = written.get("items")
        if not isinstance(items, dict):
            return _unsupported("an array that does not say one type for all items")
        element = self.node(items, at, level + 1)
        if connect != "map" or element.kind != "struct":
            return JsonNode("array", items=element)
        parts = {f.name: f.type for f in element.fields}
        if not {"key", "value"} <= set(parts):
            return _unsupported("a map whose entries have no key and value")
        return JsonNode("map", items=parts["value"], key=parts["key"])

    def _object(self, written: _Written, connect: Any, at: Place, level: int) -> JsonNode:
        if connect == "map":
            values = written.get("additionalProperties")
            if not isinstance(values, dict):
                return _unsupported("a map whose additionalProperties do not say a type")
            return JsonNode("map", items=self.node(values, at, level + 1))
        node = JsonNode("struct")
        node.fields = self._properties([(written, at)], level)
        return node

    def _properties(self, objects: list[tuple[_Written, Place]], level: int) -> list[JsonField]:
        """The fields of objects, by `connect.index`; of one name the last one counts."""
        found: dict[str, tuple[Any, Place]] = {}
        required: set[str] = set()
        for written, at in objects:
            properties = written.get("properties")
            if isinstance(properties, dict):
                found |= {name: (each, at) for name, each in properties.items()}
            names = written.get("required")
            required |= set(map(str, names)) if isinstance(names, list) else set()
        placed = []
        for i, (name, (each, at)) in enumerate(found.items()):
            index = each.get("connect.index") if isinstance(each, dict) else None
            placed.append((index if type(index) is int else i, name, each, at))
        placed.sort(key=lambda p: p[0])
        return [
            JsonField(name, self.node(each, at, level + 1), name in required)
            for _, name, each, at in placed
        ]

    def _any(self, branches: list[Any], at: Place, level: int) -> JsonNode:
        nulls = [isinstance(b, dict) and b.get("type") == "null" for b in branches]
        others = [b for b, null in zip(branches, nulls, strict=True) if not null]
        if len(branches) == 2 and len(others) == 1:
            node = self.node(others[0], at, level + 1)
            if node.kind == "ref":  # shared by others, which may not be optional
                return JsonNode("ref", target=node, optional=True)
            node.optional = True
            return node
        fields = [
            JsonField(f"{ONE_OF}{i}", self.node(b, at, level + 1)) for i, b in enumerate(others)
        ]
        if not fields:
            return _unsupported("null alone")
        return JsonNode("union", optional=any(nulls), fields=fields)

    def _all(self, written: _Written, at: Place, level: int) -> JsonNode:
        objects = list(self._objects(written, at, set()))
        if any(isinstance(o.get("properties"), dict) and o["properties"] for o, _ in objects):
            return JsonNode("struct", fields=self._properties(objects, level))
        for name in ("anyOf", "oneOf"):
            if isinstance(written.get(name), list):
                return self._any(written[name], at, level)
        parts = [p for p in written["allOf"] if isinstance(p, dict)]
        nested = [p for p in parts if any(n in p for n in ("anyOf", "oneOf", "allOf"))]
        own = [] if _own_type(written) is None else [{**written, "allOf": None}]
        typed = [p for p in parts if "enum" in p or _own_type(p) is not None]
        referring = [p for p in parts if "$ref" in p]
        for each in (*nested, *_narrowest([*own, *typed]), *referring):
            return self.node(each, at, level + 1)
        return _unsupported("an allOf that says no type")

    def _objects(
        self, written: Any, at: Place, seen: set[Place]
    ) -> Iterator[tuple[_Written, Place]]:
        """The schemas whose properties an `allOf` joins."""
        if not isinstance(written, dict):
            return
        if "$ref" in written:
            target, place = self._documents.find(written["$ref"], at)
            if place not in seen:
                seen.add(place)
                yield from self._objects(target, place, seen)
            return
        parts = written.get("allOf")
        for each in parts if isinstance(parts, list) else ():
            yield from self._objects(each, at, seen)
        if written.get("connect.type") != "map":
            yield written, at


def _own_type(written: Mapping[str, Any]) -> Any:
    """The type that a schema names, or that its keywords are for."""
    if "type" in written:
        return written["type"]
    if any(k in written for k in ("properties", "additionalProperties", "required")):
        return "object"
    return "array" if "items" in written else None


def _narrowest(typed: list[_Written]) -> list[_Written]:
    """The schemas of an `allOf` that say a type: numbers first, whose formats may be text."""
    return sorted(typed, key=lambda p: _own_type(p) not in ("integer", "number"))


def _number(written: _Written, own: str, connect: Any) -> JsonNode:
    kind = "int64" if own == "integer" else "float64"
    if connect is not None:
        if str(connect) not in _NUMBERS:
            return _unsupported(f"a number of connect.type {_short(connect)}")
        kind = _NUMBERS[str(connect)]
    title = str(written.get("title"))
    if kind != "decimal":
        return JsonNode(_LOGICAL.get((kind, title), kind))
    if title != _CONNECT + "Decimal":
        return _unsupported(f"bytes as a number, but its title is not {_CONNECT}Decimal")
    found = written.get("connect.parameters")
    parameters = found if isinstance(found, dict) else {}
    try:
        scale = int(parameters.get("scale", 0))
        precision = int(parameters.get("connect.decimal.precision", _UNKNOWN_PRECISION))
    except (TypeError, ValueError, OverflowError):
        return _unsupported("a decimal whose scale or precision is no whole number")
    return JsonNode("decimal", precision=precision, scale=scale)


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _unsupported(why: str) -> JsonNode:
    return JsonNode("unsupported", why=why)


def _short(value: Any) -> str:
    return str(value)[:100]


def _wrong(why: str) -> SchemaRefused:
    return SchemaRefused(f"This is no JSON schema that can be read: {why}.")
