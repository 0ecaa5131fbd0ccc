"""What Airflow's own environment says about where Holdfast is; read anew each time."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = [
    "bootstrap_servers",
    "chaos_confirm",
    "chaos_job",
    "child_environment",
    "command",
    "image",
    "namespace",
    "sql_folder",
    "status_url",
]

_BOOTSTRAP_SERVERS = "HOLDFAST_BOOTSTRAP_SERVERS"
_CHAOS_CONFIRM = "HOLDFAST_CHAOS_CONFIRM"
_CHAOS_JOB = "HOLDFAST_CHAOS_JOB"
_COMMAND = "HOLDFAST_COMMAND"
_IMAGE = "HOLDFAST_IMAGE"
_NAMESPACE = "HOLDFAST_NAMESPACE"
_SQL_FOLDER = "HOLDFAST_SQL_FOLDER"
_STATUS_URL = "HOLDFAST_STATUS_URL"
# The command line takes what starts with HOLDFAST_ for a property and refuses unknown ones.
_OURS = {_CHAOS_CONFIRM, _CHAOS_JOB, _COMMAND, _IMAGE, _NAMESPACE, _SQL_FOLDER, _STATUS_URL}


def image() -> str:
    """Image of task pods and jobs."""
    return os.environ.get(_IMAGE, "holdfast:0.1.0")


def namespace() -> str:
    """Namespace of task pods and jobs."""
    return os.environ.get(_NAMESPACE, "holdfast")


def bootstrap_servers() -> str:
    """Brokers that pods start from."""
    return os.environ.get(_BOOTSTRAP_SERVERS, "kafka.holdfast-platform.svc:9092")


def status_url(name: str, in_namespace: str) -> str:
    """Where the driver of a job on Kubernetes tells its status."""
    pattern = os.environ.get(_STATUS_URL, "http://{name}-driver.{namespace}.svc:8090/status")
    return pattern.format(name=name, namespace=in_namespace)


def command() -> str:
    """The executable that runs Holdfast's command line on this machine."""
    return os.environ.get(_COMMAND, "holdfast")


def chaos_job() -> str | None:
    """The job that is broken every night; None without one."""
    return os.environ.get(_CHAOS_JOB) or None


def chaos_confirm() -> str | None:
    """Its name once more, where its namespace is not one for development."""
    return os.environ.get(_CHAOS_CONFIRM) or None


def sql_folder() -> Path:
    """The only folder that `sql_file` may be in: a worker has files that are nobody's business."""
    return Path(os.environ.get(_SQL_FOLDER, Path(__file__).parents[1])).resolve()


def child_environment() -> dict[str, str]:
    """Environment for `holdfast` as a process of this machine."""
    return {name: value for name, value in os.environ.items() if name not in _OURS}
