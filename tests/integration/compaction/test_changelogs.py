"""The changelogs made for these tests can be restored."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from holdfast.config.settings import StateSettings
from holdfast.local.broker import BrokerStatus
from holdfast.state import open_table_store
from holdfast.state.restore import restore
from holdfast.transport.reader import PartitionReader
from tests.integration.compaction.changelogs import make_changelog


@pytest.mark.parametrize("windowed", [False, True])
def test_a_store_is_restored_from_a_made_changelog(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], windowed: bool
) -> None:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    app = kafka_topic_name("app")
    made = make_changelog(
        client, app, keys=600, updates=5_000, windowed=windowed, tombstone_share=0.1
    )
    made.close()
    settings = StateSettings(backend="memory")
    for partition in range(made.partitions):
        store = open_table_store(settings, None, app, made.query_id, partition, windowed=windowed)
        report = restore(
            store,
            PartitionReader(client, made.topic, partition),
            made.topic_id,
            now_ms=int(time.time() * 1000),
            delete_retention_ms=settings.delete_retention_ms,
            fingerprint=made.fingerprint,
            batch_records=1_000,
            progress=lambda _: None,
        )
        assert report.records == made.records[partition]
        assert dict(store.scan()) == made.rows[partition]
    live = sum(map(len, made.rows))
    assert 200 < live < 600
    assert sum(made.records) > 5_000
