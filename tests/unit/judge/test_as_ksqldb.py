"""The judge knows what ksqlDB's own answers are, where a job was told to give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast.ingest.formats import value_decoder
from holdfast.judge.read.arrivals import Batches
from holdfast.judge.read.messages import MessageReader
from holdfast.judge.read.observe import Record
from holdfast.judge.read.registered import translations
from holdfast.judge.recompute.blanks import Blanks
from holdfast.judge.recompute.rebuild import rebuilt_stream
from holdfast.judge.statement.units import Unit, units
from holdfast.judge.values import Untranslatable
from holdfast.sql import compile_text
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schema import STRING, Base, Column, SqlType
from holdfast.types.columns.schemas import Schema, SchemaKind
from holdfast.types.statements.sources import Format, Nullable, Sink, Source
from tests.unit.judge.rebuilding import facts_of, sure

_WINDOWS = """
SET 'ksqldb.differences'='none';
CREATE STREAM wide (id STRING KEY, v BIGINT) WITH (KAFKA_TOPIC='wide', KEY_FORMAT='AVRO',
  VALUE_FORMAT='JSON', WINDOW_TYPE='HOPPING', WINDOW_SIZE='3 SECONDS');
CREATE STREAM narrow (id STRING KEY, w BIGINT) WITH (KAFKA_TOPIC='narrow', KEY_FORMAT='AVRO',
  VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 SECOND');
CREATE STREAM o AS SELECT wide.id, v, w, narrow.windowend AS e
  FROM wide {} JOIN narrow WITHIN 1 MINUTE ON wide.id = narrow.id;
"""
_NOTE = SqlType(Base.STRUCT, fields=(Column("B", SqlType(Base.BYTES)),))
_NOTES = (Column("BODY", SqlType(Base.BYTES)), Column("TITLE", STRING), Column("BOX", _NOTE))


def _windows(kind: str) -> Unit:
    """Keys are read as plain text here, which this test writes."""
    unit = list(units(compile_text(_WINDOWS.format(kind))))[-1]
    plain = {
        name: replace(source, key_format=Format.KAFKA, key_schema=None)
        for name, source in unit.named.items()
    }
    return replace(unit, named=plain)


def _records(*given: tuple[int, str]) -> list[Record]:
    return [
        Record(0, n, b"k" + start.to_bytes(8, "big"), value.encode(), start)
        for n, (start, value) in enumerate(given)
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("", [(1, 7, 2_000)]),
        ("LEFT", [(1, 7, 2_000), (2, None, None)]),
    ],
)
def test_windows_that_start_together_meet(kind: str, expected: Sequence[Any]) -> None:
    records = {
        "wide": _records((1_000, '{"V": 1}'), (500, '{"V": 2}')),
        "narrow": _records((1_000, '{"W": 7}'), (2_000, '{"W": 8}')),
    }
    facts = facts_of(_windows(kind), records, Batches(broken="one batch"), 0)
    found = rebuilt_stream(facts)
    assert sorted(key[1:4] for key in sure(found)) == expected


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_bytes_that_a_message_lacks_are_null_as_in_the_engine(syntax: str) -> None:
    label = "optional " if syntax == "proto2" else ""
    text = (
        f'syntax = "{syntax}"; message Note {{ {label}bytes body = 1; {label}string title = 2; '
        f"message Box {{ {label}bytes b = 1; }} {label}Box box = 3; }}"
    )
    schema = Schema(SchemaKind.PROTOBUF, text)
    registry = MemoryRegistry()
    registry.put("t-value", schema, 7)
    found = {}
    for nullable in (Nullable.NONE, Nullable.BYTES):
        decoder = value_decoder(
            Format.PROTOBUF, _NOTES, _NOTES, schemas=registry, nullable=nullable
        )
        for message in (b"", b"\x0a\0\x1a\0", b"\x0a\x01a\x1a\x03\x0a\x01b"):
            columns = decoder.decode([b"\0\0\0\0\x07\0" + message]).columns
            engines = dict(
                zip(("body", "title", "box"), (c[0].as_py() for c in columns), strict=True)
            )
            mine = MessageReader(schema, nullable).read(b"\0" + message)
            if engines["box"] is not None:
                engines["box"] = {"b": engines["box"]["B"]}
            assert mine == engines
            found[nullable, message] = mine
    assert found[Nullable.NONE, b""] == {"body": b"", "title": "", "box": None}
    assert found[Nullable.BYTES, b""] == {"body": None, "title": "", "box": None}
    assert found[Nullable.BYTES, b"\x0a\0\x1a\0"] == {"body": None, "title": "", "box": {"b": None}}


def test_a_topic_that_is_read_in_both_ways_is_not_judged() -> None:
    source = Source("A", "STREAM", "t", (), _NOTES, Format.NONE, Format.PROTOBUF)
    other = replace(source, name="B", nullable=Nullable.BYTES)
    found = translations([source, other], MemoryRegistry())["t"]
    with pytest.raises(Untranslatable, match="declared in several ways"):
        found.value(b"\0\0\0\0\x07\0")


def test_empty_bytes_in_a_sink_are_null() -> None:
    sink = Sink("T", "TABLE", "t", (Column("K", STRING),), _NOTES, Format.JSON, Format.PROTOBUF)
    row = {"BODY": "", "TITLE": None, "BOX": {"B": ""}}
    plain = Blanks(sink).row(row, {})
    theirs = Blanks(replace(sink, nullable=Nullable.BYTES)).row(row, {})
    assert plain == {"BODY": "", "TITLE": "", "BOX": {"B": ""}}
    assert theirs == {"BODY": None, "TITLE": "", "BOX": {"B": None}}
