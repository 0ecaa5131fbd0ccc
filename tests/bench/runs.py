"""One run of one peer: throughput, restore, kill.  Latency has a module of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import psutil

from tests.bench.input import SEED
from tests.bench.measure.check import wrong_pairs, wrong_totals
from tests.bench.measure.customers import wrong_customers
from tests.bench.measure.measure import Mark, crossing, follow, rate, size_of
from tests.bench.orders import Orders
from tests.bench.report.outcome import Outcome
from tests.bench.running import Running
from tests.bench.systems.broker import Cluster
from tests.bench.systems.peers import Case, Peer
from tests.bench.workloads import INPUTS, WORKLOADS, Kind, Query

__all__ = ["Run", "grown", "judged", "kill", "restore", "throughput"]

_WARM = 8  # the first eighth of the records is warming up, for every peer
_COMMITS = 2  # after that: a rate over one tells of the moment of a commit, not of speed
_SLOWEST = 4_000  # records/s; slower than this has failed
_LEAST_S = 150.0
_EVERY_S = 0.1
_KILL_AT = 0.4
_SETTLE_S = 0.5  # what was committed before the kill has been told by then


@dataclass(frozen=True)
class Run:
    """The parameters of a run: the peer, its case, the input records, a progress bar."""

    cluster: Cluster
    peer: Peer
    case: Case
    records: int
    outcome: Outcome
    tell: Callable[[int], None]

    def progress(self) -> int:
        """How many input records have been committed, results and all."""
        group = self.peer.group(self.case)
        own = self.case.application
        return sum(self.cluster.progress(group, topic, own) for topic in self.case.topics)


def throughput(run: Run) -> Outcome:
    """From an empty table to the input's end."""
    broker = psutil.Process(run.cluster.pid)
    before = _cpu(broker)
    with Running(run.peer, run.case) as running:
        marks = _follow(run, running, run.records)
        broker_cpu = _cpu(broker) - before
    values = _values(running, marks, run.records)
    values["broker_cpu_s_per_m"] = broker_cpu / run.records * 1e6
    return judged(run, replace(run.outcome, values=values))


def _values(running: Running, marks: list[Mark], records: int) -> dict[str, float]:
    end, tree = marks[-1], running.tree
    first = next(mark for mark in marks if mark.records)
    warm = crossing(marks, max(1, records // _WARM))
    values = {
        "rate_with_start": records / (end.at - running.spawned),
        "start_s": first.at - running.spawned,
        "cpu_all_s_per_m": tree.cpu_at(end.at) / records * 1e6,
        "peak_mb": tree.peak_bytes / 1e6,
    }
    if sum(mark.records > warm.records for mark in marks) >= _COMMITS:
        spent = tree.cpu_at(end.at) - tree.cpu_at(warm.at)
        values["rate"] = rate(warm, end)
        values["cpu_s_per_m"] = spent / (records - warm.records) * 1e6
    return values


def restore(run: Run) -> Outcome:
    """Starts a finished table again without its volume, until all its stores are restored."""
    for folder in run.peer.state_folders(run.case):
        shutil.rmtree(folder, ignore_errors=True)
    deadline = time.monotonic() + run.records / _SLOWEST + _LEAST_S
    with Running(run.peer, run.case) as running:
        while (done := run.peer.restored(run.case)) is None:
            running.check()
            _in_time(deadline, "restore")
            time.sleep(_EVERY_S)
        waited = time.monotonic() - running.spawned
    values = {
        "restore_rate": done.records / done.seconds,
        "restore_s": done.seconds,
        "restore_with_start_s": waited,
        "peak_mb": running.tree.peak_bytes / 1e6,
        "cpu_all_s_per_m": running.tree.timeline[-1][1] / done.records * 1e6,
    }
    return replace(run.outcome, records=done.records, values=values)


def grown(run: Run) -> Outcome:
    """The rate once all keys are there, a start with the volume, and one without.

    Half of the records that come after each key's first are for the rate, half for the start.
    """
    keys = INPUTS[WORKLOADS[run.outcome.workload].input].keys
    half = keys + (run.records - keys) // 2
    with Running(run.peer, run.case) as running:
        marks = _follow(run, running, half)
    if (done := run.progress()) >= run.records:
        raise RuntimeError(f"all {done:,} records were done before the peer could be stopped")
    disk = sum(map(size_of, run.peer.state_folders(run.case)))
    full, end, tree = crossing(marks, keys), marks[-1], running.tree
    spent = tree.cpu_at(end.at) - tree.cpu_at(full.at)
    values = {
        "rate": rate(full, end),
        "fill_rate": rate(crossing(marks, keys // _WARM), full),
        "cpu_s_per_m": spent / (end.records - full.records) * 1e6,
        "peak_mb": tree.peak_bytes / 1e6,
        "disk_bytes_per_row": disk / keys,
        "disk_written_per_record": tree.written_bytes / end.records,
    }
    with Running(run.peer, run.case) as running:
        again = _follow(run, running, done + 1)[-1]
        values["start_s"] = again.at - running.spawned
        _follow(run, running, run.records)
    outcome = judged(run, replace(run.outcome, values=values))
    restored = restore(run).values
    kept = {name: restored[name] for name in ("restore_rate", "restore_with_start_s")}
    return replace(outcome, values={**values, **kept})


def kill(run: Run, *, lose: bool = False) -> Outcome:
    """SIGKILL in the middle until more is committed; then to the end.

    Args:
        lose: whether the volume of the killed process is lost, too.
    """
    with Running(run.peer, run.case) as running:
        _follow(run, running, int(run.records * _KILL_AT))
        pid, restart = run.peer.victim(run.case, running.pids)
        killed = time.monotonic()
        lost = run.peer.volume_of(run.case, pid) if lose else None
        running.kill(pid, restart=restart)
        if lost is not None:
            shutil.rmtree(lost, ignore_errors=True)
        time.sleep(_SETTLE_S)
        again = _follow(run, running, run.progress() + 1)[-1]
        _follow(run, running, run.records)
    return judged(run, replace(run.outcome, values={"recovery_s": again.at - killed}))


def _follow(run: Run, running: Running, records: int) -> list[Mark]:
    deadline = time.monotonic() + run.records / _SLOWEST + _LEAST_S

    def enough(mark: Mark) -> bool:
        running.check()
        run.tell(mark.records)
        if mark.records < records:
            _in_time(deadline, f"{mark.records} of {records} records")
        return mark.records >= records

    return follow(run.progress, enough, _EVERY_S)


def _in_time(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise RuntimeError(f"too slow: {what}")


def judged(run: Run, outcome: Outcome) -> Outcome:
    """The outcome, with `wrong` set when a row of the sink is not what the input makes of it."""
    return replace(outcome, wrong=_wrong(run))


def _wrong(run: Run) -> str:
    client, case = run.cluster.client, run.case
    workload = WORKLOADS[run.outcome.workload]
    if workload.kind is Kind.GROWN:
        return wrong_customers(client, case.sink_topic, INPUTS[workload.input], run.records)
    if case.query is not Query.JOIN:
        return wrong_totals(client, case.input_topic, case.sink_topic, case.query, run.records)
    orders = Orders.made(INPUTS["orders"], run.records // len(case.topics), SEED)
    return wrong_pairs(client, case.sink_topic, orders)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
