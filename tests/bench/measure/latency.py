"""(e): a steady load, and how old a result's newest event is when a reader may see it.

The load is a process of its own (`python -m tests.bench.measure.latency BROKERS TOPIC RATE`), which runs
until it is told to stop.  A result carries the time of the newest event in it, for every peer.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition

from holdfast.transport.partitioner import murmur2_partitions
from tests.bench.input import Record, records
from tests.bench.measure.measure import Mark, follow, percentile
from tests.bench.report.outcome import Outcome
from tests.bench.running import Running
from tests.bench.runs import Run, judged
from tests.bench.workloads import INPUTS, PARTITIONS

__all__ = ["RATE", "latency", "load"]

RATE = 10_000
_TICK_S = 0.01
_MOST = 100_000_000  # more than any run takes
_START_S = 180.0
_CATCH_UP_S = 60.0
_LEVEL_S = 2
_ROOT = Path(__file__).parents[2]


def latency(run: Run, warm_s: float, seconds: float) -> Outcome:
    """p50 and p99 over `seconds`, from `warm_s` after it has caught up with the load.

    One that does not catch up in a minute is measured all the same: its results are old.  The
    case's input topic must be empty; the outcome's records are what the load wrote.
    """
    with Running(run.peer, run.case) as running:
        with load(run.cluster.bootstrap, run.case.input_topic), _Sink(run) as sink:
            _await(run, running, 1)
            _catch_up(run, running)
            _watch(running, warm_s)
            sink.keep(True)
            spent = running.tree.spent()
            _watch(running, seconds)
            sink.keep(False)
            spent = running.tree.spent() - spent
        total = run.cluster.size(run.case.input_topic)
        _await(run, running, total)
    outcome = replace(run.outcome, records=total)
    if not sink.ages_s:
        return replace(outcome, wrong=f"no result within {seconds:.0f} s")
    values = {
        "p50_s": percentile(sink.ages_s, 0.5),
        "p99_s": percentile(sink.ages_s, 0.99),
        "cpu_s_per_m": spent / (seconds * RATE) * 1e6,
        "peak_mb": running.tree.peak_bytes / 1e6,
    }
    return judged(replace(run, records=total), replace(outcome, values=values))


def _await(run: Run, running: Running, wanted: int) -> None:
    deadline = time.monotonic() + _START_S

    def enough(mark: Mark) -> bool:
        running.check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{mark.records} of {wanted} records were committed in time")
        return mark.records >= wanted

    follow(run.progress, enough)


def _catch_up(run: Run, running: Running) -> None:
    """Until it is at most two seconds behind: the load began before it had started."""
    deadline = time.monotonic() + _CATCH_UP_S
    while time.monotonic() < deadline:
        running.check()
        if run.cluster.size(run.case.input_topic) - run.progress() <= _LEVEL_S * RATE:
            return
        time.sleep(0.2)


def _watch(running: Running, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        running.check()
        time.sleep(min(0.5, left))


@contextmanager
def load(bootstrap: str, topic: str) -> Iterator[None]:
    """`RATE` records a second are written inside; at its end all of them have been delivered."""
    argv = [sys.executable, "-m", "tests.bench.measure.latency", bootstrap, topic]
    paths = os.pathsep.join([str(_ROOT), str(_ROOT / "jobs")])
    process = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": paths}, cwd=_ROOT)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        if process.wait(60):
            raise RuntimeError("the load did not end well")


class _Sink:
    """Reads the sink from a thread, read_committed, and keeps ages in seconds when told to."""

    def __init__(self, run: Run) -> None:
        own = {
            "group.id": "bench-latency",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 5,
        }
        self._consumer = Consumer({**run.cluster.client, **own})
        places = [TopicPartition(run.case.sink_topic, p, 0) for p in range(PARTITIONS)]
        self._consumer.assign(places)
        self._keep = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="sink", daemon=True)
        self.ages_s: list[float] = []

    def keep(self, keep: bool) -> None:
        """Whether results that arrive from now on count."""
        self._keep = keep

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._ended.is_set():
            got = self._consumer.consume(1, 0.1) + self._consumer.consume(10_000, 0)
            now = time.time()
            if self._keep:
                fine = (m.timestamp()[1] for m in got if m.error() is None)
                self.ages_s += [now - ms / 1000 for ms in fine]


def main(bootstrap: str, topic: str) -> None:
    """Writes RATE records a second, their event time the moment of writing, until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "compression.type": "lz4",
            "enable.idempotence": True,
        }
    )
    drawn = chain.from_iterable(records(INPUTS["uniform"], _MOST, 0))
    began, sent = time.monotonic(), 0
    while not ended.wait(_TICK_S):
        due = int((time.monotonic() - began) * RATE) - sent
        sent += due
        _send(producer, topic, list(islice(drawn, due)))
    if producer.flush(30):
        raise RuntimeError("the load was not delivered")


def _send(producer: Producer, topic: str, chunk: list[Record]) -> None:
    places = murmur2_partitions([key for key, _, _ in chunk], PARTITIONS)
    now = int(time.time() * 1000)
    for (key, value, _), place in zip(chunk, places, strict=True):
        producer.produce(topic, value, key, place, timestamp=now)
    producer.poll(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
