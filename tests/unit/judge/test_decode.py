"""Bytes of records as values: keys, windows, JSON rules, event time."""

from __future__ import annotations

import datetime as dt
import struct
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from holdfast.judge.read.decode import InputDecoder, SinkDecoder, json_form
from holdfast.judge.values import Untranslatable
from holdfast.types.columns.schema import BIGINT, STRING, Base, Column, SqlType
from holdfast.types.statements.topology import Format, Source, TimestampSpec
from tests.unit.judge.statements import FLIGHTS

ALL = tuple(c.name for c in FLIGHTS.columns)
JSON = (Format.KAFKA, Format.JSON)


def source(timestamp: TimestampSpec | None = None, *columns: Column) -> Source:
    return replace(FLIGHTS, key_columns=(), value_columns=columns, timestamp=timestamp)


def decoded(kind: SqlType, text: str) -> Any:
    decoder = InputDecoder(source(None, Column("V", kind)), ["V"])
    row = decoder.row(None, b'{"v": %s}' % text.encode(), 7)
    return row[1] if row else "undecodable"


def test_a_row_is_event_time_keys_and_values() -> None:
    decoder = InputDecoder(FLIGHTS, ALL)
    value = b'{"CARRIER": "AA", "Origin": "JFK", "delay": 2, "seats": 3, "ts": 99}'
    assert decoder.row(b"id-1", value, 7) == (99, "id-1", "AA", "JFK", 2.0, 3, 99)
    assert (decoder.undecodable, decoder.doubtful) == (0, 0)


def test_fields_match_by_exact_name_before_any_case() -> None:
    decoder = InputDecoder(source(None, Column("v", STRING)), ["v"])
    assert decoder.row(None, b'{"V": "no", "v": "yes"}', 7) == (7, "yes")
    assert decoder.row(None, b'{"V": "any"}', 7) == (7, "any")
    assert decoder.row(None, b'{"w": 1}', 7) == (7, None)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SqlType(Base.INTEGER), "5", 5),
        (SqlType(Base.DOUBLE), "5", 5.0),
        (SqlType(Base.BOOLEAN), "true", True),
        (SqlType(Base.BOOLEAN), "1", "undecodable"),
        (SqlType(Base.BIGINT), "true", "undecodable"),
        (SqlType(Base.BIGINT), '"x"', "undecodable"),
        (SqlType(Base.DECIMAL, 4, 2), "1.25", Decimal("1.25")),
        (SqlType(Base.DATE), "1", dt.date(1970, 1, 2)),
        (SqlType(Base.TIMESTAMP), "1000", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
        (STRING, "null", None),
    ],
)
def test_a_value_of_its_type(kind: SqlType, text: str, value: Any) -> None:
    assert decoded(kind, text) == value


def test_values_of_another_json_type_are_taken_but_doubtful() -> None:
    decoder = InputDecoder(source(None, Column("V", BIGINT)), ["V"])
    assert decoder.row(None, b'{"v": "12"}', 7) == (7, 12)
    assert decoder.doubtful == 1


@pytest.mark.parametrize(("levels", "found"), [(199, 5), (200, "undecodable")])
def test_no_record_is_nested_more_than_200_levels_deep(levels: int, found: Any) -> None:
    """The object of the record is one of them."""
    decoder = InputDecoder(source(None, Column("V", BIGINT)), ["V"])
    deep = b"[" * levels + b"]" * levels
    row = decoder.row(None, b'{"v": 5, "other": %s}' % deep, 7)
    assert (row[1] if row else "undecodable") == found


def test_event_time_by_a_java_pattern() -> None:
    spec = TimestampSpec("V", "yyyy-MM-dd'T'HH:mm:ssXXX")
    decoder = InputDecoder(source(spec, Column("V", STRING)), ["V"])
    row = decoder.row(None, b'{"v": "1970-01-01T01:00:01+01:00"}', 7)
    assert row is not None
    assert row[0] == 1000
    assert decoder.row(None, b'{"v": "yesterday"}', 7) is None


def test_patterns_types_and_formats_that_are_not_known_are_said() -> None:
    with pytest.raises(Untranslatable):
        InputDecoder(source(TimestampSpec("V", "EEE dd"), Column("V", STRING)), ["V"])
    with pytest.raises(Untranslatable):
        InputDecoder(source(None, Column("V", SqlType(Base.MAP, element=STRING))), ["V"])
    with pytest.raises(Untranslatable):
        InputDecoder(replace(FLIGHTS, value_format=Format.DELIMITED), ALL)


@pytest.mark.parametrize(
    ("kind", "form", "data", "value"),
    [
        (STRING, Format.KAFKA, "é".encode(), "é"),
        (SqlType(Base.INTEGER), Format.KAFKA, b"\x00\x00\x00\x05", 5),
        (BIGINT, Format.KAFKA, struct.pack(">q", -2), -2),
        (SqlType(Base.DOUBLE), Format.KAFKA, struct.pack(">d", 0.5), 0.5),
        (STRING, Format.JSON, b'"a"', "a"),
    ],
)
def test_a_sink_key_of_one_column(kind: SqlType, form: Format, data: bytes, value: Any) -> None:
    decoder = SinkDecoder([Column("K", kind)], [], (form, Format.JSON), windowed=False)
    assert decoder.key(data) == (value,)


def test_a_sink_key_of_several_columns_is_a_json_object() -> None:
    columns = [Column("A", STRING), Column("B", BIGINT)]
    decoder = SinkDecoder(columns, [], JSON, windowed=False)
    assert decoder.key(b'{"B":2,"A":"x"}') == ("x", 2)


def test_a_windowed_key_ends_with_the_window_start() -> None:
    decoder = SinkDecoder([Column("K", STRING)], [], JSON, windowed=True)
    assert decoder.key(b"AA" + struct.pack(">q", 3_600_000)) == ("AA", 3_600_000)
    with pytest.raises(ValueError, match="cannot be read"):
        decoder.key(b"AA")


def test_a_session_s_key_ends_with_its_end_and_its_start() -> None:
    decoder = SinkDecoder([Column("K", STRING)], [], JSON, windowed=True, sessions=True)
    assert decoder.key(b"AA" + struct.pack(">qq", 9_000, 3_000)) == ("AA", 3_000)
    with pytest.raises(ValueError, match="cannot be read"):
        decoder.key(b"AA" + struct.pack(">q", 9_000)[:3])


def test_a_null_sink_value_is_a_tombstone_and_decimals_stay_exact() -> None:
    decoder = SinkDecoder([], [Column("D", SqlType(Base.DECIMAL, 30, 2))], JSON, windowed=False)
    assert decoder.row(None) is None
    assert decoder.row(b'{"D":12345678901234567890.12}') == {
        "D": Decimal("12345678901234567890.12")
    }


def test_values_take_their_json_form() -> None:
    assert json_form(dt.datetime(1970, 1, 1, 0, 0, 1)) == 1000  # noqa: DTZ001 - as DuckDB gives it
    assert json_form(dt.date(1970, 1, 3)) == 2
    assert json_form(b"hi") == "aGk="
    assert json_form([dt.date(1970, 1, 2)]) == [1]
    assert json_form(Decimal(5)) == 5
    assert json_form(Decimal("0.50"), SqlType(Base.DECIMAL, 4, 2)) == Decimal("0.50")
