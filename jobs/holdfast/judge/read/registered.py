"""Records of formats with schemas, of a registry or their own columns', as JSON for the judge.

Avro is read by fastavro and Protobuf by Google's library, one record at a time, so that the judge
shares no code with the engine's readers.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact, InvalidOperation
from typing import Any

import orjson

from holdfast.errors import SchemaMissing
from holdfast.judge.read.avro_names import Renamer
from holdfast.judge.read.declared_messages import declared_schema
from holdfast.judge.read.messages import MessageReader
from holdfast.judge.values import Untranslatable, no_number, unreadable
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema, Schema, SchemaKind, Schemas
from holdfast.types.statements.sources import Format, Nullable, Sink, Source, WindowKind

__all__ = ["Translation", "plain_format", "translations"]

_HEADER_BYTES = 5  # a zero and the schema's id
_WINDOW_BYTES = 8
_REGISTERED = (Format.AVRO, Format.JSON_SR, Format.PROTOBUF)
_MESSAGES = (Format.PROTOBUF, Format.PROTOBUF_NOSR)  # which never hold a single value
_KNOWN = (*_REGISTERED, Format.PROTOBUF_NOSR)
_NO_JSON = b"\xff"

_ROUNDED = Context(prec=100, rounding=ROUND_HALF_UP)
_UNROUNDED = Context(prec=100, traps=[InvalidOperation, Inexact])

_BAD = (
    ValueError, TypeError, ArithmeticError, LookupError, EOFError, SchemaMissing, RecursionError,
)  # fmt: skip

_Translate = Callable[[bytes], bytes]
_Read = Callable[[bytes], Any]


def plain_format(form: Format) -> Format:
    """The format that the judge sees after the translation."""
    return Format.JSON if form in _KNOWN else form


class Translation:
    """The keys and values of one stream's or table's topic.

    What cannot be read comes behind a byte that no JSON has: it may well be JSON itself.
    """

    def __init__(self, of: Source | Sink, schemas: Schemas | None) -> None:
        sink = isinstance(of, Sink)
        keys = _Shaper(of.key_columns, exact=sink)
        self._key = None
        if of.key_columns:
            self._key = _translate(of.key_format, schemas, keys, of.key_nullable, of.key_schema)
        values = _Shaper(of.value_columns, wrapped=of.wrap_single, exact=sink, marks=not sink)
        self._value = _translate(of.value_format, schemas, values, of.nullable, of.value_schema)
        times = {None: 0, WindowKind.SESSION: 2}.get(of.window, 1)
        self._behind = times * _WINDOW_BYTES

    def add_key(self, other: Translation) -> None:
        """Takes the keys of another stream or table over the topic if this one has none."""
        if self._key is None:
            self._key, self._behind = other._key, other._behind

    def key(self, data: bytes | None) -> bytes | None:
        """JSON and the key's window; a key that cannot be read is no JSON."""
        if self._key is None or data is None:
            return data
        cut = len(data) - self._behind
        return _or_no_json(self._key, data[:cut]) + data[cut:]

    def value(self, data: bytes | None) -> bytes | None:
        """JSON; a value that cannot be read is none."""
        if self._value is None or data is None:
            return data
        return _or_no_json(self._value, data)


class _Ambiguous(Translation):
    """A topic whose keys or values are declared in several ways."""

    def key(self, data: bytes | None) -> bytes | None:
        return self.value(data)

    def value(self, data: bytes | None) -> bytes | None:
        raise Untranslatable("a topic whose bytes are declared in several ways")


def translations(
    relations: Sequence[Source | Sink], schemas: Schemas | None
) -> Mapping[str, Translation]:
    """The translations of the topics that need one; those of a registry need one that is there."""
    found: dict[str, Translation] = {}
    layouts: dict[str, list[object]] = {}
    known_forms = _KNOWN if schemas is not None else (Format.PROTOBUF_NOSR,)
    for each in relations:
        if each.key_format not in known_forms and each.value_format not in known_forms:
            continue
        made, mine = Translation(each, schemas), list(_layouts(each))
        known = layouts.setdefault(each.topic, mine)
        if any(a != b for a, b in zip(known, mine, strict=True) if a and b):
            found[each.topic] = _Ambiguous(each, schemas)
        else:
            layouts[each.topic] = [a or b for a, b in zip(known, mine, strict=True)]
            found.setdefault(each.topic, made).add_key(made)
    return found


def _layouts(of: Source | Sink) -> Iterator[object]:
    """The facts that the bytes of keys and of values depend on; None: they have no columns."""
    parts = (
        (of.key_format, of.key_columns, of.key_nullable, of.key_schema),
        (of.value_format, of.value_columns, of.nullable, of.value_schema),
    )
    for form, columns, nullable, own in parts:
        declared: tuple[object, ...] = ()
        if form is Format.PROTOBUF_NOSR:
            declared = (columns, nullable)
        elif form is Format.PROTOBUF:  # presence is in the schema, but not what empty bytes are
            declared = (nullable is Nullable.BYTES,)
        yield (form, _with_aliases(own), *declared) if columns else None


def _with_aliases(own: DataSchema | None) -> Schema | None:
    """The schema that columns come from, if it may rename fields."""
    if own is None or own.schema.kind is not SchemaKind.AVRO:
        return None
    texts = (own.schema.text, *(text for _, text in own.schema.references))
    return own.schema if any('"aliases"' in text for text in texts) else None


def _or_no_json(translate: _Translate, data: bytes) -> bytes:
    try:
        return translate(data)
    except _BAD:
        return _NO_JSON + data


def _translate(
    form: Format,
    schemas: Schemas | None,
    shaper: _Shaper,
    nullable: Nullable,
    own: DataSchema | None,
) -> _Translate | None:
    if form in _MESSAGES:
        shaper = replace(shaper, wrapped=True, digits=_ROUNDED)
    if form is Format.PROTOBUF_NOSR:
        return _declared(shaper, nullable)
    if form not in _REGISTERED or schemas is None:
        return None
    readers: dict[int, _Read] = {}

    def translate(data: bytes) -> bytes:
        if len(data) < _HEADER_BYTES or data[0]:
            raise ValueError("it has no schema's id")
        number = int.from_bytes(data[1:_HEADER_BYTES], "big")
        if number not in readers:
            schema = schemas.by_id(number)
            if schema.kind is not form.schema_kind:
                raise ValueError(f"its schema is of type {schema.kind}")
            readers[number] = _READERS[form](schema, own, nullable)
        return shaper.written(readers[number](data[_HEADER_BYTES:]))

    return translate


def _declared(shaper: _Shaper, nullable: Nullable) -> _Translate:
    """Reads messages of the declared columns; the schema is compiled for the first one."""
    readers: list[MessageReader] = []

    def translate(data: bytes) -> bytes:
        if not readers:
            schema = declared_schema(shaper.columns, nullable)
            readers.append(MessageReader(schema, nullable))
        return shaper.written(readers[0].read_bare(data))

    return translate


def _avro(schema: Schema, own: DataSchema | None, _nullable: Nullable) -> _Read:
    """The reader of one writer's schema; times stay the numbers that they are.

    A column's schema of its own renames fields by its aliases, as a reader's schema in Avro does.
    """
    import fastavro

    written, reader = json.loads(schema.text), _with_aliases(own)
    if reader is not None and reader != schema:
        if schema.references:
            raise Untranslatable("aliases over schemas that refer to others")
        written = Renamer(reader).renamed(written)
    named: dict[str, Any] = {}
    for _, text in schema.references:
        fastavro.parse_schema(json.loads(text), named)
    parsed = fastavro.parse_schema(_without_times(written), named)

    def read(data: bytes) -> Any:
        stream = io.BytesIO(data)
        # Text that is no UTF-8 matters in columns that a statement needs.
        found = fastavro.schemaless_reader(
            stream, parsed, None, handle_unicode_errors="surrogateescape"
        )
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes are left over")
        return found

    return read


_READERS: Mapping[Format, Callable[[Schema, DataSchema | None, Nullable], _Read]] = {
    Format.AVRO: _avro,
    Format.JSON_SR: lambda *_: orjson.loads,
    Format.PROTOBUF: lambda schema, _, nullable: MessageReader(schema, nullable).read,
}


def _without_times(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_times(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    logical = schema.get("logicalType")
    kept = {k: v for k, v in schema.items() if k != "logicalType" or logical == "decimal"}
    return {k: v if k == "default" else _without_times(v) for k, v in kept.items()}


@dataclass(frozen=True)
class _Shaper:
    """Writes the values of one topic's keys or values as JSON.

    Attributes:
        wrapped: also a single column is a field of a record.
        exact: decimals are numbers; else text, which a reader of JSON keeps exact.
        marks: a column that cannot be read is marked as such; else the record cannot be read.
        digits: how a decimal gets its column's scale: only Protobuf's are rounded.
    """

    columns: Sequence[Column]
    wrapped: bool = False
    exact: bool = False
    marks: bool = False
    digits: Context = _UNROUNDED

    def written(self, found: Any) -> bytes:
        if len(self.columns) == 1 and not self.wrapped:
            return orjson.dumps(self._shaped(found, self.columns[0].type))
        if not isinstance(found, dict):
            raise TypeError("it is no record")
        types = {c.name.upper(): c.type for c in self.columns}
        return orjson.dumps({n: self._column(v, types.get(n.upper())) for n, v in found.items()})

    def _column(self, value: Any, kind: SqlType | None) -> Any:
        try:
            if isinstance(value, Exception):
                raise value
            return orjson.Fragment(orjson.dumps(self._shaped(value, kind)))
        except (*_BAD, Untranslatable) as error:
            if not self.marks:
                raise
            return unreadable(error)

    def _shaped(self, value: Any, kind: SqlType | None) -> Any:
        """A value as JSON has it; Connect's list of entries becomes the object of a MAP."""
        if isinstance(value, list):
            element = kind.element if kind is not None else None
            if kind is not None and kind.base is Base.MAP:
                return {e["key"]: self._shaped(e["value"], element) for e in value}
            return [self._shaped(each, element) for each in value]
        if isinstance(value, dict):
            inner = _inner(kind)
            return {k: self._shaped(v, inner(k)) for k, v in value.items()}
        if isinstance(value, Decimal) and kind is not None and kind.base is Base.DECIMAL:
            value = self._fitted(value, kind)
        return _plain(value, exact=self.exact)

    def _fitted(self, value: Decimal, kind: SqlType) -> Decimal:
        """With the column's scale."""
        try:
            made = value.quantize(Decimal(1).scaleb(-kind.scale), context=self.digits)
        except Inexact:
            raise ValueError(f"{value} does not fit {kind} without rounding") from None
        if len(made.as_tuple().digits) > kind.precision:
            raise ValueError(f"{value} does not fit {kind}")
        return made


def _plain(value: Any, *, exact: bool) -> Any:
    if isinstance(value, Decimal):
        text = format(value, "f")
        return orjson.Fragment(text) if exact else text
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return no_number(value)
    return value


def _inner(kind: SqlType | None) -> Callable[[str], SqlType | None]:
    if kind is None or kind.base is not Base.STRUCT:
        return lambda _: kind.element if kind is not None else None
    fields = {f.name.upper(): f.type for f in kind.fields}
    return lambda name: fields.get(name.upper())
