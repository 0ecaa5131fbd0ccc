"""COUNT_DISTINCT of many values under one key, on a real broker: in one row they would not fit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import orjson
import pyarrow as pa
import pytest

from holdfast.config.settings import Settings
from holdfast.errors import RecordTooLarge
from holdfast.judge.read.changelog_fold import ChangelogFold
from holdfast.local.broker import BrokerStatus
from holdfast.runtime.topics import ensure_topics
from holdfast.sql import compile_text
from holdfast.state.digest import content
from holdfast.state.volume import claim
from holdfast.tasks.plan import Batch, QueryPlan, Whereabouts
from holdfast.tasks.state_task import StateTask
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import OffsetRange, changelog_topic
from holdfast.types.statements.topology import OFFSET, PARTITION, TIMESTAMP, TOMBSTONE, Query
from tests.integration.transport.settling import await_settled
from tests.support.jobs.packed import packed_table
from tests.support.jobs.table_job import settings_of

VALUES, BATCHES = 300_000, 10
STATEMENTS = """
CREATE STREAM "{topic}" (id STRING KEY, v {kind})
  WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE kinds WITH (KAFKA_TOPIC='{topic}-kinds') AS
  SELECT id, COUNT_DISTINCT(v) AS n, COUNT(*) AS c FROM "{topic}" GROUP BY id;
"""


class _Job:
    """One state partition; batches are given, not read."""

    def __init__(self, settings: Settings, query: Query) -> None:
        self.settings, self.query = settings, query
        self.changelog = changelog_topic(settings.application_id, query.id)
        self._batch = 0

    @contextmanager
    def task(self, volume: Path) -> Iterator[StateTask]:
        """The state task with its store on that volume."""
        admin = Admin(self.settings.client())
        ensure_topics(admin, self.settings, self.query)
        info = admin.describe(self.changelog)
        assert info is not None
        plan = QueryPlan(self.settings, self.query, info.name, info.topic_id, 1, str(volume))
        claimed = claim(volume, expected=1, wait_s=5.0)
        task = StateTask(plan, 0, claimed, Whereabouts("test", 0, os.getpid(), 0))
        try:
            task.open()
            yield task
        finally:
            task.close()
            claimed.release()

    def commit(self, task: StateTask, columns: dict[str, list[object]]) -> int:
        """One batch of keys and values; returns by how many offsets the changelog has grown."""
        before, rows = task.position, len(columns["ID"])
        kind = self.query.source.columns[1].type.arrow()
        places = range(self._batch * 1_000_000, self._batch * 1_000_000 + rows)
        batch = pa.record_batch(
            {
                "ID": pa.array(columns["ID"], pa.string()),
                "V": pa.array(columns["V"], kind),
                PARTITION: pa.array([0] * rows, pa.int32()),
                OFFSET: pa.array(places, pa.int64()),
                TIMESTAMP: pa.array([1] * rows, pa.int64()),
                TOMBSTONE: pa.array([False] * rows),
            }
        )
        start = self._batch * 1_000_000
        offsets = OffsetRange.of(self.query.source.topic, {0: start}, {0: start + 1_000_000})
        task.process(Batch(self._batch, offsets), packed_table(self.query, [batch]))
        self._batch += 1
        return task.position - before

    def results(self) -> dict[bytes, dict[str, int]]:
        """The last result of each key."""
        client, topic = self.settings.client(), self.query.sink.topic
        admin, found = Admin(client), dict[bytes, dict[str, int]]()
        await_settled(admin, topic)
        for partition, (start, end) in admin.bounds(topic).items():
            reader = PartitionReader(client, topic, partition)
            for chunk in reader.read(start, end):
                for key, value in zip(chunk.keys, chunk.values, strict=True):
                    found[key or b""] = orjson.loads(value or b"{}")
            reader.close()
        return found

    def folded(self) -> tuple[int, str, int]:
        """Rows, digest and elements of the changelog, as the judge reads them."""
        fold, client = ChangelogFold([0]), self.settings.client()
        await_settled(Admin(client), self.changelog)
        reader = PartitionReader(client, self.changelog, 0)
        for chunk in reader.read(*reader.bounds()):
            for record in zip(chunk.keys, chunk.values, chunk.offsets, strict=True):
                fold.update(0, *record)
        reader.close()
        found = fold.partitions()[0]
        return found.rows, found.digest, fold.elements().total()


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Callable[[str], _Job]:
    def made(kind: str) -> _Job:
        topic = kafka_topic_name("in")
        servers, application_id = kafka.bootstrap_servers, f"{topic}-app"[-60:]
        settings = settings_of(servers, application_id, tmp_path, partitions=1)
        query = compile_text(STATEMENTS.format(topic=topic, kind=kind)).queries[0]
        Admin(settings.client()).ensure_topic(topic, 1, -1, {})
        return _Job(settings, query)

    return made


def test_many_distinct_values_under_one_key_are_counted_and_restored_exactly(
    job: Callable[[str], _Job], tmp_path: Path
) -> None:
    many, size = job("BIGINT"), VALUES // BATCHES
    grown = []
    with many.task(tmp_path / "one") as task:
        for n in range(BATCHES):
            new, old = range(n * size, (n + 1) * size), range(0, n * size, 97)
            values: list[object] = [*new, *old]
            grown.append(many.commit(task, {"ID": ["k"] * len(values), "V": values}))
        kept = content(task.store)
    # The new values, the row, the commit marker, and the end of the transaction.
    assert set(grown) <= {size + 2, size + 3}
    assert many.results()[b"k"]["N"] == VALUES
    assert many.folded() == (*kept, VALUES)

    with many.task(tmp_path / "two") as task:  # which is empty
        assert content(task.store) == kept == (1, kept[1])
        again: list[object] = [*range(0, VALUES, 3), VALUES, VALUES]
        assert many.commit(task, {"ID": ["k"] * len(again), "V": again}) <= 4
    assert many.results()[b"k"]["N"] == VALUES + 1
    with many.task(tmp_path / "one") as task:  # which is behind
        assert content(task.store) == many.folded()[:2]


def test_values_and_keys_that_are_huge_and_limits_that_are_lowered(
    job: Callable[[str], _Job], tmp_path: Path
) -> None:
    texts = job("STRING")
    huge = "x" * 5_000_000
    with texts.task(tmp_path / "one") as task:
        values: list[object] = [huge, None, "", huge, huge + "y", None]
        texts.commit(task, {"ID": ["k"] * 6, "V": values})
    assert texts.results() == {b"k": {"N": 3, "C": 6}}

    long = Random(1).randbytes(600_000).hex()  # no lz4 fits it
    batch: dict[str, list[object]] = {"ID": [long, "k"], "V": ["a", "b"]}
    with (
        texts.task(tmp_path / "one") as task,
        pytest.raises(RecordTooLarge, match=rf"topic {texts.changelog} .*=1048588 of"),
    ):
        texts.commit(task, batch)
    assert texts.results() == {b"k": {"N": 3, "C": 6}}, "a batch is committed whole or not at all"

    settings = TopicSettings(texts.settings.client())
    for topic in (texts.changelog, texts.query.sink.topic):
        settings.alter(topic, {"max.message.bytes": "3000000"})
    texts._batch = 1
    with texts.task(tmp_path / "one") as task:
        texts.commit(task, batch)
        settings.alter(texts.changelog, {"max.message.bytes": "900000"})
        with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes=900000 of"):
            texts.commit(task, {"ID": [long], "V": ["c"]})
    texts._batch = 2
    with texts.task(tmp_path / "one") as task:
        texts.commit(task, {"ID": ["k"], "V": ["c"]})
    assert texts.results() == {b"k": {"N": 5, "C": 8}, long.encode(): {"N": 1, "C": 1}}
