"""Avro of writers that differ from each other and from the columns, as fastavro writes it."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ingest.formats import value_decoder
from holdfast.ingest.formats.base import Decoded
from holdfast.transport.registry.memory import MemoryRegistry
from holdfast.types.columns.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Base,
    Column,
    SqlType,
)
from holdfast.types.columns.schemas import Schema, SchemaKind
from holdfast.types.statements.sources import Format

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_INT, _LONG = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (31, 63))
_SYMBOLS = ["A", "B", "C"]


@dataclass(frozen=True)
class _Leaf:
    """A type without others in it; `narrow`: what an older writer may have instead."""

    avro: Any
    kind: SqlType
    values: st.SearchStrategy[Any]
    read: Callable[[Any], Any] = lambda value: value
    narrow: str = ""


def _logical(of: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": of, "logicalType": name, **more}


_SAFE = st.integers(-60_000_000_000_000, 200_000_000_000_000)
_LEAVES: Mapping[str, _Leaf] = {
    "int": _Leaf("int", INTEGER, _INT),
    "long": _Leaf("long", BIGINT, _LONG, narrow="int"),
    "float": _Leaf("float", DOUBLE, st.floats(width=32, allow_nan=False)),
    "double": _Leaf("double", DOUBLE, st.floats(allow_nan=False), narrow="float"),
    "boolean": _Leaf("boolean", BOOLEAN, st.booleans()),
    "string": _Leaf("string", STRING, _TEXT),
    "bytes": _Leaf("bytes", SqlType(Base.BYTES), st.binary(max_size=4)),
    "enum": _Leaf({"type": "enum", "symbols": _SYMBOLS}, STRING, st.sampled_from(_SYMBOLS)),
    "fixed": _Leaf(
        {"type": "fixed", "size": 3}, SqlType(Base.BYTES), st.binary(min_size=3, max_size=3)
    ),
    "decimal": _Leaf(
        _logical("bytes", "decimal", precision=9, scale=2), SqlType(Base.DECIMAL, 9, 2),
        st.decimals(-9_999_999, 9_999_999, places=2).map(lambda d: d.quantize(Decimal("0.01"))),
    ),
    "date": _Leaf(
        _logical("int", "date"), SqlType(Base.DATE), st.integers(-700_000, 2_900_000),
        lambda days: _EPOCH.date() + dt.timedelta(days=days),
    ),
    "time": _Leaf(
        _logical("int", "time-millis"), SqlType(Base.TIME), st.integers(0, 86_399_999)
    ),
    "at": _Leaf(
        _logical("long", "timestamp-millis"), SqlType(Base.TIMESTAMP), _SAFE,
        lambda ms: _EPOCH + dt.timedelta(milliseconds=ms),
    ),
    "at-micros": _Leaf(
        _logical("long", "timestamp-micros"), SqlType(Base.TIMESTAMP),
        _SAFE.map(lambda ms: ms * 1_000), lambda us: _EPOCH + dt.timedelta(microseconds=us),
    ),
}  # fmt: skip
_SHAPES = (
    "plain", "null first", "null last", "array", "array of nulls", "map", "record", "records",
    "null or record",
)  # fmt: skip
_Field = tuple[str, str]
"""The shape and the leaf of a field."""


def _avro(shape: str, leaf: str, name: str) -> Any:
    written = _LEAVES[leaf].avro
    named = isinstance(written, dict) and written["type"] in ("enum", "fixed")
    plain = written | {"name": f"N{name}"} if named else written
    record = {
        "type": "record", "name": f"R{name}",
        "fields": [{"name": "q", "type": plain}, {"name": "w", "type": ["null", "long"]}],
    }  # fmt: skip
    return {
        "plain": plain, "null first": ["null", plain], "null last": [plain, "null"],
        "array": {"type": "array", "items": plain},
        "array of nulls": {"type": "array", "items": ["null", plain]},
        "map": {"type": "map", "values": plain}, "record": record,
        "records": {"type": "array", "items": record}, "null or record": ["null", record],
    }[shape]  # fmt: skip


def _kind(shape: str, leaf: str) -> SqlType:
    plain = _LEAVES[leaf].kind
    record = SqlType(Base.STRUCT, fields=(Column("Q", plain), Column("W", BIGINT)))
    if shape.startswith("array"):
        return SqlType(Base.ARRAY, element=plain)
    if shape == "records":
        return SqlType(Base.ARRAY, element=record)
    if shape == "map":
        return SqlType(Base.MAP, element=plain)
    return record if "record" in shape else plain


def _values(shape: str, leaf: str) -> st.SearchStrategy[Any]:
    plain = _LEAVES[leaf].values
    record = st.fixed_dictionaries({"q": plain, "w": st.none() | _LONG})
    return {
        "plain": plain, "null first": st.none() | plain, "null last": st.none() | plain,
        "array": st.lists(plain, max_size=3),
        "array of nulls": st.lists(st.none() | plain, max_size=3),
        "map": st.dictionaries(_TEXT, plain, max_size=3), "record": record,
        "records": st.lists(record, max_size=3), "null or record": st.none() | record,
    }[shape]  # fmt: skip


def _expected(value: Any, leaf: str) -> Any:
    """As Arrow gives it back: a map is a list of pairs."""
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() == {"q", "w"}:
        return {"Q": _expected(value["q"], leaf), "W": value["w"]}
    if isinstance(value, dict):
        return [(k, _expected(v, leaf)) for k, v in value.items()]
    if isinstance(value, list):
        return [_expected(v, leaf) for v in value]
    return _LEAVES[leaf].read(value)


@dataclass(frozen=True)
class _Writer:
    """Some of the fields in an order of its own, and one that nobody else has."""

    fields: Mapping[str, _Field]

    def schema(self) -> dict[str, Any]:
        fields = [{"name": n, "type": _avro(*field, n)} for n, field in self.fields.items()]
        return {"type": "record", "name": "R", "fields": fields}

    def payload(self, number: int, row: Mapping[str, Any]) -> bytes:
        data = io.BytesIO()
        fastavro.schemaless_writer(data, fastavro.parse_schema(self.schema()), row)
        return b"\0" + number.to_bytes(4, "big") + data.getvalue()


@st.composite
def _writers(draw: st.DrawFn) -> tuple[dict[str, _Field], list[_Writer]]:
    leaf = st.tuples(st.sampled_from(_SHAPES), st.sampled_from([*_LEAVES]))
    columns = {
        f"f{i}": field for i, field in enumerate(draw(st.lists(leaf, min_size=1, max_size=5)))
    }
    writers = []
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.permutations([*columns]))[: draw(st.integers(1, len(columns)))]
        fields = {name: _older(draw, columns[name]) for name in names}
        fields["other"] = draw(leaf)
        writers.append(_Writer(dict(draw(st.permutations([*fields.items()])))))
    return columns, writers


def _older(draw: st.DrawFn, field: _Field) -> _Field:
    shape, leaf = field
    narrow = _LEAVES[leaf].narrow
    return (shape, narrow) if narrow and draw(st.booleans()) else field


def _damaged(draw: st.DrawFn, payload: bytes) -> bytes:
    """Behind its head: a byte flipped, put in, or all from there on cut off."""
    at = draw(st.integers(5, len(payload)))
    what = draw(st.sampled_from(["flip", "insert", "cut"]))
    if what == "cut":
        return payload[:at]
    if what == "insert":
        return payload[:at] + draw(st.binary(min_size=1, max_size=3)) + payload[at:]
    flipped = bytes(b ^ draw(st.integers(1, 255)) for b in payload[at : at + 1])
    return payload[:at] + flipped + payload[at + 1 :]


def _decoded(
    schemas: MemoryRegistry, columns: Sequence[Column], payloads: Sequence[bytes]
) -> Decoded:
    found = value_decoder(Format.AVRO, columns, columns, schemas=schemas).decode(payloads)
    for column, array in zip(columns, found.columns, strict=True):
        array.validate(full=True)
        assert (len(array), array.type) == (len(payloads), column.type.arrow())
    return found


@given(made=_writers(), data=st.data())
def test_each_record_is_read_by_its_own_writer_and_a_damaged_one_hurts_no_other(
    made: tuple[dict[str, _Field], list[_Writer]], data: st.DataObject
) -> None:
    fields, writers = made
    schemas = MemoryRegistry()
    for number, writer in enumerate(writers):
        schemas.put("t-value", Schema(SchemaKind.AVRO, json.dumps(writer.schema())), number)
    columns = tuple(Column(n.upper(), _kind(*field)) for n, field in fields.items())
    payloads, wanted = [], []
    for _ in range(data.draw(st.integers(1, 6))):
        number = data.draw(st.integers(0, len(writers) - 1))
        writer = writers[number]
        row = {n: data.draw(_values(*field)) for n, field in writer.fields.items()}
        payloads.append(writer.payload(number, row))
        wanted.append([_expected(row.get(n), fields[n][1]) for n in fields])
    found = _decoded(schemas, columns, payloads)
    assert not found.bad
    assert _rows(found) == wanted
    hurt = data.draw(st.sets(st.integers(0, len(payloads) - 1), max_size=2))
    draw: Any = data.draw
    broken = [_damaged(draw, p) if i in hurt else p for i, p in enumerate(payloads)]
    left = _decoded(schemas, columns, broken)
    assert left.bad.keys() <= hurt
    rows = _rows(left)
    assert [r for i, r in enumerate(rows) if i not in hurt] == [
        r for i, r in enumerate(wanted) if i not in hurt
    ]
    assert all(rows[i] == [None] * len(columns) for i in left.bad)


def _rows(found: Decoded) -> list[list[Any]]:
    arrays: Sequence[pa.Array] = found.columns
    return [list(row) for row in zip(*(a.to_pylist() for a in arrays), strict=True)]
