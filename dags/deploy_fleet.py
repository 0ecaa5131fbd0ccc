"""Deploys the jobs that files declare, and makes the DAGs of their schedules."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from holdfast_airflow import environment
from holdfast_airflow.fleet.schedules import scheduled_dags
from holdfast_airflow.fleet.tasks import fleet_tasks

DOC = """
### Deploy what is declared

Reads the jobs in `HOLDFAST_FLEET` (a file, or a folder such as a mounted ConfigMap), looks at what
is deployed, and triggers `deploy_state_table` for each job that is missing or differs.

| task | does | when it fails |
|---|---|---|
| `read_jobs` | reads and checks the files | nothing was touched; it names every problem |
| `look` | lists what is deployed, for each namespace or home folder | nothing was touched |
| `decide` | what is missing, differs, or was declared by nobody | nothing was touched |
| `deploy` | a run of `deploy_state_table` for each, not waited for | the next run does it |
| `failed_before` | names jobs whose last deployment has failed | change it, or clear that run |

A declaration whose deployment has failed is not tried again until it changes or its run is cleared.
A job that somebody has deployed by hand differs. What nobody declared is listed and left alone:
nothing is ever undeployed.
"""

with DAG(
    "deploy_fleet",
    description="Deploy declared jobs that are missing or differ; list what nobody declared.",
    doc_md=DOC,
    schedule=environment.fleet_schedule(),
    catchup=False,
    # Two runs would decide by the same look, and deploy twice.
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=1),
    tags=["holdfast", "fleet"],
    default_args={
        "owner": "holdfast",
        "retries": 2,
        "retry_delay": timedelta(seconds=10),
        "execution_timeout": timedelta(minutes=10),
    },
):
    fleet_tasks()

globals().update({dag.dag_id: dag for dag in scheduled_dags()})
