"""JSON by a schema of a registry, as Connect's converter reads it.

The writer's schema says which field is which column, and what stands for what: maps may be arrays
of entries, decimals are numbers or their bytes in base64, unions are a STRUCT, and a field that is
missing or null has its `default`.  Values themselves are read by the rules of JSON (`json`), also
where they do not keep to their schema: text for a number, any value for a STRING.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.errors import SchemaRefused
from holdfast.ingest.formats.base import Decoded, Undecodable, null_columns
from holdfast.ingest.formats.json.decoder import JsonDecoder
from holdfast.ingest.formats.json.fast import renamed
from holdfast.ingest.formats.json.schema_values import READS, field_converter, record_converter
from holdfast.ingest.formats.json.slow import SlowJson, unwrapped_value
from holdfast.ingest.formats.registered import MakeReader, SchemaReader
from holdfast.tasks.registered.json_schema.nodes import JsonNode, bare, fields_by_column
from holdfast.tasks.registered.json_schema.parse import parse_json_schema
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import Schema

__all__ = ["json_reader"]

_SIMPLE_NAME = re.compile(r"[A-Za-z0-9_]+")
_NESTED = (Base.ARRAY, Base.MAP, Base.STRUCT)


def json_reader(wanted: Sequence[Column], unwrapped: bool) -> MakeReader:
    """The function that makes the reader of one writer's schema."""

    def make(schema: Schema) -> SchemaReader:
        try:
            root = bare(parse_json_schema(schema))
            return _whole(root, wanted[0]) if unwrapped else _reader(root, wanted)
        except (SchemaRefused, Undecodable) as error:
            columns = ", ".join(map(str, wanted))
            raise Undecodable(f"{error}; it is {schema.text[:300]}, read as {columns}") from None

    return make


def _whole(root: JsonNode, column: Column) -> SchemaReader:
    convert = unwrapped_value([field_converter(root, column.type, column.name)])
    return _JsonReader([column], [column], SlowJson([column], convert).decode)


def _reader(root: JsonNode, wanted: Sequence[Column]) -> SchemaReader:
    if root.kind not in ("struct", "union", "unsupported"):
        raise Undecodable(f"it is of type {root.label}, not an object")
    found = fields_by_column(root.fields, wanted)
    present = [c for c in wanted if c.name in found or root.kind == "unsupported"]
    if root.kind != "struct" or not all(_is_plain(found[c.name].type, c.type) for c in present):
        slow = SlowJson(present, record_converter(root, present))
        return _JsonReader(wanted, present, slow.decode)
    written = [Column((f := found[c.name]).name, _as_written(f.type, c.type)) for c in present]
    slow = SlowJson(written, record_converter(root, written))
    quick = JsonDecoder(written, slow=slow)
    decimals = [c.name for c in written if c.type.base is Base.DECIMAL]
    if not decimals:
        return _JsonReader(wanted, present, quick.decode)
    if not all(map(_SIMPLE_NAME.fullmatch, decimals)):
        return _JsonReader(wanted, present, slow.decode)
    in_base64 = _text_after(decimals)

    def decode(payloads: Sequence[bytes]) -> Decoded:
        # To JSON, text that is given for a number has the number's digits.
        if in_base64.search(b"\n".join(payloads)):
            return slow.decode(payloads)
        return quick.decode(payloads)

    return _JsonReader(wanted, present, decode)


def _text_after(names: Sequence[str]) -> re.Pattern[bytes]:
    """Matches a field of one of these names if its value is text."""
    each = [f"(?i:{n})" if n == n.upper() else n for n in names]
    return re.compile(f'"(?:{"|".join(each)})"\\s*:\\s*"'.encode())


class _JsonReader(SchemaReader):
    def __init__(
        self,
        wanted: Sequence[Column],
        present: Sequence[Column],
        decode: Callable[[Sequence[Any]], Decoded],
    ) -> None:
        """See `SchemaReader`.

        Args:
            present: the wanted columns that the schema has.
            decode: decodes these, maybe with other names of fields in them.
        """
        self._wanted = tuple(wanted)
        self._present = tuple(present)
        self._decode = decode

    def decode(self, payloads: Sequence[bytes], start: int) -> Decoded:
        found = self._decode([p[start:] for p in payloads])
        columns = {
            c.name: renamed(array, c.type) if array.type != c.type.arrow() else array
            for c, array in zip(self._present, found.columns, strict=True)
        }
        nulls = null_columns(self._wanted, len(payloads))
        whole = tuple(columns.get(c.name, n) for c, n in zip(self._wanted, nulls, strict=True))
        return Decoded(whole, found.bad, found.nulls)


def _is_plain(written: JsonNode, kind: SqlType, *, within: bool = False) -> bool:
    """Whether the rules of JSON alone say how to read the column."""
    node = bare(written)
    if node.default is not None:
        return False
    if kind.base not in _NESTED:
        leaf = node.kind in READS or node.kind == "unsupported"
        return leaf and not (within and kind.base is Base.DECIMAL)
    if kind.base is Base.ARRAY and node.kind == "array":
        assert kind.element is not None
        assert node.items is not None
        return _is_plain(node.items, kind.element, within=True)
    if kind.base is not Base.STRUCT or node.kind != "struct":
        return False
    found = fields_by_column(node.fields, kind.fields)
    return all(
        f.name in found and _is_plain(found[f.name].type, f.type, within=True) for f in kind.fields
    )


def _as_written(written: JsonNode, kind: SqlType) -> SqlType:
    """The type of a plain column, with the schema's names of fields."""
    node = bare(written)
    if kind.base is Base.ARRAY and kind.element is not None and node.items is not None:
        return SqlType(Base.ARRAY, element=_as_written(node.items, kind.element))
    if kind.base is not Base.STRUCT:
        return kind
    found = fields_by_column(node.fields, kind.fields)
    parts = [(found[f.name], f.type) for f in kind.fields]
    return SqlType(
        Base.STRUCT, fields=tuple(Column(f.name, _as_written(f.type, k)) for f, k in parts)
    )
