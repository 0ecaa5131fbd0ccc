"""The needs of a fleet: each declared job is level, missing, different, in progress or failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from holdfast_airflow.fleet.jobs_file import Job

__all__ = ["Decision", "Decisions", "Need", "Tried", "decide", "place_of"]


class Need(StrEnum):
    """The state of one declared job; the first two are deployed."""

    MISSING = "missing"
    DIFFERS = "differs"
    LEVEL = "level"
    IN_PROGRESS = "in progress"
    FAILED = "failed"


@dataclass(frozen=True)
class Tried:
    """The fleet's last run of `deploy_state_table` for a job.

    Attributes:
        digest: the declaration that it deployed.
        state: of the run in Airflow; empty if Airflow does not know it any more.
        revision: the one that it deployed; 0 if it has not.
    """

    digest: str
    run: str
    state: str
    revision: int = 0


class Decision(NamedTuple):
    """One job, what it needs, and why."""

    job: Job
    need: Need
    why: str


@dataclass(frozen=True)
class Decisions:
    """All declared jobs, and the deployments that nobody declared."""

    jobs: Sequence[Decision]
    undeclared: Sequence[str] = field(default_factory=tuple)

    def having(self, *needs: Need) -> list[Decision]:
        return [found for found in self.jobs if found.need in needs]


def place_of(place: Mapping[str, Any]) -> str:
    """A place for people and as a key: `kubernetes/holdfast`, `local/.holdfast`."""
    local = place["target"] == "local"
    return f"{place['target']}/{(place['home'] or '.holdfast') if local else place['namespace']}"


def decide(
    jobs: Sequence[Job],
    present: Mapping[str, Mapping[str, int]],
    tried: Callable[[Job], Tried | None],
) -> Decisions:
    """Decides for every job; deletes nothing.

    Args:
        present: by place, the names of what is deployed there, with their revisions.
        tried: the fleet's last run for a job.
    """
    found = [
        Decision(job, *_need(job, present[place_of(job.place)].get(job.name, 0), tried(job)))
        for job in jobs
    ]
    declared = {(place_of(job.place), job.name) for job in jobs}
    others = [
        f"{name} ({place})"
        for place, names in present.items()
        for name in names
        if (place, name) not in declared
    ]
    return Decisions(found, tuple(sorted(others)))


def _need(job: Job, revision: int, last: Tried | None) -> tuple[Need, str]:
    if last is not None and last.state in {"queued", "running"}:
        return Need.IN_PROGRESS, f"the run {last.run} deploys it"
    if last is not None and last.digest == job.digest and last.state == "failed":
        return Need.FAILED, (
            f"the run {last.run} of deploy_state_table has failed; change the job, or clear "
            "that run to try again"
        )
    if not revision:
        return Need.MISSING, "it is not deployed"
    if why := _difference(job, revision, last):
        return Need.DIFFERS, why
    return Need.LEVEL, f"revision {revision}"


def _difference(job: Job, revision: int, last: Tried | None) -> str:
    if last is None or not last.state:
        return f"its revision {revision} was not deployed by this fleet"
    if last.digest != job.digest:
        return "its declaration has changed"
    if last.revision != revision:
        return f"it is at revision {revision}, and the fleet has deployed {last.revision}"
    return ""
