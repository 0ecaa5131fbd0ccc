"""What readers of a query server see while a job runs: its lag, and how late pushes are.

A change counts as committed when a read_committed consumer of the changelog gets it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import orjson
from confluent_kafka import Consumer, TopicPartition

from holdfast.client import Client
from holdfast.transport.admin import Admin
from tests.bench.broker import Cluster
from tests.bench.measure import percentile
from tests.bench.peers import Case

__all__ = ["Live", "live"]

_WATCHED = 2_000  # customers whose changes are timed
_LOOK_EVERY_S = 0.05
_LAST_WORDS_S = 3.0


@dataclass(frozen=True)
class Live:
    """Delays in ms of pushed changes, and the server's lag in changelog records."""

    push_p50_ms: float
    push_p99_ms: float
    pushed: int
    lag_p50: float
    lag_p99: float
    looks: int


@dataclass
class _Seen:
    """When which change of which customer was seen, by its record count; filled by threads."""

    committed: dict[tuple[str, int], float] = field(default_factory=dict)
    pushed: dict[tuple[str, int], float] = field(default_factory=dict)
    lags: list[float] = field(default_factory=list)

    def found(self) -> Live:
        both = self.committed.keys() & self.pushed.keys()
        if not both or not self.lags:
            raise RuntimeError(
                f"{len(self.committed)} changes were committed, {len(self.pushed)} pushed, "
                f"{len(both)} of them both; {len(self.lags)} looks at the lag"
            )
        # A push may overtake the consumer it is compared with.
        delays = [max(0.0, self.pushed[c] - self.committed[c]) * 1000 for c in both]
        return Live(
            percentile(delays, 0.5), percentile(delays, 0.99), len(delays),
            percentile(self.lags, 0.5), percentile(self.lags, 0.99), len(self.lags),
        )  # fmt: skip


@contextmanager
def live(cluster: Cluster, case: Case, port: int) -> Iterator[_Seen]:
    """Watches from inside to its end, and a little longer."""
    seen, ended = _Seen(), threading.Event()
    works: list[Callable[[], None]] = [
        lambda: _sink(cluster, case, seen, ended),
        lambda: _pushes(port, seen, ended),
        lambda: _lags(cluster, case, port, seen, ended),
    ]
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield seen
        time.sleep(_LAST_WORDS_S)
    finally:
        ended.set()
        for thread in threads:
            thread.join(10)


def _watched(customer: str) -> bool:
    return int(customer[1:]) < _WATCHED


def _sink(cluster: Cluster, case: Case, seen: _Seen, ended: threading.Event) -> None:
    """The sink's records are committed with the changelog's, and can be read without the engine."""
    own = {
        "group.id": "bench-live",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 20,
        "fetch.queue.backoff.ms": 5,
    }
    consumer = Consumer({**cluster.client, **own})
    ends = Admin(cluster.client).end_offsets(case.sink_topic)
    consumer.assign([TopicPartition(case.sink_topic, p, end) for p, end in ends.items()])
    while not ended.is_set():
        got = consumer.consume(1, 0.1) + consumer.consume(10_000, 0)
        now = time.time()
        for message in got:
            key, value = message.key(), message.value()
            if message.error() is None and key and value and _watched(key.decode()):
                seen.committed.setdefault((key.decode(), orjson.loads(value)["N"]), now)
    consumer.close()


def _pushes(port: int, seen: _Seen, ended: threading.Event) -> None:
    sql = f"SELECT customer, n FROM totals WHERE customer < 'c{_WATCHED:08d}' EMIT CHANGES;"
    with Client(f"http://127.0.0.1:{port}", timeout_s=60) as client:
        for row in client.changes(sql, properties={"auto.offset.reset": "latest"}):
            seen.pushed.setdefault((row["CUSTOMER"], row["N"]), time.time())
            if ended.is_set():
                return


def _lags(cluster: Cluster, case: Case, port: int, seen: _Seen, ended: threading.Event) -> None:
    url = f"http://127.0.0.1:{port}/v1/tables/totals/positions"
    with httpx.Client() as http:
        while not ended.wait(_LOOK_EVERY_S):
            parts = http.get(url).json()["partitions"].values()
            seen.lags.append(float(sum(p["lag"] for p in parts)))
