"""Undeploys a job; its results and changelogs stay in Kafka."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from holdfast_airflow.locks.tasks import RUNS_AT_ONCE, lock_job, unlock_job
from holdfast_airflow.operator import HoldfastOperator
from holdfast_airflow.params import undeploy_params
from holdfast_airflow.steps import UNDEPLOY

DOC = """
### Undeploy a state table

Stops the job and removes its release. Topics stay, and so do the volumes of its stores unless
**Delete the volumes** is set: a later deployment of the same name goes on where this one ended,
at once with its volumes, after a restore from the changelogs without them.

It waits while another run changes the same job (`lock_job`).
"""

with DAG(
    "undeploy_state_table",
    description="Stop a job; its topics stay.",
    doc_md=DOC,
    schedule=None,
    catchup=False,
    max_active_runs=RUNS_AT_ONCE,
    dagrun_timeout=timedelta(hours=2),
    tags=["holdfast", "undeploy"],
    params=undeploy_params(),
    default_args={
        "owner": "holdfast",
        "retries": 2,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "execution_timeout": timedelta(minutes=30),
    },
):
    lock = lock_job()
    lock >> HoldfastOperator(task_id="undeploy", step=UNDEPLOY) >> unlock_job(lock)
