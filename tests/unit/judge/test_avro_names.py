"""Aliases of a table's own Avro schema, as the engine, the judge and Avro's library read them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from holdfast.ingest.formats import value_decoder
from holdfast.judge.read.registered import Translation, translations
from holdfast.judge.values import Untranslatable
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schemas import DataSchema, Schema, SchemaKind
from holdfast.types.statements.sources import Format, Source


def _record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def _field(name: str, kind: Any, *aliases: str) -> dict[str, Any]:
    return {"name": name, "type": kind, **({"aliases": list(aliases)} if aliases else {})}


def _nested(*fields: Any) -> Any:
    """A record in a union, in a list, in a map, and within itself."""
    inner = _record("In", *fields, _field("more", ["null", "In"]))
    return (
        _field("one", ["null", inner]),
        _field("list", {"type": "array", "items": "In"}),
        _field("map", {"type": "map", "values": ["null", "In"]}),
    )


_INNER = {"was": 5, "more": {"was": 6, "more": None}}
_CASES: dict[str, tuple[Any, Any, Any, Any]] = {  # writer, reader, value, as it is read
    "a field": (
        _record("R", _field("was", "long")), _record("R", _field("now", "long", "old", "was")),
        {"was": 7}, {"NOW": 7},
    ),
    "records with other names": (
        _record("Old", _field("was", "long")), _record("New", _field("now", "long", "was")),
        {"was": 7}, {"NOW": 7},
    ),
    "no alias": (
        _record("R", _field("was", "long")), _record("R", _field("now", ["null", "long"])),
        {"was": 7}, {"NOW": None},
    ),
    "the alias of the writer's schema": (
        _record("R", _field("was", "long", "now")), _record("R", _field("now", ["null", "long"])),
        {"was": 7}, {"NOW": None},
    ),
    "the new name is there": (
        _record("R", _field("was", "long"), _field("now", "long")),
        _record("R", _field("now", "long", "was")),
        {"was": 7, "now": 8}, {"NOW": 8},
    ),
    "the alias is another field's name": (
        _record("R", _field("b", "long")),
        _record("R", _field("a", ["null", "long"], "b"), _field("b", "long")),
        {"b": 7}, {"A": None, "B": 7},
    ),
    "two fields change places": (
        _record("R", _field("a", "long"), _field("b", "long")),
        _record("R", _field("x", "long", "b"), _field("y", "long", "a")),
        {"a": 1, "b": 2}, {"X": 2, "Y": 1},
    ),
    "within other types": (
        _record("R", *_nested(_field("was", "long"))),
        _record("R", *_nested(_field("now", "long", "was"))),
        {"one": _INNER, "list": [_INNER], "map": {"k": _INNER}},
        {"ONE": {"NOW": 5}, "LIST": [{"NOW": 5}], "MAP": [("k", {"NOW": 5})]},
    ),
    "a record of several in a union": (
        _record("R", _field("u", [_record("A", _field("p", "long")),
                                  _record("B", _field("was", "long"))])),
        _record("R", _field("u", [_record("A", _field("p", "long")),
                                  _record("B", _field("now", "long", "was"))])),
        {"u": ("B", {"was": 3})}, {"U": {"A": None, "B": {"NOW": 3}}},
    ),
}  # fmt: skip


def _payload(writer: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(writer), value)
    return b"\0\0\0\0\x07" + stream.getvalue()


def _source(reader: Any) -> Source:
    return _source_of(Schema(SchemaKind.AVRO, json.dumps(reader)))


def _source_of(schema: Schema) -> Source:
    columns = LANGUAGES[Format.AVRO].columns_of(schema, "", unwrapped=False, key=False)
    own = DataSchema("t-value", schema, 8, fixed=True)
    return Source("S", "STREAM", "t", (), columns, Format.NONE, Format.AVRO, value_schema=own)


def _registry(writer: Any) -> MemoryRegistry:
    made = MemoryRegistry()
    made.put("t-value", Schema(SchemaKind.AVRO, json.dumps(writer)), 7)
    return made


@pytest.mark.parametrize("case", _CASES)
def test_earlier_writers_fields_have_the_names_that_the_aliases_say(case: str) -> None:
    writer, reader, value, expected = _CASES[case]
    source, registry, data = _source(reader), _registry(writer), _payload(writer, value)
    columns = source.value_columns
    decoder = value_decoder(
        Format.AVRO, columns, columns, schemas=registry, own=source.value_schema
    )
    found = decoder.decode([data])
    assert not found.bad
    named = zip(columns, found.columns, strict=True)
    assert {c.name: array[0].as_py() for c, array in named} == expected
    mine = json.loads(Translation(source, registry).value(data) or b"")
    _check_judge(mine, expected)


def _check_judge(mine: Any, expected: Any) -> None:
    """The judge's names have their writer's case, and its maps are objects."""
    if isinstance(expected, dict):
        upper = {name.upper(): value for name, value in mine.items()}
        for name, value in expected.items():
            if value is None or name in upper:
                _check_judge(upper.get(name), value)
            else:  # a branch of a union: the judge has its value only
                _check_judge(mine, value)
    elif isinstance(expected, list) and expected and isinstance(expected[0], tuple):
        _check_judge(mine, {k.upper(): v for k, v in expected})
    elif isinstance(expected, list):
        for own, other in zip(mine, expected, strict=True):
            _check_judge(own, other)
    else:
        assert mine == expected


@pytest.mark.parametrize("case", ["a field", "records with other names", "within other types"])
def test_avro_s_own_library_reads_them_so(case: str) -> None:
    writer, reader, value, expected = _CASES[case]
    stream = io.BytesIO(_payload(writer, value)[5:])
    own = fastavro.parse_schema({**reader, "aliases": [writer["name"]]})
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(writer), own)
    _check_judge(found, expected)


def test_columns_that_a_statement_lists_have_no_aliases() -> None:
    writer, reader, value, _ = _CASES["a field"]
    columns = _source(reader).value_columns
    decoder = value_decoder(Format.AVRO, columns, columns, schemas=_registry(writer))
    assert decoder.decode([_payload(writer, value)]).columns[0].to_pylist() == [None]


def test_a_topic_that_is_read_with_aliases_and_without_is_not_judged() -> None:
    writer, reader, value, _ = _CASES["a field"]
    with_aliases, without = _source(reader), _source(writer)
    found = translations([with_aliases, without], _registry(writer))["t"]
    with pytest.raises(Untranslatable, match="declared in several ways"):
        found.value(_payload(writer, value))


def _with_reference(field: Any, inner: Any) -> tuple[Schema, Any]:
    """A record whose only field is of another schema's record, and both in one for the writer."""
    name = "a.In"
    other = _record(name, inner)
    texts = json.dumps(_record("R", {**field, "type": name})), json.dumps(other)
    schema = Schema(SchemaKind.AVRO, texts[0], (("in", texts[1]),))
    return schema, _record("R", {**field, "type": other})


@pytest.mark.parametrize("alias", [(), ("before",)], ids=["no alias", "aliases of its own"])
def test_records_of_another_schema_are_read_by_their_writer_s(alias: tuple[str, ...]) -> None:
    schema, whole = _with_reference(_field("x", None), _field("n", "long", *alias))
    registry = MemoryRegistry()
    registry.put("t-value", schema, 7)
    data = _payload(whole, {"x": {"n": 5}})
    translation = Translation(_source_of(schema), registry)
    assert json.loads(translation.value(data) or b"") == {"x": {"n": 5}}


def test_aliases_are_not_judged_in_records_of_another_schema() -> None:
    written, whole = _with_reference(_field("x", None), _field("was", "long"))
    own, _ = _with_reference(_field("x", None), _field("now", "long", "was"))
    registry = MemoryRegistry()
    registry.put("t-value", written, 7)
    translation = Translation(_source_of(own), registry)
    with pytest.raises(Untranslatable, match="aliases over schemas that refer to others"):
        translation.value(_payload(whole, {"x": {"was": 5}}))
