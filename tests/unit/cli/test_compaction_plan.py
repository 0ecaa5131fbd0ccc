"""`holdfast compaction plan` on a survey's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.compaction.plan.plan import Plan
from holdfast.compaction.runs import PLAN, SURVEY, run_folder, write_file
from holdfast.errors import Refused
from tests.unit.compaction.surveys import a_survey, a_topic


@pytest.fixture
def home(tmp_path: Path) -> Path:
    survey = a_survey(a_topic(), a_topic("idle", dirty_ratio=0, active_bytes=0))
    write_file(run_folder(tmp_path, "run") / SURVEY, survey.to_json())
    return tmp_path


def _plan(home: Path, *more: str) -> int:
    return main(["compaction", "plan", "--home", str(home), *more])


def test_the_newest_survey_is_planned_from(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _plan(home) == 0
    path = run_folder(home, "run") / PLAN
    plan = Plan.read(path)
    shown = capsys.readouterr().out
    assert f"plan {plan.hash} of run run" in shown
    assert shown.endswith(f"{path}\n")
    assert [t.nothing for t in plan.topics] == [False, True]


def test_json_is_the_plan_and_may_bring_its_page(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _plan(home, "--run", "run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((run_folder(home, "run") / PLAN).read_bytes())
    assert _plan(home, "--json", "--markdown") == 0
    with_page = json.loads(capsys.readouterr().out)
    assert with_page.pop("markdown").startswith("1 of 2 are cleaned")
    assert with_page == document
    assert _plan(home, "--markdown") == 0
    assert capsys.readouterr().out.startswith("1 of 2 are cleaned")


def test_keys_win_over_the_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / "policy.yaml"
    file.write_text("min.gain: 0.9\ntarget:\n  restore.s: 30\n")
    assert _plan(home, "--policy-file", str(file), "--policy", "min.gain=0.3", "--json") == 0
    policy = json.loads(capsys.readouterr().out)["policy"]
    assert policy["min.gain"] == 0.3
    assert policy["target.restore.s"] == 30


def test_wrong_keys_are_refused_all_at_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _plan(home, "--policy", "target.restore=1", "--policy", "min.gain=2", "--json") == 2
    fact = json.loads(capsys.readouterr().out)["error"]["fact"]
    assert "did you mean target.restore.s?" in fact
    assert "min.gain: 2 is out of range" in fact
    assert not (run_folder(home, "run") / PLAN).exists()


def test_an_option_without_a_value_is_explained(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _plan(home, "--policy", "min.gain") == 2
    told = capsys.readouterr().err
    assert "--policy takes key=value, not 'min.gain'" in told
    assert "--policy target.restore.s=60" in told


def test_every_key_can_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _plan(tmp_path, "--policy", "help") == 0
    assert "max.store.absence.ms" in capsys.readouterr().out


def test_without_a_survey_there_is_nothing_to_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _plan(tmp_path) == 2
    assert "There is no run in" in capsys.readouterr().err
    assert _plan(tmp_path, "--run", "other") == 2
    assert "There is no survey" in capsys.readouterr().err


def test_a_plan_that_was_edited_is_no_plan(home: Path) -> None:
    assert _plan(home) == 0
    path = run_folder(home, "run") / PLAN
    path.write_text(path.read_text().replace('"10000"', '"10001"'))
    with pytest.raises(Refused, match="edited by hand"):
        Plan.read(path)
