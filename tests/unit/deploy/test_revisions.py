"""What a local deployment remembers of its revisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.deploy.local.revisions import JobFiles, Outcome, Revisions
from holdfast.errors import Refused

FILES = JobFiles("app", "SELECT 1;", "executors: 1", ("a=1", "b=2"), "/tmp", "/tmp/state")


def deployed(revisions: Revisions) -> int:
    number = revisions.add(FILES)
    revisions.deployed(number)
    return number


def test_a_revision_is_read_as_it_was_added(tmp_path: Path) -> None:
    revisions = Revisions(tmp_path / "new")
    assert revisions.current == 0
    number = revisions.add(FILES)
    assert Revisions(tmp_path / "new").files(number) == FILES
    assert revisions.pending() == number
    assert revisions.current == 0, "it is not current before it was deployed"


def test_the_one_before_is_the_newest_that_once_was_deployed(tmp_path: Path) -> None:
    revisions = Revisions(tmp_path)
    deployed(revisions)
    assert revisions.previous() == 0
    second = deployed(revisions)
    failed = revisions.add(FILES)
    revisions.failed(failed)
    assert revisions.current == second
    assert revisions.previous() == 1
    fourth = deployed(revisions)
    assert fourth == 4
    assert revisions.previous() == second
    assert revisions.outcome(failed) is Outcome.FAILED


def test_a_pending_revision_of_a_killed_command_has_failed(tmp_path: Path) -> None:
    revisions = Revisions(tmp_path)
    lost = revisions.add(FILES)
    deployed(revisions)
    assert revisions.outcome(lost) is Outcome.FAILED
    assert revisions.pending() == 0


def test_nothing_is_left_of_what_is_forgotten(tmp_path: Path) -> None:
    revisions = Revisions(tmp_path)
    number = deployed(revisions)
    (tmp_path / "driver.log").write_text("kept")
    revisions.forget()
    assert [file.name for file in tmp_path.iterdir()] == ["driver.log"]
    with pytest.raises(Refused, match="cannot be read"):
        revisions.files(number)
