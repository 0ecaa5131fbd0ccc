"""The tasks of a chaos run, shared by two DAGs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import TriggerRule

from holdfast_airflow import steps
from holdfast_airflow.assets import PublishChaos
from holdfast_airflow.locks.tasks import lock_job, unlock_job
from holdfast_airflow.operator import RunFolderOperator
from holdfast_airflow.request import CHAOS_FOLDER

__all__ = ["CHAOS_DOC", "DEFAULTS", "ChaosOperator", "chaos_tasks"]

CHAOS_DOC = """
| task | does | when it fails |
|---|---|---|
| `precheck` | may the job be broken here as asked? prints seed, schedule | nothing was touched |
| `lock_job` | waits while another run changes the same job | nothing was broken; see its log |
| `baseline` | some seconds of load, undisturbed | nothing was broken |
| `workload` | numbered records into the input topics, reads of query servers | not valid |
| `nemesis` | the faults, waiting for the recovery from each | the verdict is not valid |
| `heal` | takes back what is left of any fault, also if the run was stopped | look at the job |
| `quiesce` | waits until the input is read and no transaction is open | the verdict says so |
| `verify` | recomputes every table from the input; judges tables and run | **not valid** |
| `report` | HTML, PNG and JUnit XML beside the history; verdict and path are its XCom | |
| `publish` | an event of each table's asset, with the verdict | nobody is told |
| `unlock_job` | lets the next run of the same job begin | the next run takes over |

The run succeeds only with the verdict valid. The reason of a failure is the last line of the
task's log, and its XCom `reason`. Only what is labelled as the job's pods, or as a target of chaos
in the platform, is touched.
"""

DEFAULTS = {
    "owner": "holdfast",
    "retries": 2,
    "retry_delay": timedelta(seconds=10),
    "execution_timeout": timedelta(minutes=20),
}
_LONG = timedelta(hours=8)
_CLAIM = "holdfast-chaos"


class ChaosOperator(RunFolderOperator):
    """A step of a chaos run."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(claim=_CLAIM, folder=CHAOS_FOLDER, **kwargs)


def chaos_tasks() -> None:
    """Create the tasks of a run in the current DAG."""
    # A second try would find the first one's folder.
    precheck = ChaosOperator(task_id="precheck", step=steps.PRECHECK, retries=0)
    # It knows the job, where the param is the name of a table.
    lock = lock_job(named_by=precheck.task_id)
    baseline = ChaosOperator(task_id="baseline", step=steps.BASELINE)
    # The scheduler may be a victim; then both continue in their pods and are found again.
    workload = ChaosOperator(task_id="workload", step=steps.WORKLOAD, execution_timeout=_LONG)
    nemesis = ChaosOperator(task_id="nemesis", step=steps.NEMESIS, execution_timeout=_LONG)
    heal = ChaosOperator(task_id="heal", step=steps.HEAL)
    quiesce = ChaosOperator(task_id="quiesce", step=steps.QUIESCE)
    verify, report = (
        ChaosOperator(
            task_id=step.name,
            step=step,
            trigger_rule=TriggerRule.ALL_DONE,
        )
        for step in (steps.VERIFY, steps.REPORT)
    )
    # A leaf of its own: without it, a run with a bad verdict would end with its report, in success.
    proved = EmptyOperator(task_id="proved")

    # With only a teardown after them, workload and nemesis are leaves, too: a stopped run, whose
    # later tasks are all skipped, has failed.
    precheck >> lock >> baseline >> [workload, nemesis] >> heal >> quiesce >> verify
    publish = PublishChaos(task_id="publish", told_by=report.task_id)
    verify >> [report, proved]
    report >> publish
    [publish, proved] >> unlock_job(lock)
    heal.as_teardown(setups=precheck)
