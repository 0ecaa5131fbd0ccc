"""Queries against a real broker: a table's commits are heard once, and streams are read."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from holdfast.config.settings import ServeSettings
from holdfast.errors import PositionLost, Retriable
from holdfast.local.broker import BrokerStatus
from holdfast.serve.queries import Answer, Ask
from holdfast.serve.query import QueryEngine, tails
from holdfast.serve.query.streams import Streams
from holdfast.transport.cluster.admin import Admin
from tests.integration.ingest.topics import add_partitions
from tests.integration.serve.test_node import level, server
from tests.support.jobs.table_job import TableJob, settings_of
from tests.support.serve.served import DictCatalog, DictReader

WAIT_S = 30.0
EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[TableJob]:
    topic = kafka_topic_name("in")
    job = TableJob(settings_of(kafka.bootstrap_servers, f"{topic}-app", tmp_path), topic)
    yield job
    job.close()


@asynccontextmanager
async def engine(job: TableJob, limits: ServeSettings) -> AsyncIterator[QueryEngine]:
    """A server whose stores are restored, and its queries."""
    async with server(job) as node:
        await level(node)
        queries = QueryEngine(node.catalog, node.reader, limits)
        yield queries
        await queries.aclose()


async def heard(answer: Answer, wait_s: float = WAIT_S) -> list[dict[str, Any]]:
    batch = await asyncio.wait_for(anext(answer.batches), wait_s)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


@pytest.mark.parametrize("tail_bytes", [0, 1 << 20])
def test_commits_are_heard_in_order_and_once_also_after_a_restart(
    job: TableJob, tail_bytes: int
) -> None:
    history: dict[str, list[int]] = defaultdict(list)
    told: dict[str, list[int]] = defaultdict(list)

    def commit(number: int) -> dict[int, int]:
        counts = {f"k{(number + i) % 7}": 1 + i for i in range(3)}
        positions = job.commit(counts)
        for key in counts:
            history[key].append(job.written[key])
        return positions

    async def listen(answer: Answer) -> None:
        while any(told[k][-1:] != h[-1:] for k, h in history.items()):
            for row in await heard(answer):
                told[row["ID"]].append(row["N"])

    async def run() -> None:
        limits = ServeSettings(tail_bytes_max=tail_bytes)
        for number in range(3):
            commit(number)
        async with engine(job, limits) as queries:
            sql = "SELECT * FROM counts EMIT CHANGES;"
            answer = await queries.ask(Ask(sql, properties=EARLIEST))
            for number in range(3, 10):
                await asyncio.to_thread(commit, number)
                if number % 2:
                    await listen(answer)
            await listen(answer)
            token = answer.token
            await answer.batches.aclose()  # type: ignore[attr-defined]
        positions = commit(10)
        async with engine(job, limits) as queries:
            again = await queries.ask(Ask(sql, token=token))
            commit(11)
            await listen(again)
            await again.batches.aclose()  # type: ignore[attr-defined]
            asked = Ask("SELECT n FROM counts WHERE id = 'k3';", positions=positions)
            assert (await queries.ask(asked)).rows == [(job.written["k3"],)]

    asyncio.run(run())
    for key, counts in history.items():
        # Of several commits that are read at once the last is told, as after a compaction.
        assert told[key] == sorted(set(told[key]) & set(counts))
        assert told[key][-1] == counts[-1]
    assert sum(map(len, told.values())) > len(told)


def test_streams_are_read_from_their_topics(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str]
) -> None:
    topic, client = kafka_topic_name("s"), {"bootstrap.servers": kafka.bootstrap_servers}
    Admin(client).ensure_topic(topic, 2)
    catalog = DictCatalog(
        "CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t');"
        f"CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');"
    )

    def produce(*numbers: int) -> None:
        producer = Producer(client)
        for n in numbers:
            value = orjson.dumps({"V": n})
            producer.produce(topic, value, f"k{n}", partition=n % 2, timestamp=n)
        producer.flush()

    async def numbers(answer: Answer, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            found += [row["V"] for row in await heard(answer)]
        return sorted(found)

    async def run() -> None:
        reader = DictReader(catalog.table("t"))
        queries = QueryEngine(catalog, reader, streams=Streams(client))
        produce(1, 2, 3)
        counted = await queries.ask(Ask("SELECT COUNT(*) c, SUM(v) s FROM s WHERE v > 1"))
        assert await heard(counted) == [{"C": 2, "S": 5}]
        all_of_it = await queries.ask(Ask("SELECT v FROM s EMIT CHANGES", properties=EARLIEST))
        from_now = await queries.ask(Ask("SELECT v FROM s EMIT CHANGES"))
        assert await numbers(all_of_it, 3) == [1, 2, 3]
        await asyncio.to_thread(produce, 4, 5)
        assert await numbers(all_of_it, 2) == await numbers(from_now, 2) == [4, 5]
        token = from_now.token
        for answer in (all_of_it, from_now):
            await answer.batches.aclose()  # type: ignore[attr-defined]
        await asyncio.to_thread(produce, 6, 7, 8)
        resumed = await queries.ask(Ask("SELECT v FROM s EMIT CHANGES LIMIT 3", token=token))
        assert await numbers(resumed, 3) == [6, 7, 8]
        await asyncio.to_thread(Admin(client).delete_records, {(topic, 0): 4, (topic, 1): 4})
        late = await queries.ask(Ask("SELECT v FROM s EMIT CHANGES", token=token))
        with pytest.raises(PositionLost):
            await numbers(late, 1)
        await queries.aclose()

    asyncio.run(run())


def test_who_listens_to_a_stream_is_told_of_new_partitions_and_misses_nothing(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, client = kafka_topic_name("s"), {"bootstrap.servers": kafka.bootstrap_servers}
    Admin(client).ensure_topic(topic, 1)
    monkeypatch.setattr(tails, "LOOK_S", 0.05)
    catalog = DictCatalog(
        "CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t');"
        f"CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');"
    )

    def add(value: int, partition: int) -> None:
        producer = Producer(client)
        producer.produce(topic, orjson.dumps({"V": value}), b"k", partition=partition)
        producer.flush()

    async def run() -> None:
        queries = QueryEngine(catalog, DictReader(catalog.table("t")), streams=Streams(client))
        answer = await queries.ask(Ask("SELECT v FROM s EMIT CHANGES;"))
        await asyncio.to_thread(add, 1, 0)
        assert await heard(answer) == [{"V": 1}]
        await asyncio.to_thread(add_partitions, kafka.bootstrap_servers, topic, 2)
        await asyncio.to_thread(add, 2, 1)
        with pytest.raises(Retriable, match="S has 2 partitions now, 1 when"):
            await heard(answer)
        resumed = await queries.ask(Ask("SELECT v FROM s EMIT CHANGES;", token=answer.token))
        assert await heard(resumed) == [{"V": 2}]
        await queries.aclose()

    asyncio.run(run())
