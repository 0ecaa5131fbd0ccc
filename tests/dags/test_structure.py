"""The DAGs as Airflow sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, TriggerRule

from holdfast_airflow.approval import ApprovePlan, ApproveRescale
from holdfast_airflow.locks.tasks import RUNS_AT_ONCE
from holdfast_airflow.operator import HoldfastOperator
from holdfast_airflow.sensor import CaughtUpSensor

if TYPE_CHECKING:
    from pathlib import Path

DEPLOY, UNDEPLOY = "deploy_state_table", "undeploy_state_table"
CHAOS, DAILY = "chaos_exactly_once", "chaos_daily"
COMPACTION, RESCALE = "plan_changelog_compaction", "rescale_state_table"
FLEET = "deploy_fleet"
UNSCHEDULED = [DEPLOY, UNDEPLOY, CHAOS, DAILY, RESCALE, FLEET]
ALL = sorted([*UNSCHEDULED, COMPACTION])


@pytest.fixture(scope="module")
def bag(dags_folder: Path, database: None) -> DagBag:
    return DagBag(dags_folder, bundle_name="dags-folder")


def test_every_dag_is_imported_without_an_error(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ALL


@pytest.mark.parametrize("name", ALL)
def test_a_dag_says_what_it_is_and_whose(bag: DagBag, name: str) -> None:
    dag = bag.dags[name]
    assert dag.doc_md
    assert dag.description
    assert "holdfast" in dag.tags
    assert dag.timetable.can_be_scheduled is (name not in UNSCHEDULED)
    assert dag.max_active_runs == (1 if name in {CHAOS, DAILY, COMPACTION, FLEET} else RUNS_AT_ONCE)
    assert dag.dagrun_timeout
    assert {task.owner for task in dag.tasks} == {"holdfast"}


@pytest.mark.parametrize("name", ALL)
def test_no_task_runs_for_ever_and_no_pod_stays(bag: DagBag, name: str) -> None:
    for task in bag.dags[name].tasks:
        assert task.execution_timeout, task.task_id
        if isinstance(task, HoldfastOperator):
            assert task.on_finish_action.value == "delete_pod"
            assert task.get_logs


def test_the_steps_of_a_deployment(bag: DagBag) -> None:
    dag = bag.dags[DEPLOY]
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == {
        "lock_job": {"validate_and_explain", "unlock_job"},
        "validate_and_explain": {"create_topics"},
        "create_topics": {"deploy"},
        "deploy": {"wait_until_caught_up"},
        "wait_until_caught_up": {"smoke_check", "roll_back"},
        "smoke_check": {"deployed", "left_out", "roll_back"},
        "deployed": {"unlock_job"},
        "left_out": {"unlock_job"},
        "roll_back": {"unlock_job"},
        "unlock_job": set(),
    }
    assert dag.task_dict["roll_back"].trigger_rule == TriggerRule.ONE_FAILED
    waiting = dag.task_dict["wait_until_caught_up"]
    assert isinstance(waiting, CaughtUpSensor)
    assert waiting.reschedule


@pytest.mark.parametrize("name", [CHAOS, DAILY])
def test_the_steps_of_a_chaos_run(bag: DagBag, name: str) -> None:
    dag = bag.dags[name]
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == {
        "precheck": {"lock_job", "heal"},
        "lock_job": {"baseline", "unlock_job"},
        "baseline": {"workload", "nemesis"},
        "workload": {"heal"},
        "nemesis": {"heal"},
        "heal": {"quiesce"},
        "quiesce": {"verify"},
        "verify": {"report", "proved"},
        "report": {"publish"},
        "publish": {"unlock_job"},
        "proved": {"unlock_job"},
        "unlock_job": set(),
    }
    tasks = dag.task_dict
    assert tasks["heal"].is_teardown, "also of a run that somebody stops"
    assert tasks["precheck"].is_setup
    assert {tasks[name].trigger_rule for name in ("verify", "report")} == {TriggerRule.ALL_DONE}
    assert tasks["precheck"].retries == 0
    nemesis = tasks["nemesis"]
    assert isinstance(nemesis, HoldfastOperator)
    assert nemesis.step.once, "its exit status is final"
    assert nemesis.retries, "the scheduler that follows its pod may be a victim"


def test_a_job_to_break_every_night_makes_a_schedule(
    dags_folder: Path, database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CHAOS_JOB", "movies")
    monkeypatch.setenv("HOLDFAST_CHAOS_CONFIRM", "movies")
    monkeypatch.setenv("HOLDFAST_CHAOS_PARAMS", '{"ask": "none", "rate": 50}')
    nightly = DagBag(dags_folder / f"{DAILY}.py", bundle_name="dags-folder")
    assert nightly.import_errors == {}
    dag = nightly.dags[DAILY]
    assert dag.timetable.can_be_scheduled
    params = dag.params.dump()
    assert (params["name"], params["confirm"]) == ("movies", "movies")
    assert (params["rounds"], params["duration"]) == (5, "15m")
    assert (params["ask"], params["rate"]) == ("none", 50)


@pytest.mark.parametrize("name", [DEPLOY, UNDEPLOY, RESCALE, CHAOS, DAILY])
def test_a_lock_is_given_back_also_by_a_run_that_is_stopped(bag: DagBag, name: str) -> None:
    tasks = bag.dags[name].task_dict
    assert tasks["lock_job"].is_setup, "who clears a task later takes the lock again"
    assert tasks["unlock_job"].is_teardown


def test_the_steps_of_a_rescale(bag: DagBag) -> None:
    dag = bag.dags[RESCALE]
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == {
        "plan": {"approval"},
        "approval": {"lock_job"},
        "lock_job": {"rescale", "unlock_job"},
        "rescale": {"unlock_job"},
        "unlock_job": set(),
    }
    approval = dag.task_dict["approval"]
    assert isinstance(approval, ApproveRescale)
    assert approval.defaults == ["Reject"], "silence is a no"


def test_the_steps_of_a_compaction(bag: DagBag) -> None:
    dag = bag.dags[COMPACTION]
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == {
        "repair": {"survey"},
        "survey": {"plan"},
        "plan": {"decide"},
        "decide": {"nothing_to_do", "approval", "approved"},
        "nothing_to_do": set(),
        "approval": {"approved"},
        "approved": {"apply", "put_back"},
        "apply": {"put_back"},
        "put_back": {"verify"},
        "verify": {"publish"},
        "publish": set(),
    }
    tasks = dag.task_dict
    assert tasks["put_back"].is_teardown, "also of a run that somebody stops"
    assert tasks["approved"].is_setup, "and only of one that may have changed something"
    approval = tasks["approval"]
    assert isinstance(approval, ApprovePlan)
    assert approval.defaults == ["Reject"], "silence is a no"


def test_a_survey_comes_weekly_unless_something_else_is_said(
    dags_folder: Path, database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> DAG:
        bag = DagBag(dags_folder / f"{COMPACTION}.py", bundle_name="dags-folder")
        assert bag.import_errors == {}
        return bag.dags[COMPACTION]

    assert getattr(read().timetable, "expression", None) == "0 4 * * 0"
    monkeypatch.setenv("HOLDFAST_COMPACTION_SCHEDULE", "30 2 * * *")
    monkeypatch.setenv("HOLDFAST_COMPACTION_PARAMS", '{"target": "local", "auto_approve": true}')
    dag = read()
    assert getattr(dag.timetable, "expression", None) == "30 2 * * *"
    params = dag.params.dump()
    assert (params["target"], params["auto_approve"], params["jobs"]) == ("local", True, [])
    monkeypatch.setenv("HOLDFAST_COMPACTION_SCHEDULE", "")
    assert not read().timetable.can_be_scheduled


def test_a_default_for_a_param_that_is_none_is_an_error_of_the_dag(
    dags_folder: Path, database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_COMPACTION_PARAMS", '{"auto_aprove": true}')
    bag = DagBag(dags_folder / f"{COMPACTION}.py", bundle_name="dags-folder")
    (error,) = bag.import_errors.values()
    assert "'auto_aprove', which is no param of this DAG" in error


def test_what_must_not_run_twice_is_not_retried(bag: DagBag) -> None:
    tasks = bag.dags[DEPLOY].task_dict
    assert tasks["roll_back"].retries == 0
    deploy = tasks["deploy"]
    assert isinstance(deploy, HoldfastOperator)
    assert deploy.step.once
    assert all(tasks[name].retries for name in ("validate_and_explain", "smoke_check"))


def test_every_param_explains_itself_in_the_form(bag: DagBag) -> None:
    for dag in bag.dags.values():
        params = {name: dag.params.get_param(name) for name in dag.params}
        for name, param in params.items():
            assert param.schema["title"], name
            assert param.schema["section"], name
            choice = "enum" in param.schema
            assert choice or param.description or param.schema.get("description_md"), name
