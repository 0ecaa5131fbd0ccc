"""What readers of a query server see while a job runs: how late pushes are, how far it is behind.

A change counts as committed when a read_committed consumer of the sink gets it, whose records are
committed with the changelog's.  It counts as pushed when a client of a push query has a row with
it, or with a later one of the same customer: who is behind may be told several at once.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import orjson
import psutil
from confluent_kafka import Consumer, TopicPartition

from holdfast.client import Changes, Client
from holdfast.errors import HoldfastError
from holdfast.transport.cluster.admin import Admin
from tests.bench.measure.measure import percentile
from tests.bench.systems.broker import Cluster
from tests.bench.systems.holdfast import Holdfast
from tests.bench.systems.peers import Case

__all__ = ["Live", "Seen", "live"]

_WATCHED = 20_000  # customers whose changes are pushed
_PARTITION = 0  # of the sink: of those the ones that are in it are timed
_LOOK_EVERY_S = 0.05
_LEVEL_S = 60.0
_LAST_WORDS_S = 1.0
_SINK = {
    "group.id": "bench-live",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 20,
    "fetch.queue.backoff.ms": 5,
}


_LATEST = {"auto.offset.reset": "latest"}


@dataclass(frozen=True)
class Live:
    """Delays in ms of pushed changes, and the server's lag in committed changelog records.

    Attributes:
        beside: what the job did meanwhile.
        pushed: changes that were timed; `missing`: committed ones that never came.
        looks: at the lag.
        cpu_s_per_m: CPU seconds of the server per million changelog records.
        records: of the changelog, meanwhile.
    """

    beside: str
    push_p50_ms: float
    push_p99_ms: float
    pushed: int
    missing: int
    lag_p50: float
    lag_p99: float
    looks: int
    cpu_s_per_m: float
    records: int


@dataclass
class Seen:
    """Counts of customers with the moments they were seen at, ascending; filled by threads."""

    committed: list[tuple[str, int, float]] = field(default_factory=list)
    pushed: defaultdict[str, list[tuple[int, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    lags: list[float] = field(default_factory=list)
    until: float = math.inf  # what is committed later may not be pushed any more
    cpu_s: float = 0.0
    records: int = 0

    def found(self, beside: str) -> Live:
        """Raises RuntimeError when there was nothing to see."""
        committed = [c for c in self.committed if c[-1] < self.until]
        delays = [d for c in committed if (d := self._delay_ms(*c)) is not None]
        if not delays or not self.lags:
            raise RuntimeError(
                f"{len(committed)} changes were committed, {len(delays)} of them pushed; "
                f"{len(self.lags)} looks at the lag"
            )
        return Live(
            beside,
            percentile(delays, 0.5), percentile(delays, 0.99),
            len(delays), len(committed) - len(delays),
            percentile(self.lags, 0.5), percentile(self.lags, 0.99), len(self.lags),
            self.cpu_s / max(1, self.records) * 1e6, self.records,
        )  # fmt: skip

    def _delay_ms(self, customer: str, count: int, at: float) -> float | None:
        """None: it was never pushed; 0 where the push overtook the consumer of the sink."""
        told = self.pushed.get(customer, [])
        place = bisect_left(told, count, key=lambda each: each[0])
        return max(0.0, told[place][1] - at) * 1000 if place < len(told) else None


@contextmanager
def live(cluster: Cluster, case: Case, port: int, pid: int) -> Iterator[Seen]:
    """Watches from inside to its end, and on until the server (process `pid`) is level."""
    watch = _Watch(cluster, case, port)
    watch.listen()
    threads = [threading.Thread(target=work, daemon=True) for work in (watch.sink, watch.lags)]
    server, before = psutil.Process(pid), watch.end()
    spent = _cpu(server)
    for thread in threads:
        thread.start()
    try:
        yield watch.seen
        watch.until_level()
        watch.seen.until = time.time()
        watch.seen.cpu_s = _cpu(server) - spent
        watch.seen.records = watch.end() - before
        time.sleep(_LAST_WORDS_S)
    finally:
        watch.ended.set()
        for thread in threads:
            thread.join(10)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class _Watch:
    """Three threads and what they have seen."""

    def __init__(self, cluster: Cluster, case: Case, port: int) -> None:
        self._client = cluster.client
        self._admin = Admin(cluster.client)
        self._case = case
        self._changelog = Holdfast().changelog(case)
        self._url = f"http://127.0.0.1:{port}"
        self.seen = Seen()
        self._listening = Changes()
        self.ended = threading.Event()

    def listen(self) -> None:
        """Returns when the push query has begun; nobody waits for its end, for no row may come."""
        deadline = time.monotonic() + _LEVEL_S
        threading.Thread(target=self._pushes, daemon=True).start()
        while not self._listening.token:
            if time.monotonic() > deadline:
                raise RuntimeError("the push query did not begin")
            time.sleep(_LOOK_EVERY_S)

    def end(self) -> int:
        """Of the changelog, all partitions together."""
        return sum(self._admin.end_offsets(self._changelog).values())

    def until_level(self) -> None:
        """Raises RuntimeError when the server does not come to the changelog's end."""
        deadline = time.monotonic() + _LEVEL_S
        with httpx.Client() as http:
            while self._lag(http):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the server is not level {_LEVEL_S:.0f} s after the job")
                time.sleep(_LOOK_EVERY_S)

    def _lag(self, http: httpx.Client) -> int:
        """The server's own idea of the end is a little old: the broker is asked."""
        ends = self._admin.end_offsets(self._changelog)
        told = http.get(f"{self._url}/v1/tables/totals/positions").json()["partitions"]
        return sum(max(0, end - told[str(p)]["position"]) for p, end in ends.items())

    def lags(self) -> None:
        with httpx.Client() as http:
            while not self.ended.wait(_LOOK_EVERY_S):
                self.seen.lags.append(float(self._lag(http)))

    def sink(self) -> None:
        topic, first = self._case.sink_topic, b"c%08d" % _WATCHED
        end = self._admin.end_offsets(topic)[_PARTITION]
        consumer = Consumer({**self._client, **_SINK})
        consumer.assign([TopicPartition(topic, _PARTITION, end)])
        while not self.ended.is_set():
            got = consumer.consume(1, 0.1) + consumer.consume(10_000, 0)
            now = time.time()
            for message in got:
                key, value = message.key(), message.value()
                if message.error() is None and key and value and key < first:
                    count = orjson.loads(value)["N"]
                    self.seen.committed.append((key.decode(), count, now))
        consumer.close()

    def _pushes(self) -> None:
        sql = f"SELECT customer, n FROM totals WHERE customer < 'c{_WATCHED:08d}' EMIT CHANGES;"
        try:
            with Client(self._url, timeout_s=60) as client:
                for row in client.changes(sql, properties=_LATEST, state=self._listening):
                    self.seen.pushed[row["CUSTOMER"]].append((row["N"], time.time()))
                    if self.ended.is_set():
                        return
        except HoldfastError:
            if not self.ended.is_set():
                raise
