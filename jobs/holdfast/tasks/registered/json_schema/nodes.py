"""JSON schemas, parsed: the nodes that decoders and encoders are made from.

A node is what Connect's converter makes of a schema, with the same names for types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.types.columns.schema import Column

__all__ = [
    "LEVELS_MAX",
    "ONE_OF",
    "JsonField",
    "JsonKind",
    "JsonNode",
    "bare",
    "fields_by_column",
    "takes_null",
]

LEVELS_MAX = 64  # schemas within a schema
ONE_OF = "io.confluent.connect.json.OneOf.field."  # names of a union's fields, with a number

JsonKind = str
"""boolean, int32, int64, float64, string, bytes, decimal, date, time, timestamp, array, map,
struct, union; ref: see `JsonNode.target`; unsupported: see `JsonNode.why`."""


@dataclass
class JsonField:
    """A property of an object, or a branch of a union; `required`: it may not be left out."""

    name: str
    type: JsonNode
    required: bool = False


@dataclass(eq=False)
class JsonNode:
    """A schema within a schema.  An object may be within itself, by reference.

    Attributes:
        optional: null is allowed.
        items: the element of an array, or the value of a map.
        key: the key of a map that is an array of entries; None: the map is an object.
        precision: of a decimal; `scale` too.
        default: the value of a missing field, or of one that is null, as parsed JSON.
        target: what a ref stands for.
        why: what Connect cannot translate.
    """

    kind: JsonKind
    optional: bool = False
    fields: list[JsonField] = field(default_factory=list)
    items: JsonNode | None = None
    key: JsonNode | None = None
    precision: int = 0
    scale: int = 0
    default: Any = None
    target: JsonNode | None = None
    why: str = ""

    @property
    def label(self) -> str:
        """The type in a few words, for messages."""
        if self.kind == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        if self.kind == "unsupported":
            return self.why
        if self.kind == "ref" and self.target is not None:
            return bare(self).label
        if self.kind == "union":
            return "[" + ", ".join(f.type.label for f in self.fields) + "]"
        return {"struct": "object", "map": "map"}.get(self.kind, self.kind)


def bare(node: JsonNode) -> JsonNode:
    """The node that a reference stands for, itself if it is none."""
    for _ in range(LEVELS_MAX):
        if node.target is None:
            return node
        node = node.target
    return JsonNode("unsupported", why="a reference to itself")


def fields_by_column(
    fields: Iterable[JsonField], columns: Sequence[Column]
) -> dict[str, JsonField]:
    """The field of each column that has one, as ksqlDB finds it.

    That is a field of the same name, or one that has it in upper case; the last one counts.
    """
    names = {c.name for c in columns}
    found = {}
    for each in fields:
        name = each.name if each.name in names else each.name.upper()
        if name in names:
            found[name] = each
    return found


def takes_null(node: JsonNode) -> bool:
    """Whether the schema, or one that it refers to, says that null is allowed."""
    for _ in range(LEVELS_MAX):
        if node.optional or node.target is None:
            return node.optional
        node = node.target
    return False
