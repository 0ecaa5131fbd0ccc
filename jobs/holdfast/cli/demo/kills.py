"""SIGKILL, and the time until recovery."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from rich.box import SIMPLE_HEAD
from rich.table import Table

from holdfast.cli.demo.watch import Progress, Watch
from holdfast.local.processes import kill_hard
from holdfast.types.status import ExecutorStatus, JobStatus, PartitionStatus

__all__ = ["Kill", "Tell", "kill_driver", "kill_executor", "kills_table", "recovered"]

_RECOVERY_S = 300.0

Tell = Callable[[Progress, str], None]


@dataclass(frozen=True)
class Kill:
    """One kill and its outcome.

    Attributes:
        what: what was killed, for people.
        landed: the processes existed, and died.
        share: how much of the input was committed then, 0 to 1.
        committed: offset that the slowest query had committed then.
        at: monotonic seconds.
        before: the driver's last status before it.
        recovery_s: from the kill until the next commit of every query.
        restored: how the stores caught up, for people.
    """

    what: str
    landed: bool
    share: float
    committed: int
    at: float
    before: JobStatus | None
    recovery_s: float | None = None
    restored: str = ""

    @property
    def counts(self) -> bool:
        """Whether the kill hit unfinished work; else it proves nothing."""
        return self.landed and self.share < 1


def kill_executor(watch: Watch) -> Kill:
    """SIGKILL the JVM of the executor with most state partitions; its workers die with it."""
    status, progress = watch.status(), watch.progress()
    victim = _busiest(status) if status is not None else None
    share = progress.committed / watch.total
    at = time.monotonic()
    if victim is None:
        return Kill("no executor was found", False, share, progress.committed, at, status)
    landed = kill_hard(victim.jvm_pid)
    what = f"executor {victim.id} (pid {victim.jvm_pid})"
    return Kill(what, landed, share, progress.committed, at, status)


def kill_driver(watch: Watch) -> Kill:
    """SIGKILL the driver: its Python process, and its JVM before it can notice."""
    status, progress = watch.status(), watch.progress()
    share = progress.committed / watch.total
    at = time.monotonic()
    if status is None:
        return Kill("no driver was found", False, share, progress.committed, at, status)
    landed = kill_hard(status.pid)
    kill_hard(status.jvm_pid)
    what = f"driver (pid {status.pid}, JVM {status.jvm_pid})"
    return Kill(what, landed, share, progress.committed, at, status)


def recovered(kill: Kill, watch: Watch, why_dead: Callable[[], str], tell: Tell) -> Kill:
    """Wait until a new process has replaced the killed one and every query commits again.

    Raises:
        JobDied, KafkaUnavailable: it did not recover.
    """

    def done(now: Progress) -> bool:
        goes_on = now.committed > kill.committed or now.committed >= watch.total
        return goes_on and _replaced(kill.before, watch.status())

    watch.until(done, why_dead, _RECOVERY_S, tell)
    return replace(
        kill,
        recovery_s=time.monotonic() - kill.at,
        restored=_restored(kill.before, watch.status()),
    )


def kills_table(kills: list[Kill]) -> Table:
    """The kills and recoveries for people."""
    table = Table(title="Kills", title_justify="left", box=SIMPLE_HEAD)
    for head in ("SIGKILL to", "when", "work went on after", "stores"):
        table.add_column(head)
    for kill in kills:
        when = f"{kill.share:.0%} committed" if kill.landed else "[red]it did not land[/red]"
        after = f"{kill.recovery_s:.1f} s" if kill.recovery_s is not None else "?"
        table.add_row(kill.what, when, after, kill.restored)
    return table


def _replaced(before: JobStatus | None, now: JobStatus | None) -> bool:
    """Whether a process that is new since the kill is running, and no executor is missing."""
    if before is None or now is None:
        return now is not None
    old = {e.jvm_pid for e in before.executors}
    new = {e.jvm_pid for e in now.executors}
    return bool(new - old) and len(new) >= len(old)


def _busiest(status: JobStatus) -> ExecutorStatus | None:
    owners = [p.owner for q in status.queries.values() for p in q.state_partitions]
    known = [e for e in status.executors if e.jvm_pid]
    return max(known, key=lambda e: owners.count(e.id), default=None)


def _restored(before: JobStatus | None, now: JobStatus | None) -> str:
    """The restores in `now` that are not in `before`."""
    known = _restores(before)
    new = [p for key, p in _restores(now).items() if key not in known]
    if not new:
        return "level at once"
    records, longest = sum(p.restore_records for p in new), max(p.restore_seconds for p in new)
    return f"{len(new)} opened, {records:,} records replayed, {longest:.2f} s at most"


def _restores(status: JobStatus | None) -> dict[tuple[object, ...], PartitionStatus]:
    queries = status.queries.items() if status is not None else ()
    return {
        (status.pid if status else 0, name, p.partition, p.owner, p.restore_seconds): p
        for name, query in queries
        for p in query.state_partitions
        if p.restore_seconds
    }
