"""Event time from columns: which types hold one, and why a record has none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdfast.errors import InvalidStatement, UndecodableRecord
from holdfast.tasks.evaluate.event_time import EventTime
from holdfast.types.columns.schema import BIGINT, BOOLEAN, STRING, Base, Column, SqlType
from holdfast.types.statements.topology import TimestampSpec


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
        1: "event time T: 'x' does not match yyyy-MM-dd",
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
