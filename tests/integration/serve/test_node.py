"""One query server's stores against a real broker: following, restarts, lost and cut changelogs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from holdfast.errors import NoHolder, PositionLost, Refused, StoreBehind
from holdfast.local.broker import BrokerStatus
from holdfast.serve.cluster.members import Plan
from holdfast.serve.cluster.peer import PeerSettings
from holdfast.serve.contract import ServedTable, WindowBounds
from holdfast.serve.follow.catalog import Script
from holdfast.serve.follow.local import Terms
from holdfast.serve.node import Node, opened
from holdfast.sql import compile_text
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.reader import PartitionReader
from tests.integration.ingest.topics import add_partitions
from tests.support.jobs.table_job import TableJob, settings_of

WAIT_S = 60.0


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


async def level(node: Node) -> ServedTable:
    """The table, once all of it has been restored."""
    table = await table_of(node)
    await until(lambda: holds_all(node, table))
    return table


async def holds_all(node: Node, table: ServedTable) -> bool:
    states = await node.reader.positions(table)
    return len(states) == table.partitions and not any(s.restoring for s in states.values())


@contextmanager
def capture(name: str) -> Iterator[list[str]]:
    """The lines that a logger is told meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


async def contents(node: Node, table: ServedTable) -> dict[str, int]:
    found: dict[str, int] = {}
    for partition in range(table.partitions):
        async with aclosing(node.reader.scan(table, partition)) as parts:
            async for part in parts:
                rows = table.decode(part.keys, part.rows).to_pylist()
                found |= {row["ID"]: row["N"] for row in rows if row["__present"]}
    return found


def test_a_second_server_of_a_home_is_told_of_the_first(job: TableJob) -> None:
    async def run() -> None:
        async with server(job):
            with pytest.raises(Refused, match=f"runs already: process {os.getpid()} has "):
                async with server(job):
                    pytest.fail("it has started")

    asyncio.run(run())


def test_it_follows_what_is_committed(job: TableJob) -> None:
    async def run() -> None:
        job.commit({f"k{i}": 1 for i in range(100)})
        async with server(job) as node:
            table = await level(node)
            positions = job.commit({"k1": 2, "new": 5})
            await node.reader.await_positions(table, positions, WAIT_S)
            assert await contents(node, table) == dict(job.written)
            keys = [table.key_of(["k1"]), table.key_of(["no"])]
            rows = await node.reader.get(table, keys, at_least=positions)
            assert table.decode(rows.keys, rows.rows)["N"].to_pylist() == [3]
            assert all(not state.restoring for state in rows.states.values())
            with pytest.raises(StoreBehind, match="is asked for"):
                await node.reader.get(table, keys, at_least={0: 10_000, 1: 10_000})

    asyncio.run(run())


def test_after_a_restart_only_the_tail_is_read(job: TableJob) -> None:
    async def run() -> None:
        job.commit({f"k{i}": 1 for i in range(100)})
        async with server(job) as node:
            await level(node)
        positions = job.commit({"k1": 2, "new": 5})
        async with server(job) as node:
            table = await level(node)
            await node.reader.await_positions(table, positions, WAIT_S)
            assert await contents(node, table) == dict(job.written)

    with capture("holdfast.serve.follow.restorer") as told:
        asyncio.run(run())
    assert sum("the store is empty" in line for line in told) == 2
    assert sum("the changelog's tail" in line for line in told) == 2


def test_a_replaced_changelog_is_restored_in_full(job: TableJob) -> None:
    async def run() -> None:
        job.commit({f"k{i}": 1 for i in range(50)})
        async with server(job) as node:
            table = await level(node)
            assert len(await contents(node, table)) == 50
            job.start_anew()
            positions = job.commit({"only": 1})

            async def replaced() -> bool:
                return await contents(node, table) == {"only": 1}

            await until(replaced)
            await node.reader.await_positions(table, positions, WAIT_S)

    asyncio.run(run())


class Follower:
    """Puts a partition together of its contents and changes; each must fit what was there."""

    def __init__(self, node: Node, table: ServedTable, partition: int) -> None:
        self.found: dict[str, int] = {}
        self.at = -1
        self._table = table
        self._changes = node.reader.changes(table, partition, snapshot=True, old=True)

    async def run(self) -> None:
        async for change in self._changes:
            assert change.snapshot or change.position > self.at
            now = values(self._table, change.keys, change.rows)
            assert not (change.snapshot and self.found.keys() & now.keys())
            if change.old is not None:
                before = values(self._table, change.keys, change.old)
                assert {key: self.found.get(key) for key in before} == before
            self.found |= {key: n for key, n in now.items() if n is not None}
            if change.last or not change.snapshot:  # a part of the contents is not yet all of them
                self.at = change.position


def test_rows_of_another_statement_are_not_read_and_not_thrown_away(job: TableJob) -> None:
    async def run() -> None:
        job.commit({"a": 2, "b": 1})
        async with server(job) as node:
            table = await level(node)
            statements, topology = job.sql, job.topology
            changed_sql = statements.replace("COUNT(*) AS n", "SUM(amount) AS n")
            # The text is looked at first, so it changes last.
            job.topology, job.sql = compile_text(changed_sql), changed_sql
            await until(lambda: node.catalog.tables()["COUNTS"] != table)

            async def refused() -> bool:
                try:
                    await node.local.get("COUNTS", {0: [b"a"]}, WindowBounds(), Terms())
                except NoHolder as error:
                    return "another statement" in error.fact
                return False

            await until(refused)
            job.topology, job.sql = topology, statements
            await until(lambda: node.catalog.tables()["COUNTS"] == table)
            assert await contents(node, await level(node)) == {"a": 2, "b": 1}

    with capture("holdfast.serve.follow.restorer") as told:
        asyncio.run(run())
    assert sum("the store is empty" in line for line in told) == 2


def test_contents_and_then_every_change_without_gap_or_double(job: TableJob) -> None:
    async def run() -> None:
        job.commit({f"k{i}": 1 for i in range(3_000)})
        async with server(job) as node:
            table = await level(node)
            followers = [Follower(node, table, p) for p in range(2)]
            reading = [asyncio.create_task(f.run()) for f in followers]
            for number in range(8):
                counts = Counter({f"k{i}": 1 for i in range(number * 100, number * 100 + 500)})
                ends = await asyncio.to_thread(job.commit, counts)
            await until(lambda: any(r.done() for r in reading) or _all_at(followers, ends))
            for task in reading:
                task.cancel()
            ended = await asyncio.gather(*reading, return_exceptions=True)
            assert [type(e) for e in ended] == [asyncio.CancelledError] * 2
            assert followers[0].found | followers[1].found == dict(job.written)

    asyncio.run(run())


def _all_at(followers: Sequence[Follower], ends: Mapping[int, int]) -> bool:
    return all(follower.at >= ends[p] for p, follower in enumerate(followers))


def values(
    table: ServedTable, keys: list[bytes], rows: Sequence[bytes | None]
) -> dict[str, int | None]:
    decoded = table.decode(keys, rows).to_pylist()
    return {row["ID"]: row["N"] if row["__present"] else None for row in decoded}


def test_a_reader_that_was_away_is_told_what_it_missed(job: TableJob) -> None:
    async def run() -> None:
        before = job.commit({f"k{i}": 1 for i in range(50)})
        async with server(job) as node:
            table = await level(node)
            job.commit({"k1": 1, "k2": 1, "k3": 1, "k4": 1})
            after = job.commit({"k1": 1, "new1": 1, "new2": 1})
            await node.reader.await_positions(table, after, WAIT_S)
            told: dict[str, int | None] = {}
            for partition in range(2):
                changes = node.reader.changes(table, partition, since=before[partition])
                async with aclosing(changes), asyncio.timeout(WAIT_S):
                    async for change in changes:
                        told |= values(table, change.keys, change.rows)
                        if change.position >= after[partition]:
                            break
            assert told == {"k1": 3, "k2": 2, "k3": 2, "k4": 2, "new1": 1, "new2": 1}

    asyncio.run(run())


def test_a_compacted_changelog_tells_the_last_of_each_key(job: TableJob) -> None:
    async def run() -> None:
        before = job.commit({"a": 1, "b": 1, "c": 1})
        client = job.settings.client()
        cleaned = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
        TopicSettings(client).alter(job.changelog, cleaned)
        for _ in range(10):
            job.commit({"a": 1, "b": 1})
            await asyncio.sleep(0.02)
        readers = [PartitionReader(client, job.changelog, p) for p in range(2)]

        def records() -> int:
            chunks = (c for r in readers for c in r.read(0, r.bounds()[1]))
            return sum(map(len, chunks))

        written = records()

        async def is_cleaned() -> bool:
            job.commit({"a": 1, "b": 1})  # an append closes a segment whose time is over
            # What is added between two cleanings must be less than the first one takes away.
            await asyncio.sleep(0.5)
            return await asyncio.to_thread(records) < written

        await until(is_cleaned)
        for reader in readers:
            reader.close()
        async with server(job) as node:
            table = await level(node)
            assert await contents(node, table) == dict(job.written)
            after = {p: s.position for p, s in (await node.reader.positions(table)).items()}
            told: dict[str, int | None] = {}
            for partition in range(2):
                changes = node.reader.changes(table, partition, since=before[partition])
                async with aclosing(changes), asyncio.timeout(WAIT_S):
                    async for change in changes:
                        told |= values(table, change.keys, change.rows)
                        if told.items() >= {k: job.written[k] for k in told}.items():
                            break
                    assert change.position <= after[partition]
            assert told == {"a": job.written["a"], "b": job.written["b"]}

    asyncio.run(run())


def test_a_position_that_the_changelog_cannot_tell_of_is_lost(job: TableJob) -> None:
    async def run() -> None:
        before = job.commit({"a": 1, "b": 1, "c": 1})
        async with server(job) as node:
            table = await level(node)
            after = job.commit({"a": 1, "b": 1, "c": 1})
            await node.reader.await_positions(table, after, WAIT_S)
            client = job.settings.client()
            TopicSettings(client).alter(job.changelog, {"cleanup.policy": "compact,delete"})
            Admin(client).delete_records({(job.changelog, 0): after[0]})
            with pytest.raises(PositionLost, match="cannot be told"):
                await anext(node.reader.changes(table, 0, since=before[0]))

    asyncio.run(run())


def test_a_table_over_a_topic_is_its_records(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = kafka_topic_name("users")
    sql = f"""CREATE TABLE users (id STRING PRIMARY KEY, name STRING)
        WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');"""
    settings = settings_of(kafka.bootstrap_servers, f"{topic}-app", tmp_path)
    producer = Producer(settings.client())

    def send(key: str, name: str | None) -> None:
        value = None if name is None else f'{{"NAME":"{name}"}}'.encode()
        producer.produce(topic, value, key.encode(), timestamp=7)
        producer.flush()

    async def run() -> None:
        script = Script("users", lambda: sql, lambda: (compile_text(sql), settings))
        plan = Plan(0, ("http://127.0.0.1:1",), 1)
        async with opened([script], settings, plan, PeerSettings()) as node:
            assert "does not exist yet" in node.catalog.unserved()["USERS"].reason
            Admin(settings.client()).ensure_topic(topic, 3, -1, {"cleanup.policy": "compact"})
            send("a", "Ann")
            send("b", "Bob")
            await until(lambda: "USERS" in node.catalog.tables())
            table = node.catalog.tables()["USERS"]

            async def names() -> dict[str, str]:
                rows = await node.reader.get(table, [table.key_of([k]) for k in "abc"])
                assert set(rows.states) == {0, 1, 2}  # others fill the topic, by any partitioner
                return {r["ID"]: r["NAME"] for r in table.decode(rows.keys, rows.rows).to_pylist()}

            async def are(expected: dict[str, str]) -> bool:
                return await names() == expected

            await until(lambda: are({"a": "Ann", "b": "Bob"}))
            send("a", None)
            send("b", "Ben")
            send("c", "Cy")
            await until(lambda: are({"b": "Ben", "c": "Cy"}))

            add_partitions(kafka.bootstrap_servers, topic, 4)
            other = Producer(settings.client())  # the first one would learn of it much later
            other.produce(topic, b'{"NAME":"Di"}', b"d", partition=3, timestamp=7)
            other.flush()
            await until(lambda: node.catalog.tables()["USERS"].partitions == 4)
            table = node.catalog.tables()["USERS"]
            await until(lambda: holds_all(node, table))
            rows = await node.reader.get(table, [table.key_of([k]) for k in "bd"])
            assert table.decode(rows.keys, rows.rows)["NAME"].to_pylist() == ["Ben", "Di"]

    asyncio.run(run())


def test_windows_are_found_by_their_bounds(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = kafka_topic_name("in")
    settings = settings_of(kafka.bootstrap_servers, f"{topic}-app", tmp_path)
    job = TableJob(settings, topic, "WINDOW TUMBLING (SIZE 1 SECOND)")

    async def run() -> None:
        job.commit({("k", start): start for start in range(1_000, 9_000, 1_000)})
        job.commit({("kk", 2_000): 1})
        async with server(job) as node:
            table = await level(node)
            key = table.key_of(["k"])

            async def starts(within: WindowBounds) -> list[int]:
                rows = await node.reader.get(table, [key], within)
                found: list[int] = table.decode(rows.keys, rows.rows)["WINDOWSTART"].to_pylist()
                return found

            assert await starts(WindowBounds()) == list(range(1_000, 9_000, 1_000))
            assert await starts(WindowBounds(start_from=3_000, start_to=4_500)) == [3_000, 4_000]
            assert await starts(WindowBounds(end_from=8_001)) == [8_000]
            assert await starts(WindowBounds(end_to=2_000)) == [1_000]

    try:
        asyncio.run(run())
    finally:
        job.close()
