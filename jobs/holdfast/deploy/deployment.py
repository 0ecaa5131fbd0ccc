"""The state of a deployment, common to both targets, and the wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import orjson

from holdfast.errors import HoldfastError, Refused, told_parts
from holdfast.types.left_out import LeftOut
from holdfast.types.status import JobState, JobStatus

__all__ = [
    "Deployment",
    "DeploymentState",
    "await_ready",
    "driver_facts",
    "fetch_status",
    "refuse_other_revision",
]

_POLL_S = 0.5


class DeploymentState(StrEnum):
    """absent -> starting -> running; restarting after a death; refused and failed are final."""

    ABSENT = "absent"  # never deployed, or undeployed
    STARTING = "starting"  # the driver starts, or restores its stores
    RUNNING = "running"
    RESTARTING = "restarting"  # the driver died and is restarted after a pause
    REFUSED = "refused"  # a person has to decide; see `reason`
    STOPPED = "stopped"  # deployed, but no process runs it


@dataclass(frozen=True)
class Deployment:
    """The present state of one deployment.

    Attributes:
        revision: the current one, 0 when absent.
        ready: stores are restored and streams started.
        caught_up: every query has committed what its source held a moment ago.
        lag: source offsets not yet committed, None when unknown.
        reason: why it is not ready.
        warnings: the tables that leave out too much of their input, with the amounts.
        rows: by table: the rows that its stores had when the driver last looked.
        left_out: by table: the counts of its input and of records that are in no result.
        details: fields that only this target knows.
    """

    name: str
    target: str
    revision: int = 0
    state: DeploymentState = DeploymentState.ABSENT
    ready: bool = False
    caught_up: bool = False
    lag: int | None = None
    metrics_url: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values; the details are on the same level."""
        values = asdict(self)
        return {**values.pop("details"), **values}

    def as_line(self) -> str:
        """One line for people."""
        lag = "" if self.lag is None else f", {self.lag:,} offsets behind"
        why = f": {self.reason}" if self.reason else ""
        told = f"{self.name} ({self.target}, revision {self.revision}) {self.state}{lag}{why}"
        servers = self.details.get("servers")
        if not servers:
            return told
        return f"{told}; query servers: {', '.join(map(_server_line, servers))}"

    def as_text(self) -> str:
        """The line, and under it its warnings and the records that are in no result."""
        told = [f"warning: {text}" for text in self.warnings]
        counts = ((name, out.beside(self.warnings)) for name, out in self.left_out.items())
        told += [f"not in {name}: {text}" for name, text in counts if text]
        if self.target == "local" and any(out.dead_letters for out in self.left_out.values()):
            told.append(f"see them, and why: holdfast dead-letters {self.name}")
        return "\n  ".join([self.as_line(), *told])


def _server_line(server: Mapping[str, Any]) -> str:
    notes = [] if server["running"] else ["not running"]
    notes += [f"restarts: {server['restarts']}"] if server["restarts"] else []
    return f"{server['url']} ({', '.join(notes)})" if notes else str(server["url"])


def fetch_status(url: str, timeout_s: float = 3.0) -> dict[str, Any] | None:
    """The driver's /status; None when it does not answer."""
    try:
        with urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 - our own http URL
            found = orjson.loads(answer.read())
    except (URLError, OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def driver_facts(told: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a `Deployment` that come from its driver."""
    if told is None:
        return {"reason": "the driver does not answer yet"}
    ready = bool(told.get("ready"))
    # A started driver may not be ready: it commits late, and reports what it waits for.
    started = ready or told.get("state") == JobState.RUNNING
    return {
        "state": DeploymentState.RUNNING if started else DeploymentState.STARTING,
        "ready": ready,
        "caught_up": bool(told.get("caught_up")),
        "lag": told.get("lag"),
        "reason": str(told.get("reason", "")),
        **_of_tables(told),
    }


def _of_tables(told: Mapping[str, Any]) -> dict[str, Any]:
    status = JobStatus.of(told)
    if status is None:
        return {}
    queries = status.queries.values()
    rows = {q.sink: sum(p.rows for p in q.state_partitions) for q in queries if q.state_partitions}
    counts = {query.sink: query.left_out for query in queries}
    return {"warnings": status.warnings(), "left_out": counts, "rows": rows}


def refuse_other_revision(name: str, present: int, expected: int | None) -> None:
    """Refuse to roll a deployment back from a revision that is not the one to be undone.

    Args:
        expected: the revision to be undone; None for whichever is present.

    Raises:
        Refused: another one is present.
    """
    if expected is None or present == expected:
        return
    raise Refused(
        f"{name} is at revision {present}, not {expected}: it is not rolled back.",
        cause="somebody deployed it, or rolled it back, meanwhile",
        action="look at it (`holdfast status`); without --only-from the present revision is undone",
    )


def await_ready(
    look: Callable[[], Deployment],
    timeout_s: float,
    tell: Callable[[str], None],
    failed: Callable[[Deployment], bool] = lambda _: False,
) -> Deployment:
    """Polls the deployment until it is ready.

    Args:
        failed: whether there is no point in waiting any longer.

    Raises:
        Refused: the job was refused.
        HoldfastError: it failed, or is not ready in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        now = look()
        tell(now.as_line())
        if now.ready:
            return now
        if now.state is DeploymentState.REFUSED:
            raise _refusal(now)
        if failed(now) or time.monotonic() >= deadline:
            late = "" if failed(now) else f" within {timeout_s:.0f} s"
            raise HoldfastError(
                f"{now.name} revision {now.revision} did not become ready{late}: "
                f"{now.reason or now.state}",
                action="see the driver's log; give --timeout more seconds if it only was slow",
            )
        time.sleep(_POLL_S)


def _refusal(refused: Deployment) -> Refused:
    """The error in the driver's own words, as the command line printed them."""
    fact, cause, action = told_parts(refused.reason)
    told = f"{refused.name} revision {refused.revision} was refused: {fact}"
    return Refused(told, cause=cause, action=action)
