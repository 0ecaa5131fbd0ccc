"""Approval of a compaction plan, by a person or by the limits of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["ApprovePlan", "ApproveRescale", "ApprovedPlan", "DecideOnPlan", "beyond_limits"]

_GB = 1e9
_HASH = "hash"


def beyond_limits(plan: Mapping[str, Any], params: Mapping[str, Any]) -> Iterator[str]:
    """The reasons why a plan needs a person's approval, one sentence each; empty if it does not.

    Args:
        plan: as JSON, see `holdfast.compaction.plan.plan`.
        params: the run's params.
    """
    if not params["auto_approve"]:
        yield "This run asks a person about every plan (`auto_approve` is off)."
        return
    topics = plan["topics"]
    work = sum(t["cleaner_read_bytes"] + t["cleaner_write_bytes"] for t in topics) / _GB
    most = params["auto_approve_max_cleaner_gb"]
    if work > most:
        yield f"The cleaner would read and write {work:,.1f} GB; {most:g} GB go unasked."
    lasting = [t["topic"] for t in topics if t["changes"]]
    if lasting and params["auto_approve_temporary_only"]:
        yield f"Settings would stay changed on {_listed(lasting)}; temporary ones go unasked."
    risks = [risk for t in topics for risk in t["risks"]]
    if risks and not params["auto_approve_risks"]:
        yield f"Risks are named ({len(risks)}); only a plan without any goes unasked."


class DecideOnPlan(BaseBranchOperator):
    """Chooses the next task for a plan.

    Args:
        plan: task with the plan as its XCom.
        nothing: task for an empty plan.
        ask: task that asks a person.
        approved: task for a plan that needs no person's approval.
    """

    ui_color = "#e8f4ea"

    def __init__(self, *, plan: str, nothing: str, ask: str, approved: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan, self.nothing, self.ask, self.approved = plan, nothing, ask, approved

    def choose_branch(self, context: Context) -> str:
        plan = context["ti"].xcom_pull(task_ids=self.plan)
        if not any(t["changes"] or t["temporary"] for t in plan["topics"]):
            self.log.info("Nothing to do for %d changelogs: %s", len(plan["topics"]), _why(plan))
            return self.nothing
        if reasons := list(beyond_limits(plan, context["params"])):
            self.log.info("A person has to approve plan %s: %s", plan[_HASH], " ".join(reasons))
            return self.ask
        self.log.info("The plan %s is within the limits of this run.", plan[_HASH])
        context["ti"].xcom_push(key=_HASH, value=plan[_HASH])
        return self.approved


class _Ask(ApprovalOperator):
    """Shows something and waits for Approve or Reject, without a worker; silence is a no.

    Args:
        plan: task with what is shown as its XCom.
        subject: of the question, until it is asked.
    """

    ui_color = "#fdf3d8"

    def __init__(self, *, plan: str, subject: str, **kwargs: Any) -> None:
        super().__init__(
            subject=subject,
            defaults=ApprovalOperator.REJECT,
            response_timeout=timedelta(days=3),
            **kwargs,
        )
        self.plan = plan

    def told(self, plan: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[str, str]:
        """The subject and the text of the question."""
        raise NotImplementedError

    def execute(self, context: Context) -> None:
        plan, params = context["ti"].xcom_pull(task_ids=self.plan), context["params"]
        self.subject, self.body = self.told(plan, params)
        self.response_timeout = timedelta(hours=params["approval_timeout_hours"])
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if event.get("timedout"):
            self.log.info("Nobody has answered in time, which is a no: nothing is changed.")
        elif self.REJECT in event.get("chosen_options", []):
            self.log.info("The plan was rejected by %s: nothing is changed.", _who(event))
        return super().execute_complete(context, event)


class ApprovePlan(_Ask):
    """Asks about the compaction plan that the task `plan` has as its XCom."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(subject="Compaction of changelogs", **kwargs)

    def told(self, plan: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[str, str]:
        reasons = "\n".join(f"* {reason}" for reason in beyond_limits(plan, params))
        return _subject(plan), f"{plan['markdown']}\n\n**Why you are asked**\n\n{reasons}\n"

    def execute(self, context: Context) -> None:
        task = context["ti"]
        # The approval is for the plan shown here, even if the file changes meanwhile.
        task.xcom_push(key=_HASH, value=task.xcom_pull(task_ids=self.plan)[_HASH])
        super().execute(context)


class ApproveRescale(_Ask):
    """Asks about the rescale that the task `plan` has as its XCom."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(subject="Rescale", **kwargs)

    def told(self, plan: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[str, str]:
        subject = (
            f"{plan['query']} of {plan['application_id']}: {plan['state_partitions']} → "
            f"{plan['wanted']} state partitions"
        )
        body = (
            "The changelog is copied while the job runs, and the query goes on with the copy. "
            "The former changelog stays until `holdfast rescale --confirm`; the way back is "
            "another rescale.\n"
        )
        return subject, body


class ApprovedPlan(BaseOperator):
    """Gives the approved plan and its approver as XCom.

    Args:
        decide: task that found the plan within the limits, or had a person asked.
        ask: task that has asked a person, or was skipped.
    """

    ui_color = "#e8f4ea"

    def __init__(self, *, decide: str, ask: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decide, self.ask = decide, ask

    def execute(self, context: Context) -> dict[str, str]:
        task = context["ti"]
        answer = task.xcom_pull(task_ids=self.ask)
        asked, by = (self.ask, _who(answer)) if answer else (self.decide, "the run's limits")
        found = {_HASH: task.xcom_pull(task_ids=asked, key=_HASH), "by": by}
        self.log.info("The plan %s is approved by: %s", found[_HASH], found["by"])
        return found


def _who(answer: Mapping[str, Any]) -> str:
    return str(answer["responded_by_user"]["name"])


def _subject(plan: Mapping[str, Any]) -> str:
    topics = plan["topics"]
    busy = [t for t in topics if t["changes"] or t["temporary"]]
    before, after = (sum(t[when]["bytes"] for t in topics) / _GB for when in ("before", "after"))
    return (
        f"Compaction of {len(busy)} of {len(topics)} changelogs: "
        f"{before:,.3g} GB → {after:,.3g} GB (plan {plan[_HASH]})"
    )


def _why(plan: Mapping[str, Any]) -> str:
    return " ".join(f"{t['topic']}: {t['why']}" for t in plan["topics"]) or "there are none."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
