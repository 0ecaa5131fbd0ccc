"""Where a run's files are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.compaction.runs import (
    SURVEY,
    history_file,
    new_run,
    newest_run,
    run_folder,
    write_file,
)
from holdfast.errors import Refused


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", ".hidden"])
def test_a_name_never_leaves_the_folder_of_runs(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="is no name for a run"):
        run_folder(tmp_path, name)


def test_runs_and_their_history_lie_side_by_side(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, new_run())
    assert folder.parent == tmp_path / "compaction" == history_file(tmp_path).parent


def test_the_newest_run_is_the_one_surveyed_last(tmp_path: Path) -> None:
    for second, name in enumerate(["b", "c", "a"]):
        survey = run_folder(tmp_path, name) / SURVEY
        write_file(survey, b"{}")
        os.utime(survey, (second, second))
    write_file(run_folder(tmp_path, "planned-only") / "plan.json", b"{}")
    assert newest_run(tmp_path) == "a"


def test_without_a_survey_there_is_no_newest_run(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="There is no run in"):
        newest_run(tmp_path)


def test_a_file_is_replaced_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "run" / "plan.json"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]
