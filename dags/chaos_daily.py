"""A small chaos run every night, of the job that Airflow's environment names."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from holdfast_airflow import environment
from holdfast_airflow.chaos import CHAOS_DOC, DEFAULTS, chaos_tasks
from holdfast_airflow.chaos_params import chaos_params
from holdfast_airflow.params import with_defaults

DOC = f"""
### A small chaos run every night

The same as `chaos_exactly_once` with few faults and little time, at three o'clock, for the job in
the environment variable `HOLDFAST_CHAOS_JOB` (value `chaos.daily.job` of the chart
`holdfast-platform`); without it there is no schedule. Its run fails when the verdict is not valid.
`HOLDFAST_CHAOS_PARAMS` (`chaos.daily.params`; JSON) says which other params such a run has.
{CHAOS_DOC}"""

JOB = environment.chaos_job()

with DAG(
    "chaos_daily",
    description="A small chaos run every night; fails if the verdict is not valid.",
    doc_md=DOC,
    schedule="0 3 * * *" if JOB else None,
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=3),
    tags=["holdfast", "chaos"],
    params=with_defaults(
        chaos_params(JOB, environment.chaos_confirm(), rounds=5, duration="15m"),
        environment.chaos_defaults(),
        "HOLDFAST_CHAOS_PARAMS",
    ),
    render_template_as_native_obj=False,
    default_args=DEFAULTS,
):
    chaos_tasks()
