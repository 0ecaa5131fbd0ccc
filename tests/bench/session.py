"""A benchmark from start to end: broker, inputs, then every run, round by round."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.transport.registry import open_registry
from tests.bench.encoded import SCHEMAS, encoder
from tests.bench.input import Record, made, write
from tests.bench.measure.latency import latency
from tests.bench.measure.steady import rescaled, volume_lost
from tests.bench.report.outcome import Outcome
from tests.bench.report.screen import Screen
from tests.bench.runs import Run, grown, kill, restore, throughput
from tests.bench.systems.broker import Cluster
from tests.bench.systems.peers import Case, Peer
from tests.bench.workloads import INPUTS, WORKLOADS, Kind, Size, Workload

__all__ = ["Session", "Step", "steps"]


@dataclass(frozen=True)
class Step:
    """One run to make; `then_restore`: and (f) after it, on the table it leaves."""

    workload: Workload
    peer: Peer
    round: int
    then_restore: bool = False


def steps(size: Size, peers: Sequence[Peer]) -> list[Step]:
    """Every run in its order: all of a round before the next, peers in turn.

    (f) needs a finished (a): it follows (a)'s own run.  What is no throughput is measured once.
    """
    chosen = [WORKLOADS[name] for name in size.workloads]
    restores = any(w.kind is Kind.RESTORE for w in chosen)
    if restores and "a" not in size.workloads:
        chosen.insert(0, WORKLOADS["a"])
    found = []
    for number in range(1, size.rounds + 1):
        order = peers if number % 2 else list(reversed(peers))
        for workload in chosen:
            if workload.kind is Kind.RESTORE:
                continue
            for peer in order:
                once = workload.kind is not Kind.THROUGHPUT or peer.name in size.once
                able = workload.kind not in _RESTORED or peer.can_restore
                able = able and workload.query in peer.queries
                able = able and (workload.kind is not Kind.RESCALE or bool(peer.rescaling))
                able = able and (peer.reads_registered or INPUTS[workload.input].form == "JSON")
                if able and (number == 1 or not once):
                    follows = number == 1 and restores and workload.name == "a"
                    found.append(Step(workload, peer, number, follows and peer.can_restore))
    return found


_KILLS = (Kind.KILL, Kind.LOSE)
_LOADED = (Kind.RESCALE, Kind.LOSE_LOADED)
_RESTORED = (*_KILLS, Kind.GROWN, Kind.LOSE_LOADED)


class Session:
    """Owns the work folder and the broker between `with` and its end, which deletes both."""

    def __init__(self, work: Path, size: Size, screen: Screen) -> None:
        self._work = work
        self._size = size
        self._screen = screen
        self._cluster = Cluster(work / "broker", screen.say)
        self._written: dict[tuple[str, int], tuple[str, ...]] = {}
        self._now_ms = int(time.time() * 1000)

    @contextmanager
    def open(self) -> Iterator[None]:
        """The broker runs inside."""
        shutil.rmtree(self._work, ignore_errors=True)
        try:
            self._cluster.start()
            yield
        finally:
            self._cluster.stop()
            shutil.rmtree(self._work, ignore_errors=True)

    def run(self, step: Step) -> list[Outcome]:
        """The outcomes of a step; a failure is one as well."""
        count = self._records(step)
        name = f"bench-{step.workload.name}-{step.peer.name}-{step.round}"
        empty = Outcome(step.workload.name, step.peer.name, step.round, count)
        what = f"round {step.round}: ({step.workload.name}) {step.peer.title}"
        try:
            case = self._case(step, name, count)
            with self._screen.bar(what, count) as tell:
                run = Run(self._cluster, step.peer, case, count, empty, tell)
                found = [self._measured(step, run)]
            if step.then_restore:
                self._screen.say(f"round {step.round}: (f) {step.peer.title}")
                found.append(restore(replace(run, outcome=replace(empty, workload="f"))))
        except (RuntimeError, HoldfastError, ValueError) as error:
            found = [replace(empty, wrong=str(error) or repr(error))]
        finally:
            self._cluster.forget(name)
            shutil.rmtree(self._work / name, ignore_errors=True)
        return found

    def _measured(self, step: Step, run: Run) -> Outcome:
        if step.workload.kind is Kind.LATENCY:
            return latency(run, self._size.warm_s, self._size.latency_s)
        if step.workload.kind in _KILLS:
            return kill(run, lose=step.workload.kind is Kind.LOSE)
        if step.workload.kind is Kind.GROWN:
            return grown(run)
        if step.workload.kind is Kind.LOSE_LOADED:
            return volume_lost(run)
        if step.workload.kind is Kind.RESCALE and step.peer.rescaling:
            return rescaled(run, step.peer.rescaling(run.case))
        return throughput(run)

    def _records(self, step: Step) -> int:
        slow = step.peer.name in self._size.once
        records = self._size.records // step.workload.part
        if step.workload.kind in _LOADED:
            return INPUTS[step.workload.input].keys
        if step.workload.kind is Kind.GROWN:
            records += INPUTS[step.workload.input].keys
        return records // self._size.once_share if slow else records

    def _case(self, step: Step, name: str, count: int) -> Case:
        topics = self._topics(step.workload, name, count)
        batch = max(1, min(self._size.batch, count // 8))
        folder = self._work / name
        query, under = step.workload.query, self._size.under
        case = Case(self._cluster.bootstrap, name, topics, query, folder, batch, under=under)
        form = INPUTS[step.workload.input].form
        if form != "JSON":
            case = replace(case, form=form, registry=self._cluster.registry())
        self._cluster.create(case.sink_topic)
        return case

    def _topics(self, workload: Workload, name: str, count: int) -> tuple[str, ...]:
        """The input topics of a run; what a load is written into is this run's own."""
        if workload.kind in _LOADED:
            return self._input(workload.input, count, f"{name}-input")
        if workload.kind is Kind.LATENCY:
            self._cluster.create(f"{name}-input")
            return (f"{name}-input",)
        if (workload.input, count) not in self._written:
            topics = self._input(workload.input, count, f"input-{workload.input}")
            self._written[workload.input, count] = topics
        return self._written[workload.input, count]

    def _input(self, name: str, count: int, prefix: str) -> tuple[str, ...]:
        """Writes an input; its topics."""
        topics: list[str] = []
        parts = len(INPUTS[name].topics)
        for stream, chunks in self._made(name, count):
            topics.append(f"{prefix}-{stream}-{count}")
            self._cluster.create(topics[-1])
            with self._screen.bar(f"writing {topics[-1]}", count // parts) as tell:
                write(self._cluster.client, topics[-1], chunks, tell)
        return tuple(topics)

    def _made(self, name: str, count: int) -> list[tuple[str, Iterator[list[Record]]]]:
        spec = INPUTS[name]
        if spec.form == "JSON":
            return made(spec, count, self._now_ms)
        registry = open_registry({"url": self._cluster.registry()})
        subject = f"input-{name}-{spec.topics[0]}-{count}-value"
        encode = encoder(spec.form, registry.register(subject, SCHEMAS[spec.form]))
        return made(spec, count, self._now_ms, encode)
