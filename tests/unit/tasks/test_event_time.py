"""Event time from columns and patterns; golden values as Java's DateTimeFormatter gives them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdfast.errors import InvalidStatement, UndecodableRecord, Unsupported
from holdfast.tasks.event_time import EventTime
from holdfast.tasks.java_time import timestamp_parser
from holdfast.types.schema import BIGINT, BOOLEAN, STRING, Base, Column, SqlType
from holdfast.types.topology import TimestampSpec


@pytest.mark.parametrize(
    ("pattern", "text", "millis"),
    [
        ("yyyy-MM-dd'T'HH:mm:ssX", "2013-01-01T05:00:00Z", 1_357_016_400_000),
        ("yyyy-MM-dd'T'HH:mm:ssX", "2013-01-01T05:00:00-05", 1_357_034_400_000),
        ("yyyy-MM-dd HH:mm:ss.SSSxxx", "2023-01-02 03:04:05.123-05:30", 1_672_648_445_123),
        ("yyyyMMddHHmmssSSS", "20230102030405678", 1_672_628_645_678),
        ("EEE, d MMM yyyy h:mm a z", "Mon, 2 Jan 2023 3:04 PM America/New_York", 1_672_689_840_000),
        ("d. MMMM uuuu", "7. february 2023", 1_675_728_000_000),
        ("yyyy-MM-dd['T'HH:mm[:ss]]", "2023-01-02", 1_672_617_600_000),
        ("yyyy-MM-dd['T'HH:mm[:ss]]", "2023-01-02T01:02", 1_672_621_320_000),
        ("uuuu-DDD", "2024-366", 1_735_603_200_000),
        ("yy/M/d", "23/1/2", 1_672_617_600_000),
        ("HH'h 'yyyy'''s'", "03h 1970's", 10_800_000),
        ("yyyy-MM-dd HH:mm:ss.SSSSSS", "1970-01-01 00:00:01.234567", 1_234),
        ("yyyy-MM-dd hh a", "1970-01-01 12 am", 0),
        ("HH:mm", "03:04", 11_040_000),
    ],
)
def test_patterns(pattern: str, text: str, millis: int) -> None:
    assert timestamp_parser(pattern)(text) == millis


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("uuuu-DDD", "2023-366"),
        ("yyyy-MM-dd", "2023-02-30"),
        ("yyyy-MM-dd", "2023-2-3"),
        ("yyyy-MM-dd HH", "2023-01-01 24"),
        ("yyyy VV", "2023 Mars/Base"),
        ("yyyy", "2023 "),
    ],
)
def test_text_that_is_no_moment_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"does not match|no moment"):
        timestamp_parser(pattern)(text)


@pytest.mark.parametrize("pattern", ["yyyy-qq", "yyyy[-MM", "yyyy]"])
def test_a_pattern_that_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(Unsupported, match="timestamp format"):
        timestamp_parser(pattern)


def times(
    type_: SqlType, values: list[object], pattern: str | None = None
) -> tuple[list[int], dict[int, str]]:
    nothing = np.zeros(len(values), np.bool_)
    column = pa.array(values, type_.arrow())
    found, bad = EventTime("S", [Column("T", type_)], TimestampSpec("T", pattern)).of(
        column, [7] * len(values), nothing
    )
    return found.tolist(), bad


def test_a_bigint_column_holds_milliseconds() -> None:
    found, bad = times(BIGINT, [0, 1_700_000_000_000, None, -1])
    assert found[:2] == [0, 1_700_000_000_000]
    assert bad == {
        2: "event time T is null",
        3: "event time -1 ms lies before the epoch, or is missing",
    }


def test_a_timestamp_column_is_cut_to_milliseconds() -> None:
    found, bad = times(SqlType(Base.TIMESTAMP), [1_700_000_000_123_999])
    assert (found, bad) == ([1_700_000_000_123], {})


def test_a_text_column_follows_its_pattern_or_iso() -> None:
    found, bad = times(STRING, ["1970-01-02", "x", None], "yyyy-MM-dd")
    assert found[0] == 86_400_000
    assert bad == {
        1: "event time T: 'x' does not match the pattern yyyy-MM-dd",
        2: "event time T is null",
    }
    iso = ["1970-01-01T00:00:01.5Z", "1970-01-01 00:00", "1970-01-01T01:00:00.001+01:00"]
    found, bad = times(STRING, list(iso))
    assert list(bad) == [0], "a fraction has three or six digits"
    assert found[1:] == [0, 1]


def test_without_a_column_and_for_tombstones_the_record_timestamp_counts() -> None:
    columns = [Column("T", BIGINT)]
    found, bad = EventTime("S", columns, None).of(None, [5, -1], np.zeros(2, np.bool_))
    assert found.tolist() == [5, -1]
    assert list(bad) == [1]
    column = pa.array([None, 9], pa.int64())
    found, bad = EventTime("S", columns, TimestampSpec("T")).of(
        column, [5, 6], np.array([True, False])
    )
    assert (found.tolist(), bad) == ([5, 9], {})


def test_a_time_that_is_required_and_missing_stops_the_query() -> None:
    spec = TimestampSpec("T", "yyyy", required=True)
    times = EventTime("S", [Column("T", STRING)], spec)
    alive = np.zeros(2, np.bool_)
    assert times.of(pa.array(["1970", "1971"]), [0, 0], alive)[1] == {}
    with pytest.raises(UndecodableRecord, match="TimestampExtractor callback for record"):
        times.of(pa.array(["1970", "no"]), [0, 0], alive)


def test_columns_that_hold_no_time_are_refused() -> None:
    columns = (Column("B", BOOLEAN),)
    for name, told in (("B", "holds no event time"), ("NO", "has no column NO")):
        with pytest.raises(InvalidStatement, match=told):
            EventTime("S", columns, TimestampSpec(name))
