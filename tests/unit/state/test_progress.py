from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.state import progress as progress_module
from holdfast.state.progress import RestoreProgressFile, restoring
from holdfast.state.restore import RestoreProgress

HALF = RestoreProgress(records=400, bytes=9000, position=600, start=100, end=1100, seconds=2.0)


def test_progress_has_a_rate_and_an_end_in_sight() -> None:
    assert HALF.records_per_s == 200
    assert HALF.fraction == 0.5
    assert HALF.eta_s == 2.0


def test_progress_at_its_very_beginning_promises_nothing() -> None:
    begun = RestoreProgress(records=0, bytes=0, position=5, start=5, end=9, seconds=0.0)
    assert (begun.records_per_s, begun.fraction, begun.eta_s) == (0.0, 0.0, None)
    nothing = RestoreProgress(records=0, bytes=0, position=5, start=5, end=5, seconds=0.0)
    assert nothing.fraction == 1.0


def test_a_restore_is_seen_while_it_lasts(tmp_path: Path) -> None:
    assert restoring(tmp_path) == []
    with (
        RestoreProgressFile(tmp_path, "app", "ctas_b", 2) as b,
        RestoreProgressFile(tmp_path, "app", "ctas_a", 10) as a,
        RestoreProgressFile(tmp_path, "app", "ctas_a", 9) as early,
    ):
        for file in (a, b, early):
            file(HALF)
        found = restoring(tmp_path)
        names = [(s.application_id, s.query_id, s.state_partition) for s in found]
        assert names == [("app", "ctas_a", 9), ("app", "ctas_a", 10), ("app", "ctas_b", 2)]
        assert found[0].progress == HALF
        assert abs(time.time() - found[0].updated_s) < 10
    assert restoring(tmp_path) == []


def test_the_file_goes_also_when_the_restore_fails(tmp_path: Path) -> None:
    file = RestoreProgressFile(tmp_path, "app", "q", 0)

    def fail() -> None:
        with file:
            file(HALF)
            raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    assert list((tmp_path / "restoring").iterdir()) == []


def test_progress_is_written_at_most_twice_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    clock = SimpleNamespace(monotonic=lambda: now_s, time=time.time)
    monkeypatch.setattr(progress_module, "time", clock)
    with RestoreProgressFile(tmp_path, "app", "q", 0) as file:
        for records in range(1000):
            file(RestoreProgress(records, 0, records, 0, 1000, 1.0))
        assert restoring(tmp_path)[0].progress.records == 0
        now_s += 0.5
        file(HALF)
        assert restoring(tmp_path)[0].progress == HALF


def test_a_file_that_a_killed_process_left_is_soon_ignored(tmp_path: Path) -> None:
    RestoreProgressFile(tmp_path, "app", "q", 0)(HALF)
    assert len(restoring(tmp_path)) == 1
    (left,) = (tmp_path / "restoring").iterdir()
    fields = json.loads(left.read_text())
    left.write_text(json.dumps({**fields, "updated_s": time.time() - 60}))
    assert restoring(tmp_path) == []
    left.write_text("half a fi")
    assert restoring(tmp_path) == []


def test_nothing_is_written_without_a_folder_or_where_it_cannot_be(tmp_path: Path) -> None:
    with RestoreProgressFile(None, "app", "q", 0) as file:
        file(HALF)
    (tmp_path / "restoring").write_text("a file in the way")
    with RestoreProgressFile(tmp_path, "app", "q", 0) as file:
        file(HALF)
    assert restoring(tmp_path) == []
