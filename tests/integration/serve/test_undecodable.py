"""A served table over a topic that others fill, with records that cannot be decoded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.settings import Settings
from holdfast.local.broker import BrokerStatus
from holdfast.serve.cluster.members import Plan
from holdfast.serve.cluster.peer import PeerSettings
from holdfast.serve.contract import ServedTable
from holdfast.serve.follow.catalog import Script
from holdfast.serve.node import Node, opened
from holdfast.sql import compile_text
from holdfast.transport.idempotent_producer import Producer
from tests.integration.ingest import topics
from tests.integration.serve.test_node import holds_all, until
from tests.support.jobs.table_job import settings_of

DECLARED = (
    "CREATE TABLE people (id STRING PRIMARY KEY, age {type}) "
    "WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');"
)
WAIT_S = 60.0


@asynccontextmanager
async def server(settings: Settings, sql: str) -> AsyncIterator[tuple[Node, ServedTable]]:
    """A server that has restored the table."""
    script = Script("job", lambda: sql, lambda: (compile_text(sql), settings))
    plan = Plan(0, ("http://127.0.0.1:1",), 1)
    async with opened([script], settings, plan, PeerSettings()) as node:
        await until(lambda: "PEOPLE" in node.catalog.tables())
        table = node.catalog.tables()["PEOPLE"]
        await until(lambda: holds_all(node, table))
        yield node, table


async def contents(node: Node, table: ServedTable) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with aclosing(node.reader.scan(table, 0)) as parts:
        async for part in parts:
            rows = table.decode(part.keys, part.rows).to_pylist()
            found |= {row["ID"]: row["AGE"] for row in rows if row["__present"]}
    return found


async def undecodable(node: Node, table: ServedTable) -> int:
    return (await node.reader.positions(table))[0].undecodable


@pytest.fixture
def topic(kafka: BrokerStatus) -> str:
    return topics.create(kafka.bootstrap_servers)


@pytest.fixture
def settings(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Settings:
    return settings_of(kafka.bootstrap_servers, kafka_topic_name("app"), tmp_path)


def send(settings: Settings, topic: str, *records: tuple[str, bytes | None]) -> dict[int, int]:
    """Sends them to topic partition 0; returns the position after them."""
    producer = Producer(settings.client())
    for key, value in records:
        producer.send(topic, key.encode(), value, partition=0)
    producer.flush()
    end = topics.end(settings.bootstrap_servers, topic)
    return {0: end}


def test_a_key_keeps_its_row_when_its_next_record_cannot_be_decoded(
    settings: Settings, topic: str
) -> None:
    sql = DECLARED.format(topic=topic, type="INT")
    send(
        settings, topic,
        *((f"restored{n}", b'{"age": %d}' % n) for n in range(5)),
        ("restored0", b'{"age": "old"}'), ("restored1", b"\xff"), ("restored2", None),
        ("restored3", b"null"), ("never", b"no JSON"),
    )  # fmt: skip

    async def run() -> None:
        async with server(settings, sql) as (node, table):
            assert await contents(node, table) == {
                "restored0": 0, "restored1": 1, "restored4": 4,
            }  # fmt: skip
            assert await undecodable(node, table) == 3
            at = send(
                settings, topic,
                ("followed", b'{"age": 7}'), ("followed", b"[7]"), ("restored4", b'{"age": 1e99}'),
                ("restored1", b'{"age": 11}'),
            )  # fmt: skip
            await node.reader.await_positions(table, at, WAIT_S)
            wanted = {"restored0": 0, "restored1": 11, "restored4": 4, "followed": 7}
            assert await contents(node, table) == wanted
            assert await undecodable(node, table) == 5
        at = send(settings, topic, ("followed", b"{"))
        async with server(settings, sql) as (node, table):
            await node.reader.await_positions(table, at, WAIT_S)
            assert await contents(node, table) == wanted
            assert await undecodable(node, table) == 1, "of the tail, which is all that was read"

    asyncio.run(run())


def test_a_push_query_hears_nothing_of_what_cannot_be_decoded(
    settings: Settings, topic: str
) -> None:
    sql = DECLARED.format(topic=topic, type="INT")
    start = send(settings, topic, ("a", b'{"age": 1}'), ("b", b'{"age": 2}'))[0]

    async def run() -> None:
        async with server(settings, sql) as (node, table):
            at = send(settings, topic, ("a", b"bad"), ("c", b"bad"), ("b", b'{"age": 3}'))
            await node.reader.await_positions(table, at, WAIT_S)
            async with aclosing(node.reader.changes(table, 0, since=start)) as changes:
                change = await asyncio.wait_for(anext(changes), WAIT_S)
            assert change.keys == [b"b"]

    asyncio.run(run())


def test_another_declaration_reads_the_topic_anew(settings: Settings, topic: str) -> None:
    """Its rows were left out by a declaration that was wrong, and the store has none of them."""
    send(settings, topic, ("a", b'{"age": "many"}'), ("b", b'{"age": 2}'))

    async def run() -> None:
        async with server(settings, DECLARED.format(topic=topic, type="INT")) as (node, table):
            assert await contents(node, table) == {"b": 2}
        async with server(settings, DECLARED.format(topic=topic, type="STRING")) as (node, table):
            assert await contents(node, table) == {"a": "many", "b": "2"}
            assert await undecodable(node, table) == 0

    asyncio.run(run())
