"""run.json: written once, read back as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.run_file import RunFile, run_folder
from holdfast.chaos.load.records import LoadShape
from holdfast.errors import Refused

ASKED = RunFile(
    run="r",
    name="orders",
    target="local",
    namespace="",
    sql="CREATE …",
    config="",
    overrides=("application.id=orders", "bootstrap.servers=localhost:9092"),
    seed=5,
    schedule=(Injection(0, "driver", Fault.KILL, Moment.BEGUN, 1, 0.5, 1.0, 0.0),),
    rate=100,
    load=LoadShape(keys=3, distribution="zipf"),
)


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    ASKED.write(tmp_path / "r")
    assert RunFile.read(tmp_path / "r") == ASKED
    assert [file.name for file in (tmp_path / "r").iterdir()] == ["run.json"]


def test_it_says_in_words_how_much_is_to_come() -> None:
    assert ASKED.limits() == "1 fault"
    assert replace(ASKED, duration_s=600.0).limits() == "at most 1 fault, none after 0:10:00"


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    ASKED.write(tmp_path)
    with pytest.raises(Refused, match="There is a run in"):
        ASKED.write(tmp_path)
    assert RunFile.read(tmp_path) == ASKED


@pytest.mark.parametrize("text", [None, "{", '{"run": "r"}'])
def test_what_is_no_run_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(Refused, match="There is no run in"):
        RunFile.read(tmp_path)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", ".hidden"])
def test_a_name_never_leaves_the_folder_of_runs(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="is no name for a run"):
        run_folder(tmp_path, name)
    assert run_folder(tmp_path, "20260101-1") == tmp_path / "chaos" / "20260101-1"
