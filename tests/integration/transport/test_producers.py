from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Timer

import pytest

from holdfast.errors import (
    CommitUnknown,
    Fenced,
    KafkaUnavailable,
    RecordTooLarge,
    Refused,
    TopicMissing,
)
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.partitioner import murmur2_partition
from holdfast.transport.producer import Producer, TransactionalProducer
from holdfast.transport.reader import Chunk, PartitionReader
from tests.integration.transport.settling import await_settled

TopicNames = Callable[[str], str]


@pytest.fixture(scope="module")
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture(scope="module")
def admin(client: dict[str, str]) -> Admin:
    return Admin(client)


@pytest.fixture
def topic(admin: Admin, kafka_topic_name: TopicNames) -> str:
    return admin.ensure_topic(kafka_topic_name("out"), 2).name


@pytest.fixture
def opened(client: dict[str, str]) -> Iterator[Callable[..., TransactionalProducer]]:
    with ExitStack() as stack:

        def make(transactional_id: str, timeout_ms: int = 20_000) -> TransactionalProducer:
            made = TransactionalProducer(client, transactional_id, timeout_ms)
            producer = stack.enter_context(made)
            producer.init()
            return producer

        yield make


def read(client: dict[str, str], topic: str, partition: int) -> Chunk:
    """All committed records of a topic partition."""
    await_settled(Admin(client), topic)
    reader = PartitionReader(client, topic, partition)
    try:
        start, end = reader.bounds()
        chunks = list(reader.read(start, end, 50_000))
    finally:
        reader.close()
    assert len(chunks) == 1
    return chunks[0]


def test_a_transaction_is_visible_whole_and_its_marker_s_offset_is_known(
    client: dict[str, str], topic: str, opened: Callable[..., TransactionalProducer]
) -> None:
    producer = opened("whole")
    producer.begin()
    producer.send(topic, [0, 1, 0], [b"a", b"b", b"c"], [b"1", b"2", None], [7, 8, 9])
    producer.send_marker(topic, 0, b"marker", b"m")
    offset = producer.commit()
    left, right = read(client, topic, 0), read(client, topic, 1)
    assert list(zip(left.keys, left.values, left.timestamps[:2], strict=False)) == [
        (b"a", b"1", 7),
        (b"c", None, 9),
    ]
    assert left.keys[2] == b"marker"
    assert left.offsets[2] == offset == 2
    assert (right.keys, right.values) == ([b"b"], [b"2"])


def test_without_a_marker_a_commit_has_no_offset(
    topic: str, opened: Callable[..., TransactionalProducer]
) -> None:
    producer = opened("unmarked")
    producer.begin()
    producer.send_marker(topic, 0, b"marker", b"m")
    assert producer.commit() == 0
    producer.begin()
    producer.send(topic, 0, [b"a"], [b"1"], 5)
    assert producer.commit() is None


def test_an_aborted_transaction_is_never_seen(
    client: dict[str, str], topic: str, opened: Callable[..., TransactionalProducer]
) -> None:
    producer = opened("aborted")
    producer.begin()
    producer.send(topic, 0, [b"gone"] * 100, [b"1"] * 100)
    producer.abort()
    producer.begin()
    producer.send(topic, 0, [b"kept"], [b"1"])
    producer.commit()
    assert read(client, topic, 0).keys == [b"kept"]


def test_more_records_than_the_queue_holds_are_all_sent(
    client: dict[str, str], admin: Admin, topic: str
) -> None:
    small = {**client, "queue.buffering.max.messages": "1000"}
    with TransactionalProducer(small, "small-queue") as producer:
        producer.init()
        producer.begin()
        keys: list[bytes | None] = [b"%d" % n for n in range(25_000)]
        values = [None if n % 7 == 0 else b"value of %d" % n for n in range(25_000)]
        times = [1_790_000_000_000 + n for n in range(25_000)]
        producer.send(topic, [0] * len(keys), keys, values, times)
        producer.commit()
    chunk = read(client, topic, 0)
    assert (chunk.keys, chunk.values, chunk.timestamps) == (keys, values, times)


def test_a_zombie_is_fenced_wherever_it_is(
    client: dict[str, str], topic: str, opened: Callable[..., TransactionalProducer]
) -> None:
    early, middle = opened("early"), opened("middle")
    early.begin()
    middle.begin()
    middle.send(topic, 0, [b"zombie"], [b"1"])
    opened("early")
    opened("middle")
    early.send(topic, 0, [b"zombie"], [b"1"])
    early.send_marker(topic, 0, b"marker", b"m")
    for zombie in (early, middle):
        with pytest.raises(Fenced, match=zombie.transactional_id):
            zombie.commit()
        with pytest.raises(Fenced):
            zombie.begin()
    survivor = opened("middle")
    survivor.begin()
    survivor.send(topic, 0, [b"alive"], [b"1"])
    survivor.commit()
    assert read(client, topic, 0).keys == [b"alive"]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_record_that_its_topic_refuses_ends_the_transaction_and_is_named(
    admin: Admin,
    client: dict[str, str],
    topic: str,
    kafka_topic_name: TopicNames,
    opened: Callable[..., TransactionalProducer],
    one_by_one: bool,
) -> None:
    """Also what is queued behind it and is never sent: nobody waits for that."""
    small = admin.ensure_topic(kafka_topic_name("small"), 1, -1, {"max.message.bytes": "2000"}).name
    producer = opened(f"large-{one_by_one}")
    producer.begin()
    producer.send(topic, 0, [b"elsewhere"], [os.urandom(4000)])
    records = [(b"fits", b"1"), (b"large", os.urandom(5000)), (b"behind", b"2")]
    if one_by_one:
        for key, value in records:
            producer.send_one(small, 0, key, value, [])
    else:
        producer.send(small, 0, [k for k, _ in records], [v for _, v in records])
    producer.send_marker(topic, 0, b"marker", b"m")
    told = rf"{small} partition 0 with key b'large' has 5005 bytes.*max\.message\.bytes=2000"
    with pytest.raises(RecordTooLarge, match=told) as error:
        producer.commit()
    assert f"raise max.message.bytes of the topic {small}" in error.value.action
    with pytest.raises(Refused):
        producer.begin()
    successor = opened(f"large-{one_by_one}")
    successor.begin()
    successor.send(small, 0, [b"next"], [b"1"])
    successor.commit()
    assert read(client, small, 0).keys == [b"next"]


def test_a_record_that_the_producer_refuses_is_named(client: dict[str, str], topic: str) -> None:
    with TransactionalProducer(client | {"message.max.bytes": "3000"}, "narrow") as producer:
        producer.init()
        producer.begin()
        told = rf"{topic} partition 1 with key b'b' has 5001 bytes.*message\.max\.bytes=3000"
        with pytest.raises(RecordTooLarge, match=told) as error:
            producer.send(topic, 1, [b"a", b"b"], [b"1", b"x" * 5000])
        assert "set kafka.message.max.bytes=" in error.value.action


def test_records_that_fit_one_by_one_but_not_together_say_so(
    admin: Admin, client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    small = admin.ensure_topic(kafka_topic_name("small"), 1, -1, {"max.message.bytes": "2000"}).name
    keys: list[bytes | None] = [b"%d" % n for n in range(100)]
    values = [os.urandom(500) for _ in keys]
    with TransactionalProducer(client, "together") as producer:
        producer.init()
        producer.begin()
        producer.send(small, 0, keys, values)
        with pytest.raises(RecordTooLarge, match="A batch of records exceeds") as error:
            producer.commit()
        assert "kafka.batch.size=2000" in error.value.action
    with TransactionalProducer(client | {"batch.size": "2000"}, "together") as producer:
        producer.init()
        producer.begin()
        producer.send(small, 0, keys, values)
        producer.commit()
    assert read(client, small, 0).keys == keys


def test_a_full_queue_behind_a_refused_record_is_not_waited_for(
    admin: Admin, client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    small = admin.ensure_topic(kafka_topic_name("small"), 1, -1, {"max.message.bytes": "2000"}).name
    tight = client | {"queue.buffering.max.messages": "20", "batch.size": "2000"}

    def send_and_commit(producer: TransactionalProducer) -> None:
        producer.send(small, 0, [b"large"], [os.urandom(5000)])
        producer.send(small, 0, [b"behind"] * 500, [os.urandom(500)] * 500)
        producer.commit()

    with TransactionalProducer(tight, "full") as producer:
        producer.init()
        producer.begin()
        with pytest.raises(RecordTooLarge, match="with key b'large' has 5005 bytes"):
            send_and_commit(producer)


def test_what_a_wide_topic_takes_the_producer_sends(
    admin: Admin, client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    config = {"max.message.bytes": "3000000"}
    wide = admin.ensure_topic(kafka_topic_name("wide"), 1, -1, config).name
    value = os.urandom(2_900_000)
    with TransactionalProducer(client, "wide") as producer:
        producer.init()
        producer.begin()
        producer.send(wide, 0, [b"k"], [value])
        producer.commit()
    assert read(client, wide, 0).values == [value]


def test_a_topic_partition_that_does_not_exist_is_missing(
    topic: str, opened: Callable[..., TransactionalProducer]
) -> None:
    producer = opened("astray")
    producer.begin()

    def send_and_commit() -> None:  # who notices depends on what the client knows of the topic
        producer.send(topic, 9, [b"a"], [b"1"])
        producer.commit()

    with pytest.raises(TopicMissing, match=f"{topic} partition 9"):
        send_and_commit()


def test_a_stalled_broker_leaves_the_outcome_unknown_and_close_does_not_hang(
    kafka: BrokerStatus, topic: str, opened: Callable[..., TransactionalProducer]
) -> None:
    producer, other = opened("stalled", 3000), opened("stalled-too", 3000)
    for p in (producer, other):
        p.begin()
        p.send(topic, 0, [b"a"], [b"1"])
    other.close()
    producer._client.flush()
    os.kill(kafka.pid, signal.SIGSTOP)
    try:
        with pytest.raises(CommitUnknown, match="in 3 s committing as stalled"):
            producer.commit()
        producer.close()
    finally:
        os.kill(kafka.pid, signal.SIGCONT)
    opened("stalled", 20_000)


def test_taking_a_transactional_id_outlasts_a_broker_that_answers_late(
    client: dict[str, str], kafka: BrokerStatus, topic: str
) -> None:
    with TransactionalProducer(client, "tx-late") as producer:
        os.kill(kafka.pid, signal.SIGSTOP)
        goes_on = Timer(1.0, os.kill, (kafka.pid, signal.SIGCONT))  # after several tries
        goes_on.start()
        try:
            producer.init()
        finally:
            goes_on.join()
        producer.begin()
        producer.send(topic, 0, [b"k"], [b"v"])
        producer.commit()
    assert read(client, topic, 0).values == [b"v"]


def test_a_broker_that_answers_nothing_is_told_after_the_timeout(
    client: dict[str, str], kafka: BrokerStatus
) -> None:
    with TransactionalProducer(client, "tx-never", 2_000) as producer:
        os.kill(kafka.pid, signal.SIGSTOP)
        try:
            with pytest.raises(KafkaUnavailable, match="taking its transactional id"):
                producer.init()
        finally:
            os.kill(kafka.pid, signal.SIGCONT)


def test_records_that_cannot_be_delivered_before_the_commit_abort_it(
    kafka: BrokerStatus,
    client: dict[str, str],
    topic: str,
    opened: Callable[..., TransactionalProducer],
) -> None:
    producer = opened("undelivered", 2000)
    producer.begin()
    os.kill(kafka.pid, signal.SIGSTOP)
    try:
        producer.send(topic, 0, [b"a"], [b"1"])
        with pytest.raises(KafkaUnavailable):
            producer.commit()
    finally:
        os.kill(kafka.pid, signal.SIGCONT)
    opened("undelivered")
    successor = opened("other")
    successor.begin()
    successor.send(topic, 0, [b"b"], [b"1"])
    successor.commit()
    assert read(client, topic, 0).keys == [b"b"]


def test_the_plain_producer_puts_keys_where_java_would(
    client: dict[str, str], admin: Admin, topic: str
) -> None:
    producer = Producer(client)
    keys = [b"key-%d" % n for n in range(200)]
    for n, key in enumerate(keys):
        producer.send(topic, key, b"v", timestamp_ms=1000 + n)
    producer.send(topic, b"placed", None, partition=1)
    producer.flush()
    producer.close()
    for partition in (0, 1):
        chunk = read(client, topic, partition)
        mine = [key for key in keys if murmur2_partition(key, 2) == partition]
        placed = [b"placed"] if partition == 1 else []
        assert chunk.keys == mine + placed
        assert chunk.timestamps[0] == 1000 + keys.index(mine[0])


def test_the_plain_producer_tells_what_it_could_not_deliver(
    client: dict[str, str], admin: Admin, kafka_topic_name: TopicNames
) -> None:
    small = admin.ensure_topic(kafka_topic_name("small"), 1, -1, {"max.message.bytes": "1000"}).name
    producer = Producer(client)
    producer.send(small, b"k", os.urandom(5000))
    with pytest.raises(Refused, match=f"{small} partition 0"):
        producer.flush()
    producer.close()
