"""A savepoint of a job, which the tests of a file share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.frames.statements import events_of, saved_job
from tests.support.jobs.saved_job import Event, SavedJob


@dataclass(frozen=True)
class Saved:
    """The job, its input, and the reference of its savepoint."""

    job: SavedJob
    events: list[Event]
    reference: str = "shop/first"

    @property
    def uri(self) -> str:
        return self.job.uri


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Saved]:
    events = events_of(600, seed=1)
    job = saved_job(tmp_path_factory.mktemp("job"), events)
    job.save("first")
    yield Saved(job, events)
    job.close()


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary folders."""
    folder = tmp_path / "fetched"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
