"""Breaks a running job on purpose and proves that its tables are exact, or shows where not."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from holdfast_airflow.chaos import CHAOS_DOC, DEFAULTS, chaos_tasks
from holdfast_airflow.chaos_params import chaos_params

DOC = f"""
### Break a job, prove that it is exact

Give the **name** of a job that runs, or of a table it makes; the rest has defaults. Pods (or, with
target `local`, processes) of it are deleted, killed and stopped under load; then every table is
computed again from the input topics, by none of the job's own code, and compared.
{CHAOS_DOC}"""

with DAG(
    "chaos_exactly_once",
    description="Delete pods of a running job under load; recompute and compare its tables.",
    doc_md=DOC,
    schedule=None,
    catchup=False,
    # Brokers and other parts of the platform are victims, too: neither of two runs could tell its
    # own faults from the other's, also if they break different jobs.
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=12),
    tags=["holdfast", "chaos"],
    params=chaos_params(),
    render_template_as_native_obj=False,
    default_args=DEFAULTS,
):
    chaos_tasks()
