"""Surveys changelogs, plans changes, asks for approval, applies them, and measures the gain."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from holdfast_airflow import environment
from holdfast_airflow.compaction import DEFAULTS, compaction_tasks
from holdfast_airflow.compaction_params import compaction_params

DOC = """
### What changelogs cost, and what a cleaning would win

Looks at every changelog (or those of the **jobs** that are named) without touching it, plans which
settings to change for the broker's log cleaner, and shows the plan for approval: **Browse →
Required Actions**, or the task `approval`. It waits there without a worker. What was approved is
done, topic by topic, and what it won is measured.

| task | does | when it fails |
|---|---|---|
| `repair` | puts back what an apply that was killed has left | look at Kafka |
| `survey` | bytes, records, live keys, settings, restore time per changelog | nothing was touched |
| `plan` | the plan, in the log: before → after per topic, reasons, risks | nothing was touched |
| `decide` | nothing to do? within the limits of `auto_approve`? or ask | nothing was touched |
| `approval` | shows the plan; Approve or Reject; silence is a no | nothing was touched |
| `approved` | which plan (its hash), and by whom | nothing was touched |
| `apply` | that plan and no other, if all is as surveyed; waits for the cleaner | its reason |
| `put_back` | no temporary setting stays, also if the run was stopped | the next `repair` does it |
| `verify` | surveys again, restores a partition; predicted against real; report | read its report |
| `publish` | an event of each table's asset, with the verdict | nobody is told |

A rejected plan ends the run in success, and so does a plan with nothing to do. If the topics are
not what they were when they were surveyed, `apply` changes nothing and fails: the next run surveys
and plans again, and that plan has to be approved anew. Verdict and report are the XCom of `verify`.

It runs weekly; `HOLDFAST_COMPACTION_SCHEDULE` says when, `HOLDFAST_COMPACTION_PARAMS` (JSON) which
params such a run has.
"""

with DAG(
    "plan_changelog_compaction",
    description="Survey changelogs, plan their compaction, ask, apply, verify.",
    doc_md=DOC,
    schedule=environment.compaction_schedule(),
    catchup=False,
    # Two runs would wait for the same cleaner, and each would find the other's settings.
    max_active_runs=1,
    # At most a week to answer, and the time that the cleaner takes.
    dagrun_timeout=timedelta(days=8),
    tags=["holdfast", "compaction"],
    params=compaction_params(),
    render_template_as_native_obj=False,
    default_args=DEFAULTS,
):
    compaction_tasks()
