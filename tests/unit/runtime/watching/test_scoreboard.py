"""The status says what of a query's input is in no result, and warns above a share."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from holdfast.deploy.deployment import Deployment, driver_facts
from holdfast.runtime.watching.metrics import Metrics
from holdfast.runtime.watching.scoreboard import Scoreboard
from holdfast.sql.plan.topology import compile_text
from holdfast.state.changelog import FORMAT_VERSION, CommitMarker
from holdfast.state.topics.progress_counts import Counted
from holdfast.tasks.plan import Batch, StandbyState, TaskReport, Whereabouts
from holdfast.types.ids import OffsetRange
from holdfast.types.left_out import LeftOut, WarnShares
from holdfast.types.snapshots import SnapshotState
from holdfast.types.status import JobStatus, StandbyStatus, status_path

SQL = """
CREATE STREAM s (k VARCHAR, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;
CREATE STREAM u AS SELECT k FROM s EMIT CHANGES;
"""
SOURCE = OffsetRange.of("s", {}, {})


def _report(partition: int, records: int, late: int, null_key: int) -> TaskReport:
    marker = CommitMarker(
        FORMAT_VERSION, "app", "ctas_t", partition, 2, "p", "f", "c", SOURCE, 0, 3,
        records, late, null_key,
    )  # fmt: skip
    return TaskReport(partition, Whereabouts("0", 0, 1, 2), marker=marker)


@pytest.fixture
def board(tmp_path: Path) -> Scoreboard:
    topology = compile_text(SQL)
    shares = WarnShares(late=0.1, null_key=0.01, dead_letter=0.01)
    found = Scoreboard(str(tmp_path), "app", topology.queries, Metrics("app"), shares)
    query = topology.query("T")
    assert query is not None
    reports = [_report(0, 500, 60, 2), _report(1, 500, 60, 3)]
    found.observe(query, Batch(3, SOURCE), reports, 0.1)
    return found


def _written(folder: Path) -> JobStatus:
    found = JobStatus.read(status_path(folder, "app"))
    assert found is not None
    return found


def test_markers_and_the_progress_topic_are_told_as_one(board: Scoreboard, tmp_path: Path) -> None:
    board.counted("ctas_t", Counted(dead_letters=200))
    table = _written(tmp_path).queries["ctas_t"]
    assert table.left_out == LeftOut(1_200, 120, 5, 200)
    (warning,) = table.warnings
    assert warning.startswith("200 of 1,200 input records (16.7 %) set aside as dead letters")


def test_a_query_without_state_counts_source_offsets(board: Scoreboard, tmp_path: Path) -> None:
    board.counted("csas_u", Counted(offsets=100, dead_letters=2))
    assert _written(tmp_path).queries["csas_u"].left_out == LeftOut(100, 0, 0, 2)
    late, dead = _written(tmp_path).warnings()
    assert late.startswith("T: 120 of 1,000 input records (12.0 %) dropped as late")
    assert dead.startswith("U: 2 of 100 input records (2.0 %) set aside as dead letters")


def test_a_deployment_tells_the_warnings_of_its_driver(board: Scoreboard) -> None:
    facts = driver_facts({**board.as_json(), "ready": True})
    found = Deployment("app", "local", 1, **facts)
    assert "  warning: T: 120 of 1,000" in found.as_text()
    assert len(found.as_json()["warnings"]) == 1
    assert "warning" not in found.as_line()
    assert "  not in T: 5 of 1,000 input records (0.5 %) dropped for a NULL" in found.as_text()
    left_out = found.as_json()["left_out"]["T"]
    assert left_out == {"records": 1_000, "late": 120, "null_key": 5, "dead_letters": 0}


def test_the_log_warns_once(board: Scoreboard, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for letters in (200, 201, 202):
            board.counted("ctas_t", Counted(dead_letters=letters))
    assert caplog.text.count("set aside as dead letters") == 1


def test_empty_stores_are_told_in_one_line(
    board: Scoreboard, caplog: pytest.LogCaptureFixture
) -> None:
    query = compile_text(SQL).query("T")
    assert query is not None
    opened = [replace(_report(p, 0, 0, 0), restore_reason="the store is empty") for p in (2, 0, 1)]
    opened.append(replace(opened[0], partition=3, restored_records=7))
    with caplog.at_level(logging.INFO):
        board.observe(query, Batch(4, SOURCE), opened, 0.0)
    restored, empty = (record.getMessage() for record in caplog.records)
    assert restored.startswith("ctas_t state partition 3: restored 7 records, 0 bytes")
    assert empty == "ctas_t state partitions 0, 1, 2: restored no record: the store is empty"


def test_shares_are_metrics() -> None:
    metrics = Metrics("app")
    metrics.left_out("ctas_t", LeftOut(1_000, 120, 0, 250))
    registry: CollectorRegistry = metrics._registry

    def value(name: str, reason: str) -> float | None:
        return registry.get_sample_value(name, {"query": "ctas_t", "reason": reason})

    assert value("holdfast_left_out_records", "late") == 120
    assert value("holdfast_left_out_share", "late") == 0.12
    assert value("holdfast_left_out_share", "dead-letter") == 0.25
    assert value("holdfast_left_out_share", "null-key") == 0


def test_standbys_are_told_beside_the_owner_until_there_are_none(
    board: Scoreboard, tmp_path: Path
) -> None:
    where, state = Whereabouts("1", 1, 3, 4), StandbyState("ctas_t", 0, 90, 12)
    found: dict[Any, Any] = {("ctas_t", 0): [(where, state)]}
    cluster = SimpleNamespace(standbys=lambda: found, whereabouts=lambda: [where])
    board.standbys_told()  # nothing to tell before Spark runs
    board.attach(cast("Any", cluster))
    board.standbys_told()
    first, second = _written(tmp_path).queries["ctas_t"].state_partitions
    assert first.standbys == (StandbyStatus("1", "1", 90, 12),)
    assert second.standbys == ()
    found.clear()
    board.standbys_told()
    first, _ = _written(tmp_path).queries["ctas_t"].state_partitions
    assert first.standbys == ()


def test_the_newest_snapshot_is_that_of_the_last_report(board: Scoreboard, tmp_path: Path) -> None:
    query = compile_text(SQL).query("T")
    assert query is not None
    facts = 90, 1_000, 4_096, 1_024, 2.5, "The bucket is gone."
    for state in (SnapshotState(*facts), SnapshotState(), None):
        reports = [replace(_report(0, 500, 60, 2), snapshot=state), _report(1, 500, 60, 3)]
        board.observe(query, Batch(4, SOURCE), reports, 0.1)
        first, second = _written(tmp_path).queries["ctas_t"].state_partitions
        assert (first.snapshot, second.snapshot) == (state, None)
