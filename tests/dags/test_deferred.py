"""Target kubernetes where Airflow defers: no worker waits for a pod, and the end is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from holdfast_airflow import steps
from holdfast_airflow.operator import HoldfastOperator
from tests.dags.pod_api import PodApi


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[PodApi]:
    with PodApi() as api:
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", api.connection)
        yield api


@pytest.fixture
def context(params: dict[str, Any], task: Any) -> Any:
    """The context of a task, without a run around it."""
    task.dag_id, task.task_id, task.map_index, task.try_number = "deploy", "topics", -1, 1
    task.start_date = datetime.now(UTC)
    asked = {**params, "target": "kubernetes"}
    return {"params": asked, "ti": task, "run_id": "r", "dag": SimpleNamespace(parent_dag=None)}


def _operator() -> HoldfastOperator:
    """The task's operator, as each of its workers makes it anew."""
    return HoldfastOperator(task_id="topics", step=steps.TOPICS, deferrable=True, poll_interval=0.2)


def _deferred(context: Any) -> KubernetesPodTrigger:
    with pytest.raises(TaskDeferred) as deferred:
        _operator().execute(context)
    assert deferred.value.method_name == "trigger_reentry"
    # What the triggerer has of it went through Airflow's database.
    path, arguments = deferred.value.trigger.serialize()
    assert path.rpartition(".")[2] == KubernetesPodTrigger.__name__
    return KubernetesPodTrigger(**arguments)


def _event(trigger: KubernetesPodTrigger) -> dict[str, Any]:
    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("the trigger has ended without an event")

    return asyncio.run(asyncio.wait_for(first(), 60))


def test_the_worker_is_free_while_the_pod_runs_and_the_outcome_is_its_own(
    api: PodApi, context: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    trigger = _deferred(context)
    assert "topics goes on without a worker after" in capsys.readouterr().out
    (pod,) = api.pods.values()
    assert pod["status"]["phase"] == "Running"
    api.end(0, outcome='{"ok": true}')
    event = _event(trigger)
    assert event["status"] == "success"
    assert _operator().trigger_reentry(context, event) == {"ok": True}
    assert api.deleted == [pod["metadata"]["name"]]


def test_a_refusal_is_final_and_says_why(api: PodApi, context: Any) -> None:
    trigger = _deferred(context)
    api.end(2, "some log\nError: No such topic.")
    with pytest.raises(AirflowFailException, match=r"status 2\. Error: No such topic\."):
        _operator().trigger_reentry(context, _event(trigger))
    assert context["ti"].pushed["reason"].endswith("Error: No such topic.")


def test_another_failure_may_be_tried_again(api: PodApi, context: Any) -> None:
    trigger = _deferred(context)
    api.end(1, "Error: No broker answered.")
    with pytest.raises(AirflowException, match="status 1") as failure:
        _operator().trigger_reentry(context, _event(trigger))
    assert not isinstance(failure.value, AirflowFailException)


def test_a_pod_that_was_lost_may_be_tried_again(api: PodApi, context: Any) -> None:
    trigger = _deferred(context)
    api.end(1)
    event = _event(trigger)
    api.pods.clear()
    with pytest.raises(AirflowException) as failure:
        _operator().trigger_reentry(context, event)
    assert not isinstance(failure.value, AirflowFailException)
    assert "not found" in context["ti"].pushed["reason"]
