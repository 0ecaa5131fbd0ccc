"""The DAGs of declared jobs: chaos and compaction on a schedule of each one's own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from holdfast_airflow import chaos, compaction, environment
from holdfast_airflow.chaos_params import chaos_params
from holdfast_airflow.compaction_params import compaction_params
from holdfast_airflow.fleet.jobs_file import Job, read_fleet
from holdfast_airflow.params import with_defaults

__all__ = ["scheduled_dags"]

_COMPACTION = "plan_changelog_compaction"
_ALSO = ("target", "namespace", "image", "home", "bootstrap_servers", "values")


def scheduled_dags() -> list[DAG]:
    """A DAG for each schedule of each job that makes sense; `deploy_fleet` names the others."""
    path = environment.fleet()
    jobs = read_fleet(path).jobs if path else []
    return [
        *(_chaos(job) for job in jobs if job.chaos),
        *(_compaction(job) for job in jobs if job.compaction),
    ]


def _chaos(job: Job) -> DAG:
    params = chaos_params(job.name, job.chaos_confirm or None, rounds=5, duration="15m")
    given = {key: value for key, value in _where(job).items() if key in params}
    with DAG(
        f"chaos_of_{job.name}",
        description=f"Chaos runs of {job.name}; fails if the verdict is not valid.",
        doc_md=f"Chaos runs of {job.name}, as declared.\n{chaos.CHAOS_DOC}",
        schedule=job.chaos,
        dagrun_timeout=timedelta(hours=3),
        params=with_defaults(params, given, job.name),
        **_common(job, "chaos", chaos.DEFAULTS),
    ) as dag:
        chaos.chaos_tasks()
    return dag


def _compaction(job: Job) -> DAG:
    """Triggers the DAG of which only one run at a time uses the brokers' cleaner."""
    params = compaction_params()
    given = {key: value for key, value in _where(job).items() if key in params}
    with_defaults(params, given, job.name)  # refuses what the DAG would refuse
    with DAG(
        f"compaction_of_{job.name}",
        description=f"Triggers the compaction of the changelogs of {job.name}.",
        doc_md=f"Triggers `{_COMPACTION}` for {job.name}; its runs wait for each other.",
        schedule=job.compaction,
        dagrun_timeout=timedelta(hours=1),
        **_common(job, "compaction", compaction.DEFAULTS),
    ) as dag:
        TriggerDagRunOperator(
            task_id="trigger",
            trigger_dag_id=_COMPACTION,
            conf={**given, "jobs": [job.name]},
        )
    return dag


def _where(job: Job) -> dict[str, Any]:
    return {key: job.params[key] for key in _ALSO if key in job.params}


def _common(job: Job, kind: str, defaults: dict[str, Any]) -> dict[str, Any]:
    return {
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["holdfast", "fleet", kind],
        "render_template_as_native_obj": False,
        "default_args": {**defaults, "owner": job.owner or defaults["owner"]},
    }
