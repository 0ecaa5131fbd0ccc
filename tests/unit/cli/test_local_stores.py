"""The judge gets the stores of a job that runs here, and of no other."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from holdfast.cli.look.local_stores import local_stores
from holdfast.config.settings import Settings, StateSettings
from holdfast.state import open_table_store
from holdfast.state.table_store import StorePosition
from holdfast.state.volume import claim
from holdfast.types.status import JobState, JobStatus, PartitionStatus, QueryStatus, status_path

STATUS = JobStatus(
    "app",
    pid=os.getpid(),
    state=JobState.RUNNING,
    queries={
        "q": QueryStatus("T", "t", state_partitions=(PartitionStatus(3, rows=5, position=9),))
    },
)


def settings(home: Path, status: JobStatus | None = STATUS, backend: str = "rocksdb") -> Settings:
    if status is not None:
        now = replace(status, updated_ms=int(time.time() * 1000))
        now.write(status_path(home, "app"))
    return Settings("app", home=str(home), state=StateSettings(backend=backend))


def test_a_running_job_s_stores_are_read_from_its_volumes(tmp_path: Path) -> None:
    asked = settings(tmp_path)
    volume = claim(tmp_path / "state", 1, 0)
    store = open_table_store(asked.state, volume, "app", "q", 0, windowed=False)
    position = StorePosition("id", 7, 0, "print")
    store.load([b"a"], [b"1"], position=position, marker=None)
    read = local_stores(asked)
    assert read is not None
    (found,) = read()["q", 0]
    assert (found.rows, found.position, found.digest is None) == (1, 7, False)
    store.close()
    volume.release()


def test_in_memory_the_driver_s_word_counts(tmp_path: Path) -> None:
    read = local_stores(settings(tmp_path, backend="memory"))
    assert read is not None
    (found,) = read()["q", 3]
    assert (found.rows, found.position, found.digest) == (5, 9, None)


def test_stores_of_a_job_that_does_not_run_here_are_not_compared(tmp_path: Path) -> None:
    assert local_stores(settings(tmp_path, None)) is None
    stopped = replace(STATUS, state=JobState.STOPPED)
    assert local_stores(settings(tmp_path, stopped)) is None
    assert local_stores(settings(tmp_path, replace(STATUS, pid=2**22 + 1))) is None
