from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from holdfast.config.settings import StateSettings
from holdfast.errors import ChangelogLost, StoreAhead
from holdfast.local.broker import BrokerStatus
from holdfast.state import open_table_store
from holdfast.state.changelog import MARKER_KEY, changelog_config, data_key
from holdfast.state.progress import RestoreProgressFile, restoring
from holdfast.state.restore import RestoreProgress, RestoreReport, restore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.state.volume import Volume, claim
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from tests.integration.transport.settling import await_settled
from tests.unit.state.changelog_model import FINGERPRINT, marker

SETTINGS = StateSettings()


@pytest.fixture(scope="module")
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    volume = claim(tmp_path / "state", expected=1, wait_s=0)
    yield volume
    volume.release()


class Changelog:
    """A real changelog topic and the producer that owns state partition 0."""

    def __init__(self, client: dict[str, str], topic: str) -> None:
        self.client = client
        self.admin = Admin(client)
        self.topic = topic
        self.batches = 0
        self.make()

    def make(self) -> None:
        config = changelog_config(SETTINGS)
        self.topic_id = self.admin.ensure_topic(self.topic, 1, -1, config).topic_id
        self.producer = TransactionalProducer(self.client, self.topic)
        self.producer.init()

    def remake(self) -> None:
        self.producer.close()
        self.admin.delete_topic(self.topic)
        self.make()

    def commit(self, rows: dict[bytes, bytes | None]) -> int:
        self.send(rows)
        payload = marker(self.batches).to_bytes()
        self.producer.send_marker(self.topic, 0, MARKER_KEY, payload)
        offset = self.producer.commit()
        assert offset is not None
        self.batches += 1
        await_settled(self.admin, self.topic)
        return offset

    def abort(self, rows: dict[bytes, bytes | None]) -> None:
        self.send(rows)
        self.producer._client.flush()
        self.producer.abort()
        await_settled(self.admin, self.topic)

    def send(self, rows: dict[bytes, bytes | None]) -> None:
        self.producer.begin()
        self.producer.send(self.topic, 0, [data_key(k) for k in rows], list(rows.values()))

    def delete_records_before(self, offset: int) -> None:
        """Deletes records like time-based retention; brokers refuse it for compacted topics."""
        policy = ConfigEntry("cleanup.policy", "compact,delete")
        policy.incremental_operation = AlterConfigOpType.SET
        resource = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[policy])
        kafka = self.admin._client
        kafka.incremental_alter_configs([resource])[resource].result()
        deadline = time.monotonic() + 20
        while True:
            (cut,) = kafka.delete_records([TopicPartition(self.topic, 0, offset)]).values()
            try:
                cut.result()
            except KafkaException:  # the new policy is on its way to the partition
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return

    def restore(
        self,
        table: TableStore,
        progress: Callable[[RestoreProgress], None] = lambda _: None,
        batch_records: int = 1000,
    ) -> RestoreReport:
        reader = PartitionReader(self.client, self.topic, 0)
        try:
            return restore(
                table,
                reader,
                self.topic_id,
                now_ms=int(time.time() * 1000),
                delete_retention_ms=SETTINGS.delete_retention_ms,
                fingerprint=FINGERPRINT,
                batch_records=batch_records,
                progress=progress,
            )
        finally:
            reader.close()


@pytest.fixture
def log(client: dict[str, str], kafka_topic_name: Callable[[str], str]) -> Iterator[Changelog]:
    log = Changelog(client, kafka_topic_name("changelog"))
    yield log
    log.producer.close()


@pytest.fixture(params=["memory", "rocksdb"])
def opened(request: pytest.FixtureRequest, volume: Volume) -> Iterator[Callable[[], TableStore]]:
    stores: list[TableStore] = []

    def make() -> TableStore:
        for store in stores:
            store.close()
        settings = StateSettings(backend=request.param)
        store = open_table_store(settings, volume, "app", "q", 0, windowed=False)
        stores.append(store)
        return store

    yield make
    for store in stores:
        store.close()


def rows(n: int, value: bytes = b"v") -> dict[bytes, bytes | None]:
    return {b"%06d" % k: value for k in range(n)}


def test_a_store_lost_entirely_comes_back_from_the_changelog(
    log: Changelog, opened: Callable[[], TableStore]
) -> None:
    log.commit(rows(3000))
    log.abort(rows(500, b"aborted"))
    log.commit({**rows(1000, b"w"), b"000000": None, b"002999": None})
    log.abort({b"x": b"aborted"})  # the changelog ends with what nobody will ever read
    table = opened()
    report = log.restore(table)
    assert (report.full, report.records) == (True, 4003)
    expected = {**rows(3000), **rows(1000, b"w")}
    del expected[b"000000"], expected[b"002999"]
    assert dict(table.scan()) == expected
    assert table.rows == 2998
    assert table.marker == marker(1)
    assert table.position is not None
    assert table.position.offset == log.admin.end_offsets(log.topic)[0]
    assert log.restore(table).records == 0


def test_a_store_behind_replays_only_what_it_missed(
    log: Changelog, opened: Callable[[], TableStore]
) -> None:
    log.commit(rows(2000))
    table = opened()
    log.restore(table)
    log.commit({b"000001": None, b"new": b"1"})
    report = log.restore(table)
    assert (report.full, report.records) == (False, 3)
    assert table.rows == 2000
    assert table.get_many([b"000001", b"new", b"000002"]) == [None, b"1", b"v"]


def test_a_store_written_by_the_commit_itself_is_level(
    log: Changelog, opened: Callable[[], TableStore]
) -> None:
    offset = log.commit({b"a": b"1"})
    table = opened()
    position = StorePosition(log.topic_id, offset + 1, int(time.time() * 1000), FINGERPRINT)
    table.apply([b"a"], [b"1"], created=[b"a"], removed=0, position=position, marker=marker(0))
    report = log.restore(table)
    assert (report.full, report.records) == (False, 0)


def test_a_topic_deleted_and_made_anew_is_noticed(
    log: Changelog, opened: Callable[[], TableStore]
) -> None:
    log.commit(rows(10))
    table = opened()
    log.restore(table)
    old_id = log.topic_id
    log.remake()
    log.commit(rows(20))
    with pytest.raises(StoreAhead, match=f"{re.escape(old_id)}.*{re.escape(log.topic_id)}"):
        log.restore(table)
    table.wipe()
    assert log.restore(table).full
    assert table.rows == 20


def test_a_retention_set_by_hand_that_deletes_records_is_noticed(
    log: Changelog, opened: Callable[[], TableStore]
) -> None:
    log.commit(rows(10))
    table = opened()
    log.restore(table)
    log.commit(rows(10))
    log.delete_records_before(15)
    for _ in range(2):
        with pytest.raises(ChangelogLost, match="starts at offset 15, not 0"):
            log.restore(table)
        table.wipe()


RESTORER = """
import sys
from pathlib import Path
from tests.integration.state.test_restore import SETTINGS, Changelog
from holdfast.state import open_table_store
from holdfast.state.volume import claim

client, topic, root = {"bootstrap.servers": sys.argv[1]}, sys.argv[2], Path(sys.argv[3])
table = open_table_store(SETTINGS, claim(root, 1, 5), "app", "q", 0, windowed=False)

def told(progress):
    print(progress.position, flush=True)
    sys.stdin.readline()

Changelog(client, topic).restore(table, told)
"""


def test_a_restore_killed_half_way_goes_on_near_where_it_was(
    log: Changelog, tmp_path: Path
) -> None:
    large = rows(10_000, b"v" * 4_000)  # ten times what waits in memory, which a kill takes
    log.commit(large)
    root = tmp_path / "killed"
    command = [sys.executable, "-c", RESTORER, log.client["bootstrap.servers"]]
    command += [log.topic, str(root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as restorer:
        assert restorer.stdin is not None
        assert restorer.stdout is not None
        reached = 0
        for _ in range(6):
            reached = int(restorer.stdout.readline())
            restorer.stdin.write("\n")
            restorer.stdin.flush()
        while len(list(root.rglob("*.sst"))) < 2:  # files are written one after the other
            time.sleep(0.01)
        restorer.kill()
    volume = claim(root, 1, 5)
    assert volume.ordinal == 0
    table = open_table_store(SETTINGS, volume, "app", "q", 0, windowed=False)
    assert not table.counted
    report = log.restore(table)
    assert report.reason == "continuing an unfinished restore"
    assert reached < 10_001
    assert 0 < report.records < 10_001
    assert dict(table.scan()) == large
    assert table.rows == 10_000
    table.close()
    volume.release()


def test_a_restore_is_seen_from_outside(log: Changelog, volume: Volume) -> None:
    log.commit(rows(5000))
    table = open_table_store(SETTINGS, volume, "app", "q", 0, windowed=False)
    seen: list[RestoreProgress] = []
    with RestoreProgressFile(volume.root, "app", "q", 0) as file:

        def both(progress: RestoreProgress) -> None:
            file(progress)
            seen.extend(store.progress for store in restoring(volume.root))

        log.restore(table, both)
    assert seen
    assert seen[0].records == 1000
    assert seen[0].end == 5002
    assert restoring(volume.root) == []
    table.close()
