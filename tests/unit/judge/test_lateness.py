"""How many records can have come late: by the input alone, however it was read."""

from __future__ import annotations

import random

import pytest

from holdfast.judge.checkers.tables import late_is_possible
from holdfast.judge.recompute.lateness import SLACK_MS, ReadTimes, late_most
from holdfast.judge.statement.units import units
from holdfast.judge.verdict import Verdict
from holdfast.sql.plan.topology import compile_text
from tests.unit.judge.judging import evidence

HOUR, MINUTE = 3_600_000, 60_000


def _late(rows: list[tuple[int, int, int]], grace_ms: int, advance_ms: int = HOUR) -> int:
    return late_most(ReadTimes.of(rows), HOUR, advance_ms, grace_ms)


def test_partitions_that_hold_the_same_hours_leave_nothing_late() -> None:
    """Sixteen hours in four partitions, half a minute of disorder at most: read one after the
    other they would be late by hours.
    """
    chance = random.Random(1)
    rows = [
        (p, at, at - chance.randrange(30_000))
        for p in range(4)
        for at in range(0, 16 * HOUR, 20_000)
    ]
    assert _late(rows, 5 * MINUTE) == 0


def test_a_record_behind_its_own_partitions_newer_ones_may_be_late() -> None:
    rows = [(0, 2 * HOUR, 2 * HOUR), (0, 2 * HOUR, 10)]
    assert _late(rows, 59 * MINUTE) == 1
    assert _late(rows, HOUR) == 1, "the window closes when stream time is at its end and grace"
    assert _late(rows, HOUR + 1) == 0


def test_its_turn_is_behind_what_is_before_it_whatever_its_own_time_says() -> None:
    old_by_its_own_time = [(0, 9 * HOUR, 9 * HOUR), (0, 10, 10)]
    assert _late(old_by_its_own_time, 0) == 1
    elsewhere = [(0, 9 * HOUR, 9 * HOUR), (1, 10, 10)]
    assert _late(elsewhere, 0) == 0, "partition 1 is read first"


def test_what_comes_within_the_slack_may_have_come_before() -> None:
    near = [(0, 0, 10), (1, SLACK_MS, HOUR)]
    far = [(0, 0, 10), (1, SLACK_MS + 1, HOUR)]
    assert (_late(near, 0), _late(far, 0)) == (1, 0)


def test_a_hopping_windows_record_counts_once_for_each_window_that_may_be_closed() -> None:
    rows = [(0, 5 * HOUR, 5 * HOUR), (0, 5 * HOUR, HOUR + 10)]
    assert _late(rows, 0, advance_ms=HOUR // 4) == 4
    assert _late(rows, int(3.5 * HOUR), advance_ms=HOUR // 4) == 2


def test_nothing_read_is_nothing_late() -> None:
    assert _late([], 0) == 0


@pytest.mark.parametrize(
    ("dropped", "most", "verdict"),
    [
        (2242, 0, Verdict.INVALID),
        (5, 5, Verdict.VALID),
        (6, 5, Verdict.INVALID),
        (6, None, Verdict.VALID),
    ],
)
def test_more_than_can_have_come_late_is_lost(
    dropped: int, most: int | None, verdict: Verdict
) -> None:
    found = late_is_possible(evidence(windowed=True, dropped_late=dropped, late_most=most))
    assert found.verdict is verdict
    excused = evidence(windowed=True, dropped_late=6, late_most=5, doubtful="retention")
    assert late_is_possible(excused).verdict is Verdict.UNKNOWN


SQL = """
CREATE STREAM s (k VARCHAR KEY, v BIGINT, ts BIGINT)
  WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON', PARTITIONS=2, TIMESTAMP='ts');
CREATE STREAM failed AS SELECT * FROM s WHERE v > 9 EMIT CHANGES;
CREATE TABLE direct AS SELECT k, COUNT(*) AS c FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k;
CREATE TABLE chained AS
  SELECT k, COUNT(*) AS c FROM failed WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k;
CREATE STREAM stamped WITH (TIMESTAMP='v') AS SELECT * FROM s EMIT CHANGES;
CREATE TABLE other AS SELECT k, COUNT(*) AS c FROM stamped GROUP BY k;
"""


def test_behind_a_filter_the_declared_source_says_what_can_be_late() -> None:
    found = {u.sink.name: u.origin(u.queries[0].source) for u in units(compile_text(SQL))}
    topics = {name: origin and origin.topic for name, origin in found.items()}
    assert topics == {
        "FAILED": "in",
        "DIRECT": "in",
        "CHAINED": "in",
        "STAMPED": "in",
        "OTHER": None,  # its records have other times than the source's
    }
