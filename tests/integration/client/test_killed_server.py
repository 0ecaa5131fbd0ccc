"""A push query goes on through the death of the servers that answer it, on a real broker."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from holdfast.client import Changes, Client
from holdfast.local.broker import BrokerStatus
from tests.support.jobs.table_job import TableJob, settings_of
from tests.support.serve import plain_http as plain
from tests.support.serve.processes import Servers

KEYS = 50
EVERY = Counter(f"k{i}" for i in range(KEYS))
WAIT_S = 120.0


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[TableJob]:
    topic = kafka_topic_name("in")
    found = TableJob(settings_of(kafka.bootstrap_servers, f"{topic}-app", tmp_path), topic)
    yield found
    found.close()


@pytest.fixture
def servers(job: TableJob, tmp_path: Path) -> Iterator[Servers]:
    found = Servers(job, tmp_path, count=2)
    yield found
    found.stop()


class _Reader(threading.Thread):
    """Takes every change until each key has been counted four times."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self.state = Changes()
        self.counts: dict[str, list[int]] = {}

    def run(self) -> None:
        rows = self._client.changes(
            "SELECT id, n FROM counts EMIT CHANGES;",
            properties={"auto.offset.reset": "earliest"},
            state=self.state,
        )
        for row in rows:
            self.counts.setdefault(row["ID"], []).append(row["N"])
            if self.told(4):
                return

    def told(self, count: int) -> bool:
        return len(self.counts) == KEYS and all(c[-1] == count for c in self.counts.values())


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def _ready(address: str) -> bool:
    try:
        return plain.get(f"{address}/healthcheck").status_code == 200
    except httpx.TransportError:
        return False


def test_changes_go_on_when_servers_are_killed(job: TableJob, servers: Servers) -> None:
    job.commit(EVERY)
    for number, address in enumerate(servers.addresses):
        servers.start(number)
        _until(lambda at=address: _ready(at))  # type: ignore[misc]
    with Client(servers.addresses, retry_s=WAIT_S) as client:
        reader = _Reader(client)
        reader.start()
        _until(lambda: reader.told(1))
        servers.kill(0)
        job.commit(EVERY)
        _until(lambda: reader.told(2))  # from the other server
        servers.start(0)
        _until(lambda: _ready(servers.addresses[0]))
        servers.kill(1)
        job.commit(EVERY)
        _until(lambda: reader.told(3))  # from the first again
        assert {
            row["N"] for row in client.query("SELECT n FROM counts WHERE id IN ('k1','k2');")
        } == {3}
        job.commit(EVERY)
        reader.join(WAIT_S)
    assert all(counts == [1, 2, 3, 4] for counts in reader.counts.values())  # none lost, none twice
