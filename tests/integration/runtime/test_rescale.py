"""A real job is rescaled while records come in, up and down, and is read all the time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from holdfast.cli.main import main
from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.local.broker import BrokerStatus
from holdfast.serve.cluster.members import Plan
from holdfast.serve.cluster.peer import PeerSettings
from holdfast.serve.follow.catalog import Script
from holdfast.serve.node import Node, opened
from holdfast.sql import compile_text
from holdfast.state.topics.orders import read_layouts
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import changelog_topic
from holdfast.types.statements.internal_topics import for_application
from holdfast.types.status import JobStatus
from tests.support.jobs.chained_job import ChainedJob, Events

pytestmark = pytest.mark.timeout(900)

ROUND = 4_000
QUERY = "ctas_totals"


class Bench:
    """A job over an input, and orders to it."""

    def __init__(self, client: dict[str, str], name: str, folder: Path) -> None:
        self.client = client
        self.events = Events(client, f"{name}-in")
        self.job = ChainedJob(folder, client, name, self.events)

    def rescale(self, *asked: str) -> int:
        servers = self.client["bootstrap.servers"]
        job = self.job.application_id
        more = ("--application-id", job, "--set", f"bootstrap.servers={servers}")
        return main(["rescale", QUERY, *asked, *more, "--timeout", "120"])

    def is_right(self) -> None:
        """Checks all results, also those that must not have come twice."""
        self.events.touch_all()
        large = self.events.large()
        self.job.until_right(large)
        assert self.job.stop() == 0
        assert self.job.count("large") == large, "none came twice"


class Reading:
    """Reads every row of the table from a query server, again and again, in a thread.

    Attributes:
        wrong: answers that failed, and counts that went back.
    """

    def __init__(self, bench: Bench) -> None:
        job = bench.job
        text = (job.home / "job.sql").read_text()
        topology = for_application(compile_text(text), job.application_id)
        settings = Settings(
            job.application_id, bench.client["bootstrap.servers"], home=str(job.home / "served")
        )
        self._script = Script("job", lambda: text, lambda: (topology, settings))
        self._settings = settings
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._partitions = 0
        self.answers = 0
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def follows(self, partitions: int) -> None:
        """Waits until the server answers from so many state partitions."""
        self._until(lambda: self._partitions == partitions)

    def asked_more_than(self, times: int) -> None:
        """Waits until the server has answered more often."""
        self._until(lambda: self.answers > times)

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            told = f"{self.answers} answers, the last from {self._partitions} partitions"
            assert time.monotonic() < deadline, told
            time.sleep(0.1)

    async def _run(self) -> None:
        plan = Plan(0, ("http://127.0.0.1:1",), 1)
        async with opened([self._script], self._settings, plan, PeerSettings()) as node:
            last: dict[str, int] = {}
            while not self._ended.is_set():
                try:
                    found = await _counts(node)
                except HoldfastError as error:
                    if self.answers:
                        self.wrong.append(str(error))
                else:
                    if found is not None:
                        self.answers += 1
                        self.wrong += [
                            f"{key}: {last[key]}, then {found.get(key)}"
                            for key in last
                            if found.get(key, 0) < last[key]
                        ]
                        last = found
                        self._partitions = node.catalog.tables()["TOTALS"].partitions
                await asyncio.sleep(0.02)


async def _counts(node: Node) -> dict[str, int] | None:
    """The count of each customer; None: the table is not served yet."""
    table = node.catalog.tables().get("TOTALS")
    if table is None:
        return None
    found: dict[str, int] = {}
    for partition in range(table.partitions):
        async with aclosing(node.reader.scan(table, partition)) as parts:
            async for part in parts:
                rows = table.decode(part.keys, part.rows).to_pylist()
                found |= {row["CUSTOMER"]: row["N"] for row in rows if row["__present"]}
    return found


@pytest.fixture
def bench(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Bench]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    made = Bench(client, kafka_topic_name("rs")[-40:], tmp_path)
    yield made
    made.job.stop()


def _records(status: JobStatus) -> int:
    return status.queries[QUERY].records_total


def _goes_on(partitions: int, before: int, status: JobStatus) -> bool:
    """Whether it has so many state partitions, and has counted more than before."""
    return len(status.queries[QUERY].state_partitions) == partitions and _records(status) > before


def test_a_query_is_rescaled_while_records_come_in(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    job, events = bench.job, bench.events
    events.produce(ROUND)
    job.start()
    job.until(lambda s: _records(s) > 0, "the first batch")
    with bench.events.coming_in(), Reading(bench) as reading:
        for wanted in (6, 3):
            assert bench.rescale("--state-partitions", str(wanted)) == 0, capsys.readouterr()
            before = _records(job.until(lambda s: True, "a status"))
            job.until(partial(_goes_on, wanted, before), "batches afterwards")
            reading.follows(wanted)
        reading.asked_more_than(100)
    told = capsys.readouterr().out
    assert not reading.wrong, reading.wrong[:5]
    bench.is_right()
    layout = read_layouts(bench.client, job.application_id)[QUERY]
    assert layout.generation >= 2, "an attempt that failed leaves its generation behind"
    assert layout.state_partitions == 3
    assert f"has 3 state partitions now, in generation {layout.generation}." in told
    admin = Admin(bench.client)
    generations = range(layout.generation + 1)
    made = [changelog_topic(job.application_id, QUERY, g) for g in generations]
    assert all(admin.describe(name) is not None for name in made), "there is a way back"

    job.start()  # state.partitions is what it was: the query goes on with what it was rescaled to
    events.produce(ROUND)
    job.until(lambda s: len(s.queries[QUERY].state_partitions) == 3, "it goes on")
    assert bench.rescale("--confirm") == 0, capsys.readouterr()
    assert [name for name in made if admin.describe(name) is not None] == made[-1:]
    bench.is_right()
