"""Topics of the console on a real broker: messages, settings and consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from holdfast.errors import BadRequest, TopicMissing
from holdfast.local.broker import BrokerStatus
from holdfast.serve.console.topics import JobTopic, Look, Topics
from holdfast.transport.cluster.admin import Admin
from tests.integration.transport.settling import await_settled

PARTITIONS = 3


@pytest.fixture
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def topic(client: dict[str, str], kafka_topic_name: Callable[[str], str]) -> JobTopic:
    name = kafka_topic_name("looked-at")
    Admin(client).create_topic(name, PARTITIONS)
    return JobTopic(name, ("source",), ("S",), ((f"{name}-reader", "T"),))


def send(client: dict[str, str], topic: str, count: int, partition: int = 0) -> None:
    """Messages `v0`, `v1`, … in one transaction each: every other offset is a marker."""
    producer = Producer({**client, "transactional.id": f"{topic}-{partition}"})
    producer.init_transactions()
    for number in range(count):
        producer.begin_transaction()
        headers: list[tuple[str, str | bytes | None]]
        headers = [("trace", f"t{number}".encode()), ("raw", b"\xff\x00"), ("none", None)]
        value = f"v{number}".encode()
        at_ms = 1_000 * (number + 1)
        producer.produce(topic, value, b"k", partition=partition, headers=headers, timestamp=at_ms)
        producer.commit_transaction()
    await_settled(Admin(client), topic)


def test_the_newest_messages_come_first_with_their_headers(
    client: dict[str, str], topic: JobTopic
) -> None:
    send(client, topic.name, 10)
    found = asyncio.run(Topics(client).messages(topic, Look(4)))
    assert [m["value"]["text"] for m in found] == ["v9", "v8", "v7", "v6"]
    assert found[0]["at_ms"] == 10_000
    assert dict(found[0]["headers"]) == {
        "trace": {"text": "t9", "bytes": 2},
        "raw": {"hex": "ff 00", "bytes": 2},
        "none": None,
    }


def test_older_messages_of_a_partition_are_those_before_an_offset(
    client: dict[str, str], topic: JobTopic
) -> None:
    send(client, topic.name, 9)

    async def pages() -> list[list[str]]:
        topics, found, before = Topics(client), [], None
        while page := await topics.messages(topic, Look(4, 0, before)):
            found.append([m["value"]["text"] for m in page])
            before = page[-1]["offset"]
        return found

    assert asyncio.run(pages()) == [["v8", "v7", "v6", "v5"], ["v4", "v3", "v2", "v1"], ["v0"]]


def test_large_values_are_cut_and_their_size_is_told(
    client: dict[str, str], topic: JobTopic
) -> None:
    producer = Producer(client)
    producer.produce(topic.name, "é".encode() * 5_000, partition=1)
    producer.flush()
    (found,) = asyncio.run(Topics(client).messages(topic, Look(10, 1)))
    assert found["value"] == {"text": "é" * 2_048, "bytes": 10_000}
    assert found["key"] is None


def test_a_topic_tells_its_settings_and_how_far_its_readers_are(
    client: dict[str, str], topic: JobTopic
) -> None:
    send(client, topic.name, 3)
    admin = Admin(client)

    async def told(expected: int | None) -> None:
        found = await Topics(client).told(topic)
        (group,) = found["groups"]
        assert (group["result"], group["lag"]) == ("T", expected)
        assert found["settings"]["cleanup.policy"] == "delete"
        assert found["partitions"][0] == {"partition": 0, "start": 0, "end": 6}

    asyncio.run(told(None))
    admin.commit_group(f"{topic.name}-reader", topic.name, {0: 4, 1: 0, 2: 0})
    asyncio.run(told(2))


def test_groups_of_other_applications_that_read_it_are_told(
    client: dict[str, str], topic: JobTopic
) -> None:
    send(client, topic.name, 3)
    admin, other = Admin(client), f"{topic.name}-of-another-team"
    admin.commit_group(other, topic.name, {0: 5})
    admin.commit_group(f"{topic.name}-reader", topic.name, {0: 6})
    found = asyncio.run(Topics(client).told(topic))
    (group,) = found["others"]
    assert (group["group"], group["result"], group["committed"]) == (other, "", {"0": 5})
    assert [group["group"] for group in found["groups"]] == [f"{topic.name}-reader"]


def test_what_is_not_there_is_told(client: dict[str, str], topic: JobTopic) -> None:
    missing = JobTopic(f"{topic.name}-missing")

    async def look() -> None:
        topics = Topics(client)
        lines = await topics.listed({t.name: t for t in (topic, missing)})
        assert [(line["exists"], line.get("partitions")) for line in lines] == [
            (True, PARTITIONS),
            (False, None),
        ]
        with pytest.raises(BadRequest, match="no partition 7"):
            await topics.messages(topic, Look(1, 7))
        with pytest.raises(TopicMissing):
            await topics.told(missing)

    asyncio.run(look())
