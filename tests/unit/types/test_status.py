"""The status file: what a driver writes any reader reads, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.types.status import (
    ExecutorStatus,
    JobState,
    JobStatus,
    PartitionStatus,
    QueryStatus,
    status_path,
)


def a_status() -> JobStatus:
    partition = PartitionStatus(partition=3, owner="1", rows=7, position=90, changelog_end=100)
    query = QueryStatus("T", "T", "app-ctas_t-changelog", 4, 1000, 1, 2, (partition,))
    executor = ExecutorStatus("1", "/v/1", 11, 12)
    return JobStatus("app", 1, 2, JobState.RUNNING, 5, "http://x", (executor,), {"ctas_t": query})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = status_path(tmp_path, "app")
    a_status().write(path)
    assert JobStatus.read(path) == a_status()
    assert path == tmp_path / "run" / "app" / "status.json"


def test_writing_replaces_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = status_path(tmp_path, "app")
    JobStatus("app").write(path)
    a_status().write(path)
    assert [file.name for file in path.parent.iterdir()] == ["status.json"]
    read = JobStatus.read(path)
    assert read is not None
    assert read.state is JobState.RUNNING


def test_no_file_and_a_broken_file_are_no_status(tmp_path: Path) -> None:
    assert JobStatus.read(tmp_path / "none.json") is None
    (tmp_path / "half.json").write_text('{"application_id": "a", "que')
    assert JobStatus.read(tmp_path / "half.json") is None


def test_unknown_keys_are_skipped_and_missing_keys_have_defaults(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    query = {"sink": "T", "sink_topic": "T", "novel": 1, "state_partitions": [{"partition": 0}]}
    executor = {"id": 0}
    path.write_text(
        json.dumps({"application_id": "a", "executors": [executor], "queries": {"q": query}})
    )
    status = JobStatus.read(path)
    assert status is not None
    assert status.executors[0].id == "0"
    assert status.queries["q"].state_partitions[0].lag == 0


def test_lag_is_how_far_the_store_is_behind_and_never_negative() -> None:
    assert PartitionStatus(0, position=90, changelog_end=100).lag == 10
    assert PartitionStatus(0, position=100, changelog_end=90).lag == 0
