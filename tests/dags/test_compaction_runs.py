"""Whole runs that plan a compaction, with a script in the place of `holdfast`, and a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun

from holdfast_airflow.compaction import in_short
from tests.dags.approver import Approver

DAG = "plan_changelog_compaction"
CONF = {"target": "local", "jobs": ["movies"], "home": "/h", "target_restore_s": 30}
UNASKED = {"auto_approve": True, "auto_approve_temporary_only": False}
TOPIC = {
    "topic": "movies-SOLD-changelog",
    "changes": [{"name": "segment.bytes", "before": None, "after": "16777216"}],
    "temporary": [{"name": "min.cleanable.dirty.ratio", "before": None, "after": "0.01"}],
    "before": {"bytes": 5_000_000_000, "restore_s": 90.0},
    "after": {"bytes": 1_000_000_000, "restore_s": 18.0},
    "cleaner_read_bytes": 5_000_000_000,
    "cleaner_write_bytes": 1_000_000_000,
    "risks": [],
    "why": "Most of its records are superseded.",
}
VERIFIED = {
    "verdict": "off",
    "report": "/h/compaction/r/report.html",
    "warnings": ["Predictions are poor."],
    "topics": [
        {
            "topic": TOPIC["topic"],
            "table": "sold",
            "outcome": "cleaned",
            "partitions": [
                {
                    "bytes_before": 5_000,
                    "bytes_real": 2_000,
                    "records_before": 100,
                    "records_real": 20,
                }
            ]
            * 2,
            "warnings": ["Off by 40 %."],
        }
    ],
}
PLAN = {"hash": "0123456789abcdef", "topics": [TOPIC], "markdown": "| topic | before |\n|---|---|"}
Ended = tuple[dict[str, str], dict[str, Any]]
Run = Callable[..., Ended]
StandIn = Callable[[str], Path]


def _script(plan: dict[str, Any], more: str = "") -> str:
    return f"""
{more}
case "$2" in
  plan) [[ "$*" == *--json* ]] && echo '{json.dumps(plan)}' || echo 'a table' ;;
  apply) echo '{{"plan_hash": "{plan["hash"]}", "topics": []}}' ;;
  verify) echo '{json.dumps(VERIFIED)}' ;;
  *) echo '{{"ok": true}}' ;;
esac
"""


@pytest.fixture
def run(dags_folder: Path, database: None) -> Run:
    """Runs the DAG: state by task (the run as `run`), and XComs and reasons."""
    bag = DagBag(dags_folder / f"{DAG}.py", bundle_name="dags-folder")

    def start(**conf: Any) -> Ended:
        found: DagRun = bag.dags[DAG].test(run_conf={**CONF, **conf})
        tasks = found.get_task_instances()
        states = {task.task_id: str(task.state) for task in tasks}
        told = {}
        for task in tasks:
            for key in ("return_value", "reason"):
                value = task.xcom_pull(task_ids=task.task_id, key=key, run_id=found.run_id)
                told[task.task_id if key == "return_value" else f"{task.task_id}: reason"] = value
        return {**states, "run": str(found.state)}, told

    return start


def test_what_was_won_is_said_in_short() -> None:
    said = list(in_short(VERIFIED))
    assert said == [
        "off; report: /h/compaction/r/report.html",
        f"{TOPIC['topic']}: cleaned, 10,000 → 4,000 bytes, 200 → 40 records, Off by 40 %.",
        "Predictions are poor.",
    ]
    gone = {"topic": "t", "outcome": "gone", "note": "It was deleted."}
    cleaned = {"topic": "v", "outcome": "cleaned", "bytes_before": 5_000, "bytes_after": 90}
    applied = {"plan_hash": "h", "repaired": ["u: put back."], "topics": [gone, cleaned]}
    assert list(in_short(applied)) == [
        "u: put back.", "t: gone, It was deleted.", "v: cleaned, 5,000 → 90 bytes",
    ]  # fmt: skip
    assert list(in_short(PLAN)) == [], "the plan itself is in the log"


def _commands(calls: Path) -> list[str]:
    lines = [line.split() for line in calls.read_text(encoding="utf-8").splitlines()]
    return [line[1] for line in lines if "--markdown" not in line]


def test_an_approved_plan_is_carried_out_and_judged(run: Run, stand_in: StandIn) -> None:
    calls = stand_in(_script(PLAN))
    with Approver("Approve") as person:
        states, told = run()
    assert states.pop("nothing_to_do") == "skipped"
    assert set(states.values()) == {"success"}
    assert _commands(calls) == ["repair", "survey", "plan", "apply", "repair", "verify"]
    assert told["approved"] == {"hash": PLAN["hash"], "by": "ann"}
    assert told["verify"]["report"] == "/h/compaction/r/report.html"
    assert told["publish"] == ["holdfast://local/sold"]
    lines = calls.read_text(encoding="utf-8").splitlines()
    runs = {line.split("--run=")[1].split()[0] for line in lines if "--run=" in line}
    assert len(runs) == 1, "all steps are about one run"
    (apply,) = (line for line in lines if line.startswith("compaction apply"))
    assert f"--hash={PLAN['hash']} --yes" in apply
    assert person.seen
    assert person.seen["options"] == ["Approve", "Reject"]


def test_the_person_sees_the_plan_and_why_he_is_asked(run: Run, stand_in: StandIn) -> None:
    stand_in(_script(PLAN))
    with Approver("Reject") as person:
        run(auto_approve=True, auto_approve_max_cleaner_gb=1)
    assert person.seen
    assert person.seen["subject"] == (
        "Compaction of 1 of 1 changelogs: 5 GB → 1 GB (plan 0123456789abcdef)"
    )
    body = person.seen["body"]
    assert body.startswith(PLAN["markdown"])
    assert "* The cleaner would read and write 6.0 GB; 1 GB go unasked." in body
    assert "* Settings would stay changed on movies-SOLD-changelog" in body


def test_a_rejected_plan_ends_the_run_in_success_with_nothing_done(
    run: Run, stand_in: StandIn
) -> None:
    calls = stand_in(_script(PLAN))
    with Approver("Reject"):
        states, _ = run()
    rest = {states[name] for name in ("approved", "apply", "verify", "put_back", "nothing_to_do")}
    assert (states["run"], states["approval"], rest) == ("success", "success", {"skipped"})
    assert _commands(calls) == ["repair", "survey", "plan"]


def test_a_plan_within_the_limits_asks_nobody(run: Run, stand_in: StandIn) -> None:
    calls = stand_in(_script(PLAN))
    states, told = run(**UNASKED)
    assert (states["approval"], states["run"]) == ("skipped", "success")
    assert told["approved"] == {"hash": PLAN["hash"], "by": "the run's limits"}
    assert _commands(calls)[-3:] == ["apply", "repair", "verify"]


def test_nothing_to_do_is_a_fine_end(run: Run, stand_in: StandIn) -> None:
    idle = {**TOPIC, "changes": [], "temporary": [], "why": "It is as small as it gets."}
    calls = stand_in(_script({**PLAN, "topics": [idle]}))
    states, _ = run()
    assert (states["nothing_to_do"], states["run"]) == ("success", "success")
    assert {states[name] for name in ("approval", "apply", "put_back")} == {"skipped"}
    assert _commands(calls) == ["repair", "survey", "plan"]


def test_topics_that_have_changed_fail_the_run_and_say_what_to_do(
    run: Run, stand_in: StandIn
) -> None:
    changed = 'echo "Error: The topic t is another one. Survey and plan again." >&2; exit 4'
    calls = stand_in(_script(PLAN, f'if [ "$2" = apply ]; then {changed}; fi'))
    states, told = run(**UNASKED)
    assert (states["apply"], states["verify"], states["run"]) == (
        "failed", "skipped", "failed",
    )  # fmt: skip
    assert _commands(calls)[-2:] == ["apply", "repair"], "no second try, and nothing stays"
    assert told["apply: reason"] == (
        "apply ended with status 4. Error: The topic t is another one. Survey and plan again."
    )


def test_a_survey_that_is_refused_ends_the_run_before_anything(run: Run, stand_in: StandIn) -> None:
    refused = 'if [ "$2" = survey ]; then echo "Error: Not allowed." >&2; exit 2; fi'
    calls = stand_in(_script(PLAN, refused))
    states, told = run()
    assert (states["survey"], states["run"]) == ("failed", "failed")
    assert _commands(calls) == ["repair", "survey"]
    assert told["survey: reason"] == "survey ended with status 2. Error: Not allowed."
