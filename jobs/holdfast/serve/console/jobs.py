"""Every job that a server knows: what its driver says, and how it is deployed on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import Refused
from holdfast.serve.console.drivers import Driver
from holdfast.serve.console.pods import LOG_BYTES, NoPods, Pods

__all__ = ["Beside", "Deployments", "job_names", "jobs_told", "log_of"]

_FACTS = ("sink", "state", "batch_id", "records_total", "lag", "dead_letters", "dropped_late",
          "dropped_null_key", "input_records", "warnings")  # fmt: skip


class Deployments(Protocol):
    """Deployments of this machine, whose supervisors and logs are files of a home."""

    def all(self) -> Sequence[Mapping[str, Any]]:
        """Each as JSON values, with `application_id` and `starts` among its `details`."""

    def log(self, name: str, bytes_max: int) -> str:
        """The end of the log of a deployment's driver."""


class _NoDeployments:
    """A machine without deployments."""

    def all(self) -> Sequence[Mapping[str, Any]]:
        return ()

    def log(self, name: str, bytes_max: int) -> str:
        raise Refused(f"There is no deployment {name[:100]} on this machine.")


@dataclass(frozen=True)
class Beside:
    """Facts that a console shows beside the tables of its own server.

    Attributes:
        drivers: addresses of jobs' drivers.
        runs_of: other homes with compaction plans and chaos runs.
        deployments: the jobs that are deployed on this machine.
        pods: those of the server's own job on Kubernetes.
    """

    drivers: Sequence[str] = ()
    runs_of: Sequence[Path] = ()
    deployments: Deployments = field(default_factory=_NoDeployments)
    pods: Pods = field(default_factory=NoPods)


def jobs_told(
    drivers: Iterable[Driver], deployed: Iterable[Mapping[str, Any]], main: str, release: str = ""
) -> list[dict[str, Any]]:
    """All jobs, the served ones first; a deployment counts even if its driver has said nothing.

    Args:
        release: the Helm release of the server, which is a deployment of its job.
    """
    found = {driver.application_id: _job(driver) for driver in drivers}
    if release:
        found.setdefault(release, _unheard(release))["on_kubernetes"] = True
    for one in deployed:
        details = one.get("details", {})
        name = str(details.get("application_id") or one["name"])
        job = found.setdefault(name, _unheard(name))
        job["deployment"] = {
            "name": one["name"],
            "state": one["state"],
            "revision": one["revision"],
            "reason": one["reason"],
            "starts": details.get("starts"),
        }
    return sorted(
        found.values(), key=lambda job: (job["application_id"] != main, job["application_id"])
    )


def _unheard(name: str) -> dict[str, Any]:
    return {
        "application_id": name, "state": "", "answers": False, "ready": False, "reason": "",
        "lag": None, "updated_ms": 0, "executors": [], "queries": [], "deployment": None,
        "on_kubernetes": False,
    }  # fmt: skip


def _job(driver: Driver) -> dict[str, Any]:
    status = driver.status
    return _unheard(driver.application_id) | {
        "state": status.get("state", ""),
        "answers": driver.answers,
        "ready": bool(status.get("ready")) and driver.answers,
        "reason": status.get("reason", ""),
        "lag": status.get("lag") if driver.answers else None,
        "updated_ms": status.get("updated_ms", 0),
        "executors": [str(e.get("id", "")) for e in status.get("executors", [])],
        "queries": [
            {"id": name} | {fact: told.get(fact) for fact in _FACTS}
            for name, told in driver.queries.items()
        ],
    }


def job_names(drivers: Iterable[Driver]) -> dict[str, str]:
    """The application id of each query whose driver is known."""
    return {query: driver.application_id for driver in drivers for query in driver.queries}


def log_of(deployments: Deployments, name: str) -> dict[str, Any]:
    """The end of a driver's log, whole lines.

    Raises:
        Refused: there is no such deployment, or its log cannot be read.
    """
    if name not in {one["name"] for one in deployments.all()}:
        raise Refused(
            f"There is no deployment {name[:100]} on this machine.",
            action="see the list of jobs",
        )
    text = deployments.log(name, LOG_BYTES)
    return {"deployment": name, "lines": text.splitlines()}
