"""`holdfast inspect`: names, rows and state partitions, told from plain status and records."""

from __future__ import annotations

import io
import json
import os
import struct
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli.look.facts import (
    JobView,
    TableRows,
    TableView,
    _guess_key,
    find_status,
    table_views,
    the_table,
)
from holdfast.cli.look.view import as_json, render
from holdfast.errors import InvalidStatement
from holdfast.local.processes import is_running
from holdfast.sql import compile_text
from holdfast.types.births import born
from holdfast.types.snapshots import SnapshotState
from holdfast.types.status import (
    ExecutorStatus,
    JobState,
    JobStatus,
    PartitionStatus,
    QueryState,
    QueryStatus,
    StandbyStatus,
    status_path,
)
from tests.support.clock import jump

PARTITION = PartitionStatus(
    0, "1", "0", rows=2, bytes=4096, position=90, changelog_end=100,
    restore_records=70, restore_bytes=2048, restore_seconds=0.25,
)  # fmt: skip
SOLD = QueryStatus("SOLD", "sold", "app-ctas_sold-changelog", 4, 9, 1, 2, (PARTITION,))


def status(**known: object) -> JobStatus:
    facts: dict[str, object] = {
        "application_id": "app",
        "pid": os.getpid(),
        "state": JobState.RUNNING,
        "updated_ms": int(time.time() * 1000),
        "metrics_url": "http://localhost:1/metrics",
        "executors": (ExecutorStatus("1"),),
        "queries": {"ctas_sold": SOLD},
    }
    return JobStatus(**(facts | known))  # type: ignore[arg-type]


def view(rows: TableRows | None = None) -> TableView:
    return TableView("SOLD", "ctas_sold", SOLD, rows=rows)


def shown(job: JobView, *, details: bool = True) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(render(job, details=details))
    return out.getvalue()


ROWS = TableRows(
    ("TITLE", "window start"),
    ((("Aliens", 3_600_000), {"N": 2, "AVG": 59.5}), (("Die Hard", 0), {"N": 1, "AVG": None})),
    total=5,
)


def test_stored_rows_may_be_more_than_the_table_has() -> None:
    note = "stored rows include groups that HAVING leaves out of the table"
    for having, told in ((" HAVING COUNT(*) > 2", True), ("", False)):
        text = (
            "CREATE STREAM a (k VARCHAR KEY) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');"
            f"CREATE TABLE sold AS SELECT k, COUNT(*) AS n FROM a GROUP BY k{having};"
        )
        (query,) = compile_text(text).queries
        found = replace(view(ROWS), query=query)
        assert (note in shown(JobView("app", status(), True, (found,)))) is told


def test_a_table_shows_rows_windows_and_how_many_more() -> None:
    text = shown(JobView("app", status(), True, (view(ROWS),)))
    assert "Aliens" in text
    assert "1970-01-01T01:00:00Z" in text
    assert "59.5" in text
    assert "null" in text
    assert "3 more rows" in text


def test_a_state_partition_shows_owner_position_lag_and_restore() -> None:
    text = shown(JobView("app", status(), True, (view(ROWS),)))
    for part in ("4.0 KiB", "90", "100", "10", "70 records, 2.0 KiB in 0.25 s"):
        assert part in text


@pytest.mark.parametrize(
    ("standby", "text"),
    [
        (StandbyStatus("2", "1", 100, 0), "volume 1: level"),
        (StandbyStatus("2", "1", 90, 1_234), "volume 1: 1,234 behind"),
        (StandbyStatus("2", "1", 10), "volume 1: restoring"),
        (StandbyStatus("2", "1", 10, 0, "The volume is full."), "volume 1: stopped"),
    ],
)
def test_a_state_partition_shows_its_standbys(standby: StandbyStatus, text: str) -> None:
    sold = replace(SOLD, state_partitions=(replace(PARTITION, standbys=(standby,)),))
    job = JobView("app", status(), True, (TableView("SOLD", "ctas_sold", sold),))
    assert text in shown(job)
    (told,) = json.loads(as_json(job))["tables"][0]["state_partitions"][0]["standbys"]
    assert told == {
        "executor": "2", "volume": "1", "position": standby.position, "lag": standby.lag,
        "error": standby.error,
    }  # fmt: skip
    assert "standbys" not in shown(JobView("app", status(), True, (view(ROWS),)))


@pytest.mark.parametrize(
    ("snapshot", "texts"),
    [
        (SnapshotState(), ("none yet",)),
        (SnapshotState(90, -7_200_000, 12 << 20), ("2.0 h ago, 12.0 MiB, level",)),
        (SnapshotState(95, 90_000, 512), ("0.0 s ago, 512 B, level",)),
        (SnapshotState(50, -7_200_000, 2_048), ("2.0 h ago, 2.0 KiB, 40 behind",)),
        (
            SnapshotState(50, -7_200_000, 2_048, error="No s3.here [x]. It is away."),
            ("2.0 h ago, 2.0 KiB, 40 behind", "failing: No s3.here [x]. "),
        ),
        (SnapshotState(error="OSError: away"), ("failing: OSError: away ",)),
    ],
)
def test_a_state_partition_shows_its_newest_snapshot(
    snapshot: SnapshotState, texts: tuple[str, ...]
) -> None:
    if snapshot.taken_ms:  # from now
        taken_ms = int(time.time() * 1000) + snapshot.taken_ms
        snapshot = replace(snapshot, taken_ms=taken_ms)
    bare = replace(PARTITION, partition=1)
    sold = replace(SOLD, state_partitions=(replace(PARTITION, snapshot=snapshot), bare))
    job = JobView("app", status(), True, (TableView("SOLD", "ctas_sold", sold),))
    text = shown(job)
    assert all(part in text for part in ("snapshot", *texts))
    assert ("none yet" in text) == (snapshot == SnapshotState())
    assert "It is away" not in text
    told, none = json.loads(as_json(job))["tables"][0]["state_partitions"]
    assert told["snapshot"] == {
        "offset": snapshot.offset, "taken_ms": snapshot.taken_ms, "bytes": snapshot.bytes,
        "uploaded_bytes": 0, "seconds": 0.0, "error": snapshot.error,
    }  # fmt: skip
    assert none["snapshot"] is None


def test_without_snapshots_there_is_no_column_for_them() -> None:
    assert "snapshot" not in shown(JobView("app", status(), True, (view(ROWS),)))


def test_all_tables_are_a_summary() -> None:
    text = shown(JobView("app", status(), True, (view(ROWS),)), details=False)
    assert "SOLD" in text
    assert "PAUSED" not in text
    assert "Aliens" not in text
    held = TableView("SOLD", "ctas_sold", replace(SOLD, state=QueryState.PAUSED))
    assert "SOLD (PAUSED)" in shown(JobView("app", status(), True, (held,)), details=False)


def test_a_driver_that_does_not_run_is_said() -> None:
    assert "driver is not running" in shown(JobView("app", status(), False, (view(),)))
    assert "from Kafka alone" in shown(JobView("app", None, False, (view(),)))


def test_the_json_has_rows_and_partitions() -> None:
    document = json.loads(as_json(JobView("app", status(), True, (view(ROWS),))))
    table = document["tables"][0]
    first = {"TITLE": "Aliens", "window start": 3_600_000, "N": 2, "AVG": 59.5}
    assert table["rows"][0] == first
    assert table["rows_total"] == 5
    assert table["state_partitions"][0]["lag"] == 10
    assert document["running"] is True


def test_a_table_is_found_in_any_case_and_the_nearest_is_named() -> None:
    views = [view()]
    assert the_table(views, "sold").name == "SOLD"
    with pytest.raises(InvalidStatement, match="did you mean SOLD"):
        the_table(views, "solt")
    with pytest.raises(InvalidStatement, match="Known are: SOLD"):
        the_table(views, "zzz")


def test_a_status_alone_gives_the_tables() -> None:
    assert [v.name for v in table_views([], status())] == ["SOLD"]
    assert table_views([], None) == []


def test_without_an_id_the_status_written_last_is_taken(tmp_path: Path) -> None:
    for name, when in (("old", 1), ("new", 2)):
        status(application_id=name, updated_ms=when).write(status_path(tmp_path, name))
    found = find_status(tmp_path, None)
    assert found is not None
    assert found.application_id == "new"
    assert find_status(tmp_path, "other") is None


def test_a_driver_runs_while_its_process_lives_and_is_older_than_its_status() -> None:
    assert is_running(status())
    assert not is_running(status(state=JobState.STOPPED))
    assert not is_running(status(updated_ms=1000))  # the pid is somebody else's now
    assert not is_running(status(pid=2**22 + 1))


@pytest.mark.parametrize("seconds", [-3_600.0, 3_600.0])
def test_a_driver_runs_whatever_the_clock_does(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    written = status(born=born())
    jump(monkeypatch, seconds)
    assert is_running(written)
    assert not is_running(replace(written, born="1.00 another boot"))
    assert not is_running(replace(written, state=JobState.STOPPED))


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"Aliens", ("Aliens",)),
        (b"AA" + struct.pack(">q", 3_600_000), ("AA", 3_600_000)),
        (struct.pack(">i", 5), (5,)),
        ("é".encode(), ("é",)),
        (b"\xff\xfe", ("fffe",)),
        (None, ()),
    ],
)
def test_a_key_without_its_schema_is_guessed(data: bytes | None, key: tuple[object, ...]) -> None:
    assert _guess_key(data) == key


def test_a_running_job_is_found_before_one_that_has_stopped_since(tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    running = status(updated_ms=now_ms)
    stopped = status(application_id="late", state=JobState.STOPPED, updated_ms=now_ms + 60_000)
    for each in (running, stopped):
        path = tmp_path / "run" / each.application_id / "status.json"
        path.parent.mkdir(parents=True)
        each.write(path)
    found = find_status(tmp_path, None)
    assert found is not None
    assert found.application_id == "app"
