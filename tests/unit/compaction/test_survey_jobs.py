from __future__ import annotations

import time
from dataclasses import replace

import pytest

from holdfast.compaction.survey.facts import Estimate, How
from holdfast.compaction.survey.jobs import JobSeen, table_seen
from holdfast.compaction.survey.restore_rate import (
    DEFAULT_RECORDS_PER_S,
    measured_rate,
    restore_facts,
)
from holdfast.types.status import (
    ExecutorStatus,
    JobState,
    JobStatus,
    PartitionStatus,
    QueryStatus,
)

CHANGELOG = "app-ctas_t-changelog"
QUERY = QueryStatus(
    sink="T",
    sink_topic="T",
    changelog=CHANGELOG,
    state_partitions=(PartitionStatus(0, rows=40, position=100),),
    window_retention_ms=5_000,
)
STATUS = JobStatus(
    "app",
    state=JobState.RUNNING,
    updated_ms=1,
    executors=(ExecutorStatus("0"), ExecutorStatus("1")),
    queries={"ctas_t": QUERY},
)


def _seen(status: JobStatus = STATUS) -> JobSeen:
    found = JobSeen.of(status.as_json())
    assert found is not None
    return found


def test_a_level_store_has_counted_its_rows() -> None:
    table = table_seen([_seen()], "app", "ctas_t", CHANGELOG)
    assert (table.executors, table.retention_ms) == (2, 5_000)
    assert table.live_keys(0, 100, 100) == Estimate(40.0)
    assert table.live_keys(0, 101, 101) == Estimate(40.0)  # the end of its transaction


def test_what_was_written_since_may_have_changed_the_rows() -> None:
    found = table_seen([_seen()], "app", "ctas_t", CHANGELOG).live_keys(0, 130, 130)
    assert found == Estimate(40.0, 30.0, How.DERIVED)


def test_a_job_that_runs_has_moved_on_since_the_end_was_asked() -> None:
    found = table_seen([_seen()], "app", "ctas_t", CHANGELOG).live_keys(0, 90, 101)
    assert found == Estimate(40.0, 10.0, How.DERIVED)


def test_a_store_ahead_of_the_changelog_counted_something_else() -> None:
    table = table_seen([_seen()], "app", "ctas_t", CHANGELOG)
    assert not table.live_keys(0, 80, 99).known
    assert not table.live_keys(1, 100, 100).known


def test_a_query_that_its_job_does_not_have_leaves_an_orphan() -> None:
    table = table_seen([_seen()], "app", "ctas_old", "app-ctas_old-changelog")
    assert table.orphaned == "job app has no query ctas_old (it has: ctas_t)"
    assert not table.live_keys(0, 100, 100).known


def test_without_a_status_nothing_is_orphaned() -> None:
    table = table_seen([_seen()], "other", "ctas_t", "other-ctas_t-changelog")
    assert not table.orphaned
    assert not table.live_keys(0, 100, 100).known


def test_the_newest_of_several_statuses_counts() -> None:
    newer = replace(STATUS, updated_ms=2, queries={"ctas_t": replace(QUERY, state_partitions=())})
    assert not table_seen([_seen(newer), _seen()], "app", "ctas_t", CHANGELOG).partitions


def test_a_driver_tells_how_far_its_queries_are() -> None:
    told = STATUS.as_json()
    told["queries"]["ctas_t"] |= {"lag": 7, "caught_up": False}
    seen = JobSeen.of(told)
    assert seen is not None
    table = table_seen([seen], "app", "ctas_t", CHANGELOG)
    assert (table.lag, table.caught_up) == (7, False)
    file = table_seen([_seen()], "app", "ctas_t", CHANGELOG)
    assert (file.lag, file.caught_up) == (None, None)


def test_what_is_no_status_is_none() -> None:
    assert JobSeen.of({"error": "not found"}) is None


def test_only_a_stopped_job_is_away() -> None:
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    stopped = replace(STATUS, state=JobState.STOPPED, updated_ms=an_hour_ago)
    away = table_seen([_seen(stopped)], "app", "ctas_t", CHANGELOG).absence_ms
    assert 3_600_000 <= away < 3_700_000
    assert table_seen([_seen()], "app", "ctas_t", CHANGELOG).absence_ms == 0


def test_large_restores_tell_the_rate() -> None:
    large = PartitionStatus(0, restore_records=300_000, restore_seconds=1.0)
    larger = PartitionStatus(1, restore_records=900_000, restore_seconds=2.0)
    tail = PartitionStatus(2, restore_records=100, restore_seconds=0.5)
    assert measured_rate([large, larger, tail]) == pytest.approx(400_000)
    assert measured_rate([tail]) is None


def test_processes_restore_side_by_side_and_a_partition_has_one() -> None:
    large = PartitionStatus(0, restore_records=100_000, restore_seconds=1.0)
    even = restore_facts([Estimate(100_000.0)] * 4, [large], 2)
    assert even.seconds == pytest.approx(2.0)
    assert even.how is How.COUNTED
    uneven = restore_facts([Estimate(700_000.0), Estimate(1.0)], [large], 2)
    assert uneven.seconds == pytest.approx(7.0)


def test_a_rate_that_nobody_measured_is_said_to_be_assumed() -> None:
    found = restore_facts([Estimate(DEFAULT_RECORDS_PER_S)], [], 0)
    assert (found.seconds, found.processes, found.how) == (1.0, 1, How.DERIVED)
    assert restore_facts([Estimate.unknown()], [], 0).how is How.UNKNOWN
