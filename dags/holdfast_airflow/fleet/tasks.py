"""The tasks of `deploy_fleet`: read the files, look at what is deployed, decide, deploy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator, TriggerRule, Variable
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from holdfast_airflow import environment, steps
from holdfast_airflow.fleet.decide import Decisions, Need, Tried, decide, place_of
from holdfast_airflow.fleet.jobs_file import Job, read_fleet
from holdfast_airflow.operator import REASON, HoldfastOperator
from holdfast_airflow.params import deploy_params
from holdfast_airflow.request import Request

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["fleet_tasks"]

_DEPLOYING = "deploy_state_table"
_JOBS = "jobs"


class ReadFleet(BaseOperator):
    """Reads and checks the files; the XCom is the places to look at, `jobs` the declared jobs."""

    ui_color = "#e8f4ea"

    def execute(self, context: Context) -> list[dict[str, Any]]:
        path = environment.fleet()
        if path is None:
            raise _failure(context, "HOLDFAST_FLEET names no file or folder of jobs.")
        found = read_fleet(path)
        if found.problems:
            lines = "\n".join(found.problems)
            raise _failure(
                context, f"{len(found.problems)} problems; nothing was touched:\n{lines}"
            )
        others = [
            {"target": "kubernetes", "namespace": name, "home": None}
            for name in environment.fleet_namespaces()
        ]
        places = [*(dict(job.place) for job in found.jobs), *others]
        context["ti"].xcom_push(key=_JOBS, value=[asdict(job) for job in found.jobs])
        return list({place_of(place): place for place in places}.values())


class LookAtPlace(HoldfastOperator):
    """Lists what is deployed at one place."""

    def __init__(self, *, place: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(step=steps.LOOK, **kwargs)
        self.place = place

    def asked(self, context: Context) -> Request:
        defaults = {key: param.value for key, param in deploy_params().items() if key != "name"}
        given = {key: defaults[key] for key in ("image", "values")}
        return Request("fleet", str(self.place["target"]), "", {**given, **self.place})

    def execute(self, context: Context) -> dict[str, Any]:
        found = super().execute(context)
        return {
            "place": place_of(self.place),
            "present": {one["name"]: one["revision"] for one in found},
        }


class DecideFleet(BaseOperator):
    """Decides what to deploy; the XCom is the runs to trigger, and the log says why.

    What the fleet has last deployed is kept in Airflow's Variables, one for each job.

    Args:
        read: task that has read the files.
        looks: what is deployed, by place: the XComs of the mapped task.
    """

    ui_color = "#e8f4ea"
    template_fields = ("looks",)

    def __init__(self, *, read: str, looks: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.read, self.looks = read, looks

    def execute(self, context: Context) -> list[dict[str, Any]]:
        task = context["ti"]
        jobs = [Job(**one) for one in task.xcom_pull(task_ids=self.read, key=_JOBS)]
        present = {one["place"]: one["present"] for one in self.looks or []}
        found = decide(jobs, present, lambda job: _tried(job, task))
        self._tell(found)
        failed = [f"{one.job.name}: {one.why}" for one in found.having(Need.FAILED)]
        task.xcom_push(key="failed", value=failed)
        task.xcom_push(key="undeclared", value=list(found.undeclared))
        return [_begun(one.job, context) for one in found.having(Need.MISSING, Need.DIFFERS)]

    def _tell(self, found: Decisions) -> None:
        for one in found.jobs:
            owner = f" ({one.job.owner})" if one.job.owner else ""
            self.log.info("%s%s: %s, %s", one.job.name, owner, one.need, one.why)
        for name in found.undeclared:
            self.log.warning("%s: nobody has declared it; it is left alone", name)


class TellFailed(BaseOperator):
    """Fails while the last deployment of a declared job has failed."""

    ui_color = "#e8f4ea"

    def __init__(self, *, decided: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decided = decided

    def execute(self, context: Context) -> None:
        if failed := context["ti"].xcom_pull(task_ids=self.decided, key="failed"):
            raise _failure(context, "\n".join(failed))
        if failed is None:
            raise AirflowSkipException("Nothing was decided.")


def fleet_tasks() -> None:
    """Create the tasks of a run in the current DAG."""
    read = ReadFleet(task_id="read_jobs", retries=0)
    look = LookAtPlace.partial(task_id="look").expand(place=read.output)
    decided = DecideFleet(task_id="decide", read=read.task_id, looks=look.output)
    # Runs of their own: the lock of each job, approvals and hours of catching up are theirs.
    deploy = TriggerDagRunOperator.partial(
        task_id="deploy", trigger_dag_id=_DEPLOYING, skip_when_already_exists=True
    ).expand_kwargs(decided.output)
    failed = TellFailed(
        task_id="failed_before", decided=decided.task_id, trigger_rule=TriggerRule.ALL_DONE
    )
    decided >> deploy
    decided >> failed


def _variable(job: Job) -> str:
    return f"holdfast_fleet/{place_of(job.place)}/{job.name}"


def _begun(job: Job, context: Context) -> dict[str, Any]:
    """Keeps which run deploys the job, before it begins: a run that is lost is then not known."""
    run = f"fleet__{job.name}__{job.digest}__{context['run_id']}"
    Variable.set(_variable(job), {"digest": job.digest, "run": run}, serialize_json=True)
    return {"trigger_run_id": run, "conf": {**job.params, "name": job.name}}


def _tried(job: Job, task: Any) -> Tried | None:
    kept = Variable.get(_variable(job), default=None, deserialize_json=True)
    if kept is None:
        return None
    run = kept["run"]
    if not task.get_dr_count(dag_id=_DEPLOYING, run_ids=[run]):
        return Tried(kept["digest"], run, "")
    # An enum of Airflow's API, whose text is not its value.
    state = task.get_dagrun_state(dag_id=_DEPLOYING, run_id=run)
    state = str(getattr(state, "value", state))
    deployed = task.xcom_pull(dag_id=_DEPLOYING, run_id=run, task_ids="deploy") or {}
    return Tried(kept["digest"], run, state, int(deployed.get("revision", 0)))


def _failure(context: Context, why: str) -> AirflowFailException:
    context["ti"].xcom_push(key=REASON, value=why)
    return AirflowFailException(why)
