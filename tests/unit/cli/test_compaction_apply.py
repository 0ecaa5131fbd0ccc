"""`holdfast compaction apply` and `verify` up to the point where a broker would be asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.compaction.plan.plan import Plan
from holdfast.compaction.plan.planner import make_plan
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.runs import PLAN, SURVEY, run_folder, write_file
from tests.unit.compaction.surveys import a_survey, a_topic

SURVEYED = a_survey(a_topic())


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    made = make_plan(SURVEYED, Policy())
    folder = run_folder(tmp_path, "r")
    write_file(folder / SURVEY, SURVEYED.to_json())
    write_file(folder / PLAN, made.to_json())
    return made


def _apply(home: Path, *words: str) -> int:
    given = ["compaction", "apply", "--home", str(home)]
    return main([*given, "--set", "bootstrap.servers=127.0.0.1:1", *words])


def test_nobody_there_to_ask_is_no_approval(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _apply(tmp_path) == 2
    told = capsys.readouterr().err
    assert f"Nobody has approved plan {plan.hash} of run run" in told
    assert "--hash" in told


def test_another_plan_than_the_approved_one_has_an_exit_status_of_its_own(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _apply(tmp_path, "--hash", "0123456789abcdef", "--json") == 4
    told = json.loads(capsys.readouterr().out)["error"]
    assert told["kind"] == "PreconditionsChanged"
    assert f"run run has plan {plan.hash}" in told["fact"]


def test_a_survey_taken_after_the_plan_asks_for_another_plan(plan: Plan, tmp_path: Path) -> None:
    later = replace(SURVEYED, taken_ms=SURVEYED.taken_ms + 1)
    write_file(run_folder(tmp_path, "r") / SURVEY, later.to_json())
    assert _apply(tmp_path, "--yes") == 4


def test_a_plan_that_was_edited_is_refused(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run_folder(tmp_path, "r") / PLAN
    file.write_bytes(file.read_bytes().replace(b'"0.0"', b'"0.9"'))
    assert _apply(tmp_path, "--hash", plan.hash) == 2
    assert "edited by hand" in capsys.readouterr().err


def test_what_was_not_applied_cannot_be_verified(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compaction", "verify", "--home", str(tmp_path)]) == 2
    assert "The plan of run run was not applied" in capsys.readouterr().err
