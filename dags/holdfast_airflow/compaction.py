"""The tasks of a run that plans the compaction of changelogs, and applies an approved plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import TriggerRule

from holdfast_airflow import steps
from holdfast_airflow.approval import ApprovedPlan, ApprovePlan, DecideOnPlan
from holdfast_airflow.assets import PublishCompaction
from holdfast_airflow.operator import RunFolderOperator
from holdfast_airflow.request import COMPACTION_FOLDER, Request

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["DEFAULTS", "CompactionOperator", "compaction_tasks", "in_short"]

DEFAULTS = {
    "owner": "holdfast",
    "retries": 2,
    "retry_delay": timedelta(seconds=10),
    "execution_timeout": timedelta(minutes=30),
}
_LONG = timedelta(hours=8)
_ACCOUNT = "holdfast-compaction"


class CompactionOperator(RunFolderOperator):
    """A step of a run.

    Args:
        approved: the task that gives the approved plan, for the step that applies it.
    """

    def __init__(self, *, approved: str = "", **kwargs: Any) -> None:
        super().__init__(claim=_ACCOUNT, folder=COMPACTION_FOLDER, **kwargs)
        self.approved = approved

    def asked(self, context: Context) -> Request:
        request = super().asked(context)
        if not self.approved:
            return request
        return replace(request, plan_hash=context["ti"].xcom_pull(task_ids=self.approved)["hash"])

    def execute(self, context: Context) -> Any:
        outcome = super().execute(context)
        for line in in_short(outcome):
            self.log.info("%s", line)
        return outcome

    def prepare_pod(self, request: Request) -> None:
        super().prepare_pod(request)
        # Without Strimzi there is no access to Kubernetes.
        strimzi = bool(request.params["strimzi_namespace"]) and self.step is not steps.PLAN
        self.service_account_name = _ACCOUNT
        self.automount_service_account_token = strimzi


def in_short(outcome: Mapping[str, Any]) -> Iterator[str]:
    """The results of an apply, a repair or a verify, from its JSON; empty for other steps."""
    yield from outcome.get("repaired", [])
    if "verdict" in outcome:
        yield f"{outcome['verdict']}; report: {outcome['report']}"
    if "report" in outcome or "plan_hash" in outcome:
        yield from (_topic(topic) for topic in outcome["topics"])
    yield from outcome.get("warnings", [])


def _topic(topic: Mapping[str, Any]) -> str:
    parts = topic.get("partitions", [])
    said = [f"{topic['topic']}: {topic['outcome']}"]
    if parts:
        said += [_fell(parts, "bytes"), _fell(parts, "records")]
    elif topic.get("bytes_before"):
        said.append(f"{topic['bytes_before']:,} → {topic['bytes_after']:,} bytes")
    said += [text for text in (topic.get("note"), *topic.get("warnings", [])) if text]
    return ", ".join(said)


def _fell(parts: Sequence[Mapping[str, Any]], what: str) -> str:
    before, real = (sum(part[f"{what}_{when}"] for part in parts) for when in ("before", "real"))
    return f"{before:,} → {real:,} {what}"


def compaction_tasks() -> None:
    """Create the tasks of a run in the current DAG."""
    repair = CompactionOperator(task_id="repair", step=steps.REPAIR)
    survey = CompactionOperator(task_id="survey", step=steps.SURVEY)
    plan = CompactionOperator(task_id="plan", step=steps.PLAN)
    decide = DecideOnPlan(
        task_id="decide",
        plan=plan.task_id,
        nothing="nothing_to_do",
        ask="approval",
        approved="approved",
    )
    nothing = EmptyOperator(task_id="nothing_to_do")
    approval = ApprovePlan(task_id="approval", plan=plan.task_id)
    # Both ways of approval join here.
    approved = ApprovedPlan(
        task_id="approved",
        decide=decide.task_id,
        ask=approval.task_id,
        trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
    )
    apply = CompactionOperator(
        task_id="apply", step=steps.APPLY, approved=approved.task_id, execution_timeout=_LONG
    )
    put_back = CompactionOperator(task_id="put_back", step=steps.REPAIR)
    verify = CompactionOperator(
        task_id="verify",
        step=steps.VERIFY_COMPACTION,
        begun_by=apply.task_id,
        execution_timeout=_LONG,
    )

    # With only a teardown after it, apply is a leaf: a run stopped during it, whose later tasks are
    # all skipped, has failed.
    repair >> survey >> plan >> decide >> [nothing, approval, approved]
    publish = PublishCompaction(task_id="publish", told_by=verify.task_id)
    approval >> approved >> apply >> put_back >> verify >> publish
    # Runs also if the run is stopped while settings are temporary, but not if none was changed.
    put_back.as_teardown(setups=approved)
