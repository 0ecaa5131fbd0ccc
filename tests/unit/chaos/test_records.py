"""The workload's records are read by the engine's own decoders, and are what was asked for."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.chaos.load.records import InputRecord, LoadShape, RecordMaker
from holdfast.errors import Refused
from holdfast.ingest.formats import key_decoder, value_decoder
from holdfast.sql import compile_text
from holdfast.types.statements.topology import Format, Source

NOW_MS = 1_780_000_000_000
EVERY_TYPE = (
    "a STRING, b BIGINT, c INT, d DOUBLE, e BOOLEAN, f DECIMAL(10, 2), g DATE, h TIME, "
    "i TIMESTAMP, j BYTES"
)
NESTED = "k ARRAY<BIGINT>, l MAP<STRING, INT>, m STRUCT<x STRING, y INT>"


def _source(columns: str, options: str = "VALUE_FORMAT='JSON'") -> Source:
    text = f"CREATE STREAM s ({columns}) WITH (KAFKA_TOPIC='t', PARTITIONS=1, {options});"
    return compile_text(text).sources[0]


def _made(source: Source, count: int, **shape: object) -> list[InputRecord]:
    maker = RecordMaker(source, LoadShape(**shape))  # type: ignore[arg-type]
    return [maker.make(n, 7, NOW_MS) for n in range(count)]


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (f"{EVERY_TYPE}, {NESTED}", "VALUE_FORMAT='JSON'"),
        (f"{EVERY_TYPE}", "VALUE_FORMAT='DELIMITED'"),
        ("a BIGINT", "VALUE_FORMAT='KAFKA'"),
        ("a DOUBLE", "VALUE_FORMAT='KAFKA'"),
        ("a STRING", "VALUE_FORMAT='KAFKA'"),
        ("id BIGINT KEY, a STRING", "VALUE_FORMAT='JSON'"),
        ("id STRING KEY, other INT KEY, a STRING", "FORMAT='JSON'"),
        ("id INT KEY, a STRING", "KEY_FORMAT='JSON', VALUE_FORMAT='DELIMITED'"),
        ("id STRING KEY, other INT KEY, a STRING", "FORMAT='DELIMITED'"),
    ],
)
def test_the_engine_can_decode_every_record(columns: str, options: str) -> None:
    source = _source(columns, options)
    records = _made(source, 100)
    keys, values = source.key_columns, source.value_columns
    for decoded in (
        key_decoder(source.key_format, keys, keys).decode([r.key for r in records]),
        value_decoder(source.value_format, values, values).decode([r.value for r in records]),
    ):
        assert decoded.bad == {}
        assert all(array.null_count == 0 for array in decoded.columns)


def test_all_but_the_time_follows_from_seed_and_number() -> None:
    maker = RecordMaker(_source("a STRING, b BIGINT"), LoadShape())
    assert maker.make(5, 1, NOW_MS) == maker.make(5, 1, NOW_MS)
    assert maker.make(5, 1, NOW_MS) != maker.make(6, 1, NOW_MS)
    assert maker.make(5, 1, NOW_MS) != maker.make(5, 2, NOW_MS)
    assert maker.make(5, 1, NOW_MS).value == maker.make(5, 1, NOW_MS + 9_999).value


def test_keys_are_as_many_and_as_uneven_as_asked() -> None:
    source = _source("a STRING")
    uniform = Counter(r.value for r in _made(source, 4_000, keys=20))
    zipf = Counter(r.value for r in _made(source, 4_000, keys=20, distribution="zipf"))
    assert len(uniform) == len(zipf) == 20
    assert max(uniform.values()) < 2 * min(uniform.values())
    assert max(zipf.values()) > 5 * min(zipf.values())
    assert zipf.most_common(1)[0][0] == b'{"A":"k0"}'


def test_the_same_key_has_the_same_bytes() -> None:
    records = _made(_source("id BIGINT KEY, a STRING"), 500, keys=5)
    assert len({r.key for r in records}) == 5


def test_tombstones_and_garbage_have_their_shares() -> None:
    source = _source("a STRING")
    records = _made(source, 4_000, tombstones=0.1, garbage=0.2)
    values = [r.value for r in records]
    columns = source.value_columns
    bad = value_decoder(Format.JSON, columns, columns).decode(values).bad
    assert 300 < values.count(None) < 500
    assert 650 < len(bad) < 950
    assert all(values[i] is not None for i in bad)


@pytest.mark.parametrize("timestamp", ["", ", TIMESTAMP='ts'"])
def test_out_of_order_and_late_records_are_older(timestamp: str) -> None:
    source = _source("a STRING, ts BIGINT", f"VALUE_FORMAT='JSON'{timestamp}")
    shape = LoadShape(out_of_order=0.3, late=0.1)
    maker = RecordMaker(source, shape)
    ages = []
    for n in range(2_000):
        record = maker.make(n, 3, NOW_MS)
        assert record.value is not None
        own = int(record.value.rpartition(b":")[2].rstrip(b"}"))
        ages.append(NOW_MS - (own if timestamp else record.timestamp_ms))
    late = sum(age == shape.late_ms for age in ages)
    disordered = sum(0 < age < shape.disorder_ms for age in ages)
    assert 130 < late < 270
    assert 480 < disordered < 720
    assert late + disordered + ages.count(0) == 2_000


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(Refused, match="does not know times like"):
        RecordMaker(
            _source("a STRING", "VALUE_FORMAT='JSON', TIMESTAMP='a', TIMESTAMP_FORMAT='yyyy'"),
            LoadShape(),
        )
    with pytest.raises(Refused, match="More than every record"):
        RecordMaker(_source("a STRING"), LoadShape(tombstones=0.6, garbage=0.6))
