"""Avro schemas, parsed: the nodes that decoders and encoders are made from."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import SchemaRefused
from holdfast.types.columns.schemas import Schema

__all__ = ["LEVELS_MAX", "NAME", "AvroField", "AvroNode", "map_parts", "optional", "parse_avro"]

LEVELS_MAX = 64  # nested types within a schema, and of data within each other
_TEXT_MAX = 4 << 20  # characters
_PRIMITIVES = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)  # fmt: skip
NAMED = frozenset({"record", "error", "enum", "fixed"})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIZE_MAX = 64 << 20  # bytes of a fixed


@dataclass
class AvroField:
    """A field of a record; `default` only where `has_default`."""

    name: str
    type: AvroNode
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False


@dataclass(eq=False)
class AvroNode:
    """A type within a schema.  A record may be within itself.

    Attributes:
        kind: Avro's name of the type; a union is "union".
        name: full name of a record, enum or fixed.
        items: the element of an array, or the value of a map.
        precision: of the logical type decimal; `scale` too.
        map_entries: an array of records that stands for Connect's map of any keys.
    """

    kind: str
    name: str = ""
    fields: list[AvroField] = field(default_factory=list)
    items: AvroNode | None = None
    branches: list[AvroNode] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    size: int = 0
    logical: str = ""
    precision: int = 0
    scale: int = 0
    map_entries: bool = False

    @property
    def label(self) -> str:
        """The type in a few words, for messages."""
        if self.kind == "union":
            return "[" + ", ".join(b.label for b in self.branches) + "]"
        if self.logical == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        return self.logical or (f"{self.kind} {self.name}" if self.name else self.kind)


def parse_avro(schema: Schema) -> AvroNode:
    """The root of a schema.

    Raises:
        SchemaRefused: it is not an Avro schema, refers to a type it does not have, or is nested
            more deeply than `LEVELS_MAX`.
    """
    if len(schema.text) > _TEXT_MAX:
        raise SchemaRefused(f"An Avro schema has {len(schema.text)} characters, over {_TEXT_MAX}.")
    parser = _Parser()
    for _, text in schema.references:
        parser.parse(text)
    return parser.parse(schema.text)


def optional(node: AvroNode) -> AvroNode | None:
    """The type beside null of a union of these two; None for every other type."""
    if node.kind != "union" or len(node.branches) != 2:
        return None
    others = [b for b in node.branches if b.kind != "null"]
    return others[0] if len(others) == 1 else None


def map_parts(node: AvroNode) -> tuple[AvroNode, AvroNode] | None:
    """The types of key and value of an array that stands for Connect's map; None: it does not."""
    entry = node.items
    if node.kind != "array" or entry is None or entry.kind != "record":
        return None
    if [f.name for f in entry.fields] != ["key", "value"]:
        return None
    if not node.map_entries and not entry.map_entries:
        return None
    return entry.fields[0].type, entry.fields[1].type


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, AvroNode] = {}

    def parse(self, text: str) -> AvroNode:
        try:
            written = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise _wrong(f"it is not JSON ({error})") from None
        return self._node(written, "", 0)

    def _node(self, written: Any, space: str, level: int) -> AvroNode:
        if level > LEVELS_MAX:
            raise _wrong(f"types are nested in more than {LEVELS_MAX} levels")
        if isinstance(written, str):
            return self._known(written, space)
        if isinstance(written, list):
            branches = [self._node(each, space, level + 1) for each in written]
            return AvroNode("union", branches=branches)
        if not isinstance(written, dict):
            raise _wrong(f"{written!r} is no type")
        return self._object(written, space, level)

    def _known(self, name: str, space: str) -> AvroNode:
        if name in _PRIMITIVES:
            return AvroNode(name)
        found = self._named.get(_full(name, space)) or self._named.get(name)
        if found is None:
            raise _wrong(f"there is no type {name}")
        return found

    def _object(self, written: dict[str, Any], space: str, level: int) -> AvroNode:
        kind = written.get("type")
        if isinstance(kind, list | dict) or (
            kind not in (*_PRIMITIVES, *NAMED, "array", "map") and isinstance(kind, str)
        ):
            return self._node(kind, space, level + 1)
        if not isinstance(kind, str):
            raise _wrong(f"{str(written)[:100]} has no type")
        node = AvroNode("record" if kind == "error" else kind)
        if kind in NAMED:
            space = self._name(node, written, space)
        if kind == "array":
            node.items = self._node(written.get("items"), space, level + 1)
        elif kind == "map":
            node.items = self._node(written.get("values"), space, level + 1)
        elif node.kind == "record":
            self._fields(node, written.get("fields"), space, level)
        elif kind == "enum":
            node.symbols = tuple(map(str, written.get("symbols") or ()))
        elif kind == "fixed":
            node.size = _whole(written.get("size"), "the size of a fixed", _SIZE_MAX)
        node.map_entries = written.get("connect.internal.type") == "MapEntry" or (
            node.name == "io.confluent.connect.avro.MapEntry"
        )
        return _logical(node, written)

    def _name(self, node: AvroNode, written: dict[str, Any], space: str) -> str:
        name = written.get("name")
        if not isinstance(name, str) or not all(map(NAME.fullmatch, name.split("."))):
            raise _wrong(f"{name!r} is no name of a type")
        space = written.get("namespace", space) if "." not in name else space
        node.name = _full(name, space if isinstance(space, str) else "")
        self._named[node.name] = node
        space = node.name.rpartition(".")[0]
        for alias in _texts(written.get("aliases")):
            self._named.setdefault(_full(alias, space), node)
        return space

    def _fields(self, node: AvroNode, written: Any, space: str, level: int) -> None:
        if not isinstance(written, list):
            raise _wrong(f"the record {node.name} has no fields")
        for each in written:
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise _wrong(f"a field of {node.name} has no name")
            made = AvroField(
                each["name"],
                self._node(each.get("type"), space, level + 1),
                _texts(each.get("aliases")),
                each.get("default"),
                "default" in each,
            )
            node.fields.append(made)


def _logical(node: AvroNode, written: dict[str, Any]) -> AvroNode:
    """The node with its logical type; one that does not fit is ignored, as Avro says."""
    logical = written.get("logicalType")
    if logical == "decimal" and node.kind in ("bytes", "fixed"):
        precision, scale = written.get("precision"), written.get("scale", 0)
        if type(precision) is int and type(scale) is int and 0 <= scale <= precision:
            node.logical, node.precision, node.scale = "decimal", precision, scale
    elif (node.kind, logical) in _LOGICAL:
        node.logical = str(logical)
    return node


_LOGICAL = {
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
    ("string", "uuid"),
}


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _whole(found: Any, what: str, most: int) -> int:
    if type(found) is not int or not 0 <= found <= most:
        raise _wrong(f"{what} is {found!r}, not a whole number up to {most}")
    return found


def _wrong(why: str) -> SchemaRefused:
    return SchemaRefused(f"This is no Avro schema that can be read: {why}.")
