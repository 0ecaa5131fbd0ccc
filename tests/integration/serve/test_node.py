"""One query server's stores against a real broker: following, restarts, lost and cut changelogs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from holdfast.errors import NoHolder, StoreBehind
from holdfast.local.broker import BrokerStatus
from holdfast.serve.cluster.members import Plan
from holdfast.serve.cluster.peer import PeerSettings
from holdfast.serve.contract import ServedTable
from holdfast.serve.follow.catalog import Script
from holdfast.serve.node import Node, opened
from tests.table_job import TableJob, settings_of

WAIT_S = 30.0


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[TableJob]:
    topic = kafka_topic_name("in")
    job = TableJob(settings_of(kafka.bootstrap_servers, f"{topic}-app", tmp_path), topic)
    yield job
    job.close()


@asynccontextmanager
async def server(job: TableJob) -> AsyncIterator[Node]:
    script = Script("job", lambda: job.sql, lambda: (job.topology, job.settings))
    plan = Plan(0, ("http://127.0.0.1:1",), 1)
    async with opened([script], job.settings, plan, PeerSettings()) as node:
        yield node


async def until(true: Callable[[], Awaitable[bool] | bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                found = true()
                if found if isinstance(found, bool) else await found:
                    return
            except (NoHolder, StoreBehind):
                pass
            await asyncio.sleep(0.01)


async def table_of(node: Node) -> ServedTable:
    await until(lambda: "COUNTS" in node.catalog.tables())
    return node.catalog.tables()["COUNTS"]


async def contents(node: Node, table: ServedTable) -> dict[str, int]:
    found: dict[str, int] = {}
    for partition in range(table.partitions):
        async with aclosing(node.reader.scan(table, partition)) as parts:
            async for part in parts:
                rows = table.decode(part.keys, part.rows).to_pylist()
                found |= {row["ID"]: row["N"] for row in rows if row["__present"]}
    return found


def test_it_follows_what_is_committed(job: TableJob) -> None:
    async def run() -> None:
        job.commit({f"k{i}": 1 for i in range(100)})
        async with server(job) as node:
            table = await table_of(node)
            positions = job.commit({"k1": 2, "new": 5})
            await until(lambda: _holds(node, table))
            await node.reader.await_positions(table, positions, WAIT_S)
            assert await contents(node, table) == dict(job.written)
            rows = await node.reader.get(table, [table.key_of(["k1"]), table.key_of(["no"])])
            assert table.decode(rows.keys, rows.rows)["N"].to_pylist() == [3]
            assert all(not state.restoring for state in rows.states.values())

    asyncio.run(run())


async def _holds(node: Node, table: ServedTable) -> bool:
    states = await node.reader.positions(table)
    return len(states) == table.partitions and not any(s.restoring for s in states.values())
