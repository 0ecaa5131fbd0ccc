"""Rows that their topic does not take: named, of no consequence to others, written once it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from holdfast.errors import RecordTooLarge
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.partitioner import state_partition
from holdfast.transport.reader import PartitionReader
from tests.integration.transport.settling import await_settled
from tests.support.jobs.table_job import TableJob, settings_of

WIDE = {"max.message.bytes": "3000000"}


def keys_of(client: dict[str, str], topic: str) -> list[bytes | None]:
    admin, found = Admin(client), list[bytes | None]()
    await_settled(admin, topic)
    for partition, (start, end) in admin.bounds(topic).items():
        reader = PartitionReader(client, topic, partition)
        found += [key for chunk in reader.read(start, end) for key in chunk.keys]
        reader.close()
    return found


@pytest.mark.parametrize("refusing", ["sink", "changelog"])
def test_a_row_that_is_too_large_is_named_and_costs_no_other_row(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path, refusing: str
) -> None:
    topic = kafka_topic_name("in")
    settings = settings_of(kafka.bootstrap_servers, f"{topic}-app"[-60:], tmp_path)
    client, sink = settings.client(), f"{topic}-counts"
    admin = Admin(client)
    narrow = {"max.message.bytes": "20000", "cleanup.policy": "compact"}
    admin.ensure_topic(sink, 1, -1, narrow if refusing == "sink" else WIDE)
    # In the state partition that commits last.
    digits = (
        Random(1).randbytes(25_000 if refusing == "sink" else 1_200_000).hex()
    )  # no lz4 fits it
    large = next(k for n in range(99) if state_partition((k := f"{n}{digits}").encode(), 2) == 1)
    counts = {f"k{n}": 1 for n in range(20)} | {large: 1}
    others = {k for k in counts if state_partition(k.encode(), 2) == 0}

    job = TableJob(settings, topic)
    refusing_topic = sink if refusing == "sink" else job.changelog
    with pytest.raises(RecordTooLarge, match=f"A record for topic {refusing_topic} ") as error:
        job.commit(counts)
    assert large[:50] in error.value.fact
    assert len(error.value.fact) < 600
    assert f"raise max.message.bytes of the topic {refusing_topic}" in error.value.action
    job.close()
    assert {k.decode() for k in keys_of(client, sink) if k} == others

    TopicSettings(client).alter(refusing_topic, WIDE)
    job = TableJob(settings, topic)
    job.commit(counts)
    job.close()
    assert sorted(k.decode() for k in keys_of(client, sink) if k) == sorted(counts)
