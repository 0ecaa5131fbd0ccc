from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from holdfast.config.settings import StateSettings
from holdfast.errors import HoldfastError, KafkaUnavailable, Refused, TopicMissing
from holdfast.local.broker import BrokerStatus
from holdfast.state.changelog import changelog_config
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer, TransactionalProducer
from tests.integration.transport.settling import await_settled

TopicNames = Callable[[str], str]


@pytest.fixture(scope="module")
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture(scope="module")
def admin(client: dict[str, str]) -> Admin:
    return Admin(client)


def test_a_broker_that_falls_silent_tells_no_offsets(
    admin: Admin, client: dict[str, str], kafka: BrokerStatus, kafka_topic_name: TopicNames
) -> None:
    """librdkafka gives -1001 for what it was not told in time, and no error."""
    topic = admin.ensure_topic(kafka_topic_name("t"), 1).name
    impatient = Admin(client, timeout_s=11.0)  # librdkafka gives a connection up after ten
    with TransactionalProducer(client, topic) as producer:
        producer.init()
        producer.begin()
        producer.send(topic, 0, [b"a"], [b"1"])
        producer.deliver()
        silence = threading.Timer(1.0, os.kill, (kafka.pid, signal.SIGSTOP))
        silence.start()
        try:
            with pytest.raises(KafkaUnavailable):
                impatient.await_ended(topic, 0, 60.0)
        finally:
            silence.join()
            os.kill(kafka.pid, signal.SIGCONT)
            admin.wait_ready(30)


def test_brokers_that_answer_are_counted(admin: Admin) -> None:
    assert admin.wait_ready(30) == 1


def test_a_missing_topic_is_made_and_an_existing_one_left_as_it_is(
    admin: Admin, kafka_topic_name: TopicNames
) -> None:
    name = kafka_topic_name("t")
    assert admin.describe(name) is None
    made = admin.ensure_topic(name, 3, config={"cleanup.policy": "compact"})
    assert (made.name, made.partitions, made.replicas) == (name, 3, 1)
    assert admin.ensure_topic(name, 5) == made
    assert admin.config(name)["cleanup.policy"] == "compact"


def test_a_topic_made_anew_has_another_id(admin: Admin, kafka_topic_name: TopicNames) -> None:
    name = kafka_topic_name("t")
    first = admin.ensure_topic(name, 1)
    admin.delete_topic(name)
    assert admin.describe(name) is None
    admin.delete_topic(name)
    assert admin.ensure_topic(name, 1).topic_id != first.topic_id


def test_a_topic_grows_keeps_its_id_and_never_shrinks(
    admin: Admin, kafka_topic_name: TopicNames
) -> None:
    made = admin.ensure_topic(kafka_topic_name("grows"), 2)
    for wanted, partitions in ((3, 3), (3, 3), (1, 3)):
        admin.add_partitions(made.name, wanted)
        found = admin.describe(made.name)
        assert found is not None
        assert (found.partitions, found.topic_id) == (partitions, made.topic_id)
    with pytest.raises(TopicMissing, match="There is no topic"):
        admin.add_partitions(kafka_topic_name("nowhere"), 3)


def test_the_broker_takes_every_setting_of_a_changelog(
    admin: Admin, kafka_topic_name: TopicNames
) -> None:
    wanted = changelog_config(StateSettings(delete_retention_ms=123_456))
    name = admin.ensure_topic(kafka_topic_name("changelog"), 1, config=wanted).name
    assert wanted.items() <= admin.config(name).items()
    assert wanted["delete.retention.ms"] == "123456"
    assert wanted["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("replicas", "config", "hint"),
    [(3, {}, "no more replicas"), (-1, {"nonsense": "1"}, "topic's settings")],
)
def test_a_topic_that_cannot_be_made_says_why(
    admin: Admin,
    kafka_topic_name: TopicNames,
    replicas: int,
    config: dict[str, str],
    hint: str,
) -> None:
    with pytest.raises(Refused, match=hint):
        admin.ensure_topic(kafka_topic_name("t"), 1, replicas, config)


def test_missing_topics_are_named(admin: Admin) -> None:
    for ask in (admin.bounds, admin.end_offsets, admin.high_watermarks, admin.config):
        with pytest.raises(TopicMissing, match="nowhere"):
            ask("nowhere")


def test_bounds_end_before_an_open_transaction(
    admin: Admin, client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    name = admin.ensure_topic(kafka_topic_name("t"), 2).name
    assert admin.bounds(name) == {0: (0, 0), 1: (0, 0)}
    with TransactionalProducer(client, name) as producer:
        producer.init()
        producer.begin()
        producer.send(name, 0, [b"a", b"b"], [b"1", b"2"])
        producer.commit()
        assert await_settled(admin, name)[0] == (0, 3)  # two records and the transaction's end
        producer.begin()
        producer.send(name, 0, [b"c"], [b"3"])
        producer._client.flush()
        assert admin.end_offsets(name) == {0: 3, 1: 0}
        assert admin.high_watermarks(name) == {0: 4, 1: 0}


def test_group_offsets_are_per_topic(admin: Admin, kafka_topic_name: TopicNames) -> None:
    one, two = (admin.ensure_topic(kafka_topic_name(n), 2).name for n in ("one", "two"))
    group = kafka_topic_name("group")
    assert admin.committed(group, one) == {}
    admin.commit_group(group, one, {0: 5, 1: 6})
    admin.commit_group(group, two, {1: 7})
    admin.commit_group(group, one, {0: 8})
    assert admin.committed(group, one) == {0: 8, 1: 6}
    assert admin.committed(group, two) == {1: 7}


def test_records_are_deleted_up_to_an_offset_in_several_topics(
    admin: Admin, client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    names = [admin.ensure_topic(kafka_topic_name("t"), 2).name for _ in range(2)]
    producer = Producer(client)
    for name in names:
        for n in range(10):
            producer.send(name, b"k", b"v", timestamp_ms=1_000 + n, partition=1)
    producer.flush()
    admin.delete_records({(names[0], 1): 4, (names[1], 1): 10})
    assert [admin.bounds(name)[1] for name in names] == [(4, 10), (10, 10)]
    with pytest.raises(HoldfastError):
        admin.delete_records({(names[0], 1): 11})


def test_the_first_offset_at_or_after_a_time(
    admin: Admin, client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    name = admin.ensure_topic(kafka_topic_name("t"), 2).name
    producer = Producer(client)
    for n in range(10):
        producer.send(name, b"k", b"v", timestamp_ms=1_000 + 10 * n, partition=1)
    producer.flush()
    assert admin.first_at(name, 1_035) == {1: 4}
    assert admin.first_at(name, 0) == {1: 0}
    assert admin.first_at(name, 2_000) == {}
