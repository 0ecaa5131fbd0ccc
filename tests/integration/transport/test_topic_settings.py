from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.chaos.targets.kubernetes.scripts import BROKERS
from holdfast.errors import KafkaUnavailable, Refused, TopicMissing
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.log_dirs import log_sizes
from holdfast.transport.cluster.topic_settings import SettingValue, TopicSettings
from holdfast.transport.cluster.view import ClusterView
from holdfast.transport.idempotent_producer import Producer

TopicNames = Callable[[str], str]
NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture(scope="module")
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture(scope="module")
def settings(client: dict[str, str]) -> TopicSettings:
    return TopicSettings(client)


@pytest.fixture
def topic(client: dict[str, str], kafka_topic_name: TopicNames) -> str:
    name = kafka_topic_name("t")
    Admin(client).ensure_topic(name, 2, config={"cleanup.policy": "compact"})
    return name


def test_a_setting_says_whose_it_is(settings: TopicSettings, topic: str) -> None:
    found = settings.of([topic])[topic]
    assert found["cleanup.policy"] == SettingValue("compact", "topic")
    assert found["min.cleanable.dirty.ratio"] == SettingValue("0.5", "default")
    assert found["retention.ms"] == SettingValue("-1", "file")  # log.retention.ms of the broker
    (broker,) = settings.of_brokers().values()
    assert broker["log.cleaner.threads"] == SettingValue("1", "file")


def test_one_setting_changes_and_the_others_stay(settings: TopicSettings, topic: str) -> None:
    settings.alter(topic, {"segment.ms": "1000", "delete.retention.ms": "5"})
    settings.alter(topic, {"segment.ms": "2000"})
    found = settings.of([topic])[topic]
    assert found["segment.ms"] == SettingValue("2000", "topic")
    assert found["delete.retention.ms"] == SettingValue("5", "topic")
    assert found["cleanup.policy"] == SettingValue("compact", "topic")


def test_a_removed_setting_gives_way_to_the_default(settings: TopicSettings, topic: str) -> None:
    settings.alter(topic, {"segment.ms": "1000"})
    settings.alter(topic, {"segment.ms": None, "cleanup.policy": None})
    found = settings.of([topic])[topic]
    assert found["segment.ms"] == SettingValue("604800000", "default")
    assert found["cleanup.policy"] == SettingValue("delete", "default")
    settings.alter(topic, {"segment.ms": None})  # nothing to remove is fine


def test_nothing_is_no_change(settings: TopicSettings) -> None:
    settings.alter("no-such-topic", {})
    assert settings.of([]) == {}


def test_a_missing_topic_is_told(settings: TopicSettings) -> None:
    with pytest.raises(TopicMissing, match="no-such-topic"):
        settings.of(["no-such-topic"])
    with pytest.raises(TopicMissing, match="no-such-topic"):
        settings.alter("no-such-topic", {"segment.ms": "1000"})


@pytest.mark.parametrize("change", [{"segment.ms": "-5"}, {"segment.mss": "5"}])
def test_what_the_broker_does_not_take_is_refused(
    settings: TopicSettings, topic: str, change: dict[str, str]
) -> None:
    with pytest.raises(Refused, match=r"segment\.ms"):
        settings.alter(topic, change)


def test_a_log_has_the_size_of_its_files(client: dict[str, str], topic: str) -> None:
    producer = Producer(client)
    producer.send(topic, b"key", b"x" * 5_000, partition=1)
    producer.flush()
    (folder,) = log_sizes(client, [topic, "no-such-topic"]).dirs
    assert folder.bytes[topic, 0] == 0
    assert 0 < folder.bytes[topic, 1] < 10_000
    assert folder.total_bytes > folder.free_bytes > 0


def test_many_topics_are_asked_about_at_once(
    client: dict[str, str], topic: str, kafka_topic_name: TopicNames
) -> None:
    other = kafka_topic_name("other")
    Admin(client).ensure_topic(other, 1)
    producer = Producer(client)
    producer.send(topic, b"a", b"1", timestamp_ms=1_000, partition=0)
    producer.send(topic, b"b", b"2", timestamp_ms=2_000, partition=0)
    producer.flush()
    view = ClusterView(client)
    _, names = view.cluster()
    assert {topic, other} <= set(names)
    states = view.topics([topic, other])
    assert [len(states[name].partitions) for name in (topic, other)] == [2, 1]
    assert states[topic].partitions[0].replicas == states[topic].partitions[0].in_sync == (1,)
    places = [(topic, 0), (topic, 1), (other, 0)]
    assert view.starts(places) == dict.fromkeys(places, 0)
    assert view.ends(places) == {(topic, 0): 2, (topic, 1): 0, (other, 0): 0}
    assert view.newest(places)[topic, 0].timestamp_ms == 2_000
    since = view.since(dict.fromkeys(places, 1_500))
    assert (since[topic, 0].offset, since[topic, 1].offset) == (1, -1)


def test_brokers_that_are_away_are_waited_for_no_longer_than_was_said() -> None:
    with pytest.raises(KafkaUnavailable):
        ClusterView(NOBODY, timeout_s=1).cluster()
    with pytest.raises(KafkaUnavailable):
        TopicSettings(NOBODY, timeout_s=1).alter("t", {"segment.ms": "1000"})


def test_a_job_s_pod_can_ask_where_the_brokers_are(client: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "properties.yaml").write_text(
        f"bootstrap.servers: {client['bootstrap.servers']}\n", encoding="utf-8"
    )
    told = subprocess.run(
        [sys.executable, "-m", BROKERS, str(tmp_path / "properties.yaml")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.split() == [client["bootstrap.servers"]]
