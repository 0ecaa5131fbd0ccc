"""Settings of Holdfast in Airflow's environment variables; read anew each time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

__all__ = [
    "bootstrap_servers",
    "chaos_confirm",
    "chaos_defaults",
    "chaos_job",
    "child_environment",
    "cluster",
    "command",
    "compaction_defaults",
    "compaction_schedule",
    "fleet",
    "fleet_namespaces",
    "fleet_schedule",
    "home",
    "image",
    "namespace",
    "schema_registry_url",
    "sql_folder",
    "status_pattern",
    "status_url",
    "strimzi_namespace",
]

_BOOTSTRAP_SERVERS = "HOLDFAST_BOOTSTRAP_SERVERS"
_CHAOS_CONFIRM = "HOLDFAST_CHAOS_CONFIRM"
_CHAOS_JOB = "HOLDFAST_CHAOS_JOB"
_CHAOS_PARAMS = "HOLDFAST_CHAOS_PARAMS"
_CLUSTER = "HOLDFAST_CLUSTER"
_COMMAND = "HOLDFAST_COMMAND"
_COMPACTION_PARAMS = "HOLDFAST_COMPACTION_PARAMS"
_COMPACTION_SCHEDULE = "HOLDFAST_COMPACTION_SCHEDULE"
_FLEET = "HOLDFAST_FLEET"
_FLEET_NAMESPACES = "HOLDFAST_FLEET_NAMESPACES"
_FLEET_SCHEDULE = "HOLDFAST_FLEET_SCHEDULE"
_IMAGE = "HOLDFAST_IMAGE"
_NAMESPACE = "HOLDFAST_NAMESPACE"
_SCHEMA_REGISTRY_URL = "HOLDFAST_SCHEMA_REGISTRY_URL"
_SQL_FOLDER = "HOLDFAST_SQL_FOLDER"
_STATUS_URL = "HOLDFAST_STATUS_URL"
_STRIMZI_NAMESPACE = "HOLDFAST_STRIMZI_NAMESPACE"
# The command line takes HOLDFAST_* variables for properties and refuses unknown ones.
_OURS = {
    *(_CHAOS_CONFIRM, _CHAOS_JOB, _CHAOS_PARAMS, _CLUSTER, _COMMAND, _COMPACTION_PARAMS),
    *(_FLEET, _FLEET_NAMESPACES, _FLEET_SCHEDULE),
    *(_COMPACTION_SCHEDULE, _IMAGE, _NAMESPACE, _SQL_FOLDER, _STATUS_URL, _STRIMZI_NAMESPACE),
}
_WEEKLY = "0 4 * * 0"
_QUARTERS = "*/15 * * * *"


def image() -> str:
    """Image of task pods and jobs."""
    return os.environ.get(_IMAGE, "holdfast:0.1.0")


def namespace() -> str:
    """Namespace of task pods and jobs."""
    return os.environ.get(_NAMESPACE, "holdfast")


def bootstrap_servers() -> str:
    """Brokers that pods start from."""
    return os.environ.get(_BOOTSTRAP_SERVERS, "kafka.holdfast-platform.svc:9092")


def schema_registry_url() -> str | None:
    """The address of the schema registry beside those brokers; None without one."""
    return os.environ.get(_SCHEMA_REGISTRY_URL) or None


def status_url(name: str, in_namespace: str) -> str:
    """The URL of the status of a job's driver on Kubernetes."""
    return status_pattern(in_namespace).replace("{name}", name)


def status_pattern(in_namespace: str) -> str:
    """The URL of any job's status, with `{name}` in the place of its name."""
    pattern = os.environ.get(_STATUS_URL, "http://{name}-driver.{namespace}.svc:8090/status")
    return pattern.replace("{namespace}", in_namespace)


def command() -> str:
    """The executable that runs Holdfast's command line on this machine."""
    return os.environ.get(_COMMAND, "holdfast")


def cluster() -> str | None:
    """The name of the Kafka cluster in the URIs of tables' assets; None: its first host."""
    return os.environ.get(_CLUSTER) or None


def fleet() -> Path | None:
    """The file or folder that declares a fleet's jobs; None without a fleet."""
    found = os.environ.get(_FLEET)
    return Path(found) if found else None


def fleet_namespaces() -> list[str]:
    """The namespaces that are looked at even if no job is declared there."""
    return [name for name in os.environ.get(_FLEET_NAMESPACES, "").split(",") if name]


def fleet_schedule() -> str | None:
    """When the fleet is looked at: a cron expression, every quarter of an hour by default; None
    for never, and without a fleet.
    """
    return os.environ.get(_FLEET_SCHEDULE, _QUARTERS) or None if fleet() else None


def home() -> str:
    """The folder of all local files, for runs that name none."""
    return os.environ.get("HOLDFAST_HOME") or ".holdfast"


def chaos_job() -> str | None:
    """The job that the nightly run breaks, or None."""
    return os.environ.get(_CHAOS_JOB) or None


def chaos_confirm() -> str | None:
    """The job's name again, as a confirmation outside of a development namespace."""
    return os.environ.get(_CHAOS_CONFIRM) or None


def chaos_defaults() -> dict[str, Any]:
    """Defaults of the other params of `chaos_daily`, for its scheduled runs."""
    found: dict[str, Any] = json.loads(os.environ.get(_CHAOS_PARAMS) or "{}")
    return found


def compaction_schedule() -> str | None:
    """The schedule of surveys: a cron expression, weekly by default; None for never."""
    return os.environ.get(_COMPACTION_SCHEDULE, _WEEKLY) or None


def compaction_defaults() -> dict[str, Any]:
    """Defaults of the params of `plan_changelog_compaction`, for its scheduled runs."""
    found: dict[str, Any] = json.loads(os.environ.get(_COMPACTION_PARAMS) or "{}")
    return found


def strimzi_namespace() -> str | None:
    """The namespace of Strimzi's KafkaTopic resources; None without Strimzi."""
    return os.environ.get(_STRIMZI_NAMESPACE) or None


def sql_folder() -> Path:
    """The only folder that `sql_file` may be in: a worker also has confidential files."""
    return Path(os.environ.get(_SQL_FOLDER, Path(__file__).parents[1])).resolve()


def child_environment() -> dict[str, str]:
    """Environment for `holdfast` as a process on this machine."""
    return {name: value for name, value in os.environ.items() if name not in _OURS}
