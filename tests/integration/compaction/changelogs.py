"""Genuine changelogs made fast: rows, keys, markers and transactions as the engine writes them.

    make_changelog(client, "app", "ctas_t", partitions=2, keys=50_000, updates=2_000_000)

writes 2 M updates of 50 k keys in well under a minute, and returns what a restore must find.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.config.settings import StateSettings
from holdfast.sql import compile_text
from holdfast.state.changelog import MARKER_KEY, CommitMarker, changelog_config, data_key
from holdfast.tasks.aggregates.registry import bind
from holdfast.tasks.evaluate.keys import window_key
from holdfast.tasks.pack.rows import RowCodec
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.partitioner import PARTITIONER, state_partition
from holdfast.transport.producer import TransactionalProducer
from holdfast.types.ids import OffsetRange, changelog_topic, state_transactional_id
from holdfast.types.statements.topology import AggregateStep, Query
from holdfast.types.status import (
    ExecutorStatus,
    JobState,
    JobStatus,
    PartitionStatus,
    QueryStatus,
    status_path,
)

__all__ = ["HOUR_MS", "MadeChangelog", "make_changelog"]

HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS
_START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
_BATCH = 20_000  # rows of one transaction
_WINDOWS = 12  # of each key, an hour each
_SQL = """
CREATE STREAM s (title VARCHAR, n BIGINT) WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT title, COUNT(*) AS c, SUM(n) AS total FROM s {window}
  GROUP BY title EMIT CHANGES;
"""
_WINDOW = "WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS, RETENTION 24 HOURS)"


@dataclass
class MadeChangelog:
    """Owns the producers of one changelog, and knows what a restore must find.

    Attributes:
        rows: of each state partition, by state key.
        records: data records written to each, commit markers included.
        ends: the offset after each one's last record, as a store's position has it.
        stream_time_ms: of the next commit marker.
    """

    client: Mapping[str, str]
    application_id: str
    query: Query
    query_id: str
    topic: str
    topic_id: str
    partitions: int
    source: str
    rows: list[dict[bytes, bytes]]
    records: list[int]
    ends: list[int]
    stream_time_ms: int = _START_MS
    batch: int = 0
    _producers: list[TransactionalProducer] = field(default_factory=list)

    @property
    def fingerprint(self) -> str:
        return self.query.fingerprint()

    def commit(self, partition: int, rows: Mapping[bytes, bytes | None]) -> None:
        """One transaction of one state partition: its rows, by state key, and its marker."""
        producer = self._producer(partition)
        producer.begin()
        keys = [data_key(key) for key in rows]
        producer.send(self.topic, partition, keys, list(rows.values()))
        producer.send_marker(self.topic, partition, MARKER_KEY, self._marker(partition).to_bytes())
        offset = producer.commit()
        assert offset is not None
        self.ends[partition] = offset + 1
        self.records[partition] += len(rows) + 1
        self.batch += 1
        for key, value in rows.items():
            if value is None:
                self.rows[partition].pop(key, None)
            else:
                self.rows[partition][key] = value

    def status(self, *, state: JobState = JobState.STOPPED, executors: int = 1) -> JobStatus:
        """The status file that a driver of this table would write."""
        step = self.query.step
        assert isinstance(step, AggregateStep)
        partitions = tuple(
            PartitionStatus(p, rows=len(rows), position=self.ends[p], changelog_end=self.ends[p])
            for p, rows in enumerate(self.rows)
        )
        return JobStatus(
            self.application_id,
            state=state,
            updated_ms=int(time.time() * 1000),
            executors=tuple(ExecutorStatus(str(n)) for n in range(executors)),
            queries={
                self.query_id: QueryStatus(
                    sink="T",
                    sink_topic="T",
                    changelog=self.topic,
                    state_partitions=partitions,
                    window_retention_ms=step.window.retention_ms if step.window else 0,
                )
            },
        )

    def write_status(self, home: Path) -> None:
        """Where a driver with that home would write it."""
        self.status().write(status_path(home, self.application_id))

    def close(self) -> None:
        """Leave the broker; `commit` comes back."""
        for producer in self._producers:
            producer.close()
        self._producers.clear()

    def _producer(self, partition: int) -> TransactionalProducer:
        if not self._producers:
            for p in range(self.partitions):
                name = state_transactional_id(self.application_id, self.query_id, p)
                self._producers.append(TransactionalProducer(self.client, name))
                self._producers[-1].init()
        return self._producers[partition]

    def _marker(self, partition: int) -> CommitMarker:
        read = self.records[partition]
        return CommitMarker(
            format_version=1,
            application_id=self.application_id,
            query_id=self.query_id,
            state_partition=partition,
            state_partitions=self.partitions,
            partitioner=PARTITIONER,
            fingerprint=self.query.fingerprint(),
            canonical=self.query.canonical(),
            source=OffsetRange.of(self.source, {partition: 0}, {partition: read}),
            stream_time_ms=self.stream_time_ms,
            batch_id=self.batch,
            records=read,
        )


def make_changelog(
    client: Mapping[str, str],
    application_id: str,
    query_id: str = "ctas_t",
    *,
    partitions: int = 2,
    keys: int = 1_000,
    updates: int = 10_000,
    windowed: bool = False,
    expired_share: float = 0.5,
    tombstone_share: float = 0.0,
    config: Mapping[str, str] | None = None,
    seed: int = 1,
) -> MadeChangelog:
    """Make the topic and write it; the producers stay open until `close`.

    Args:
        keys: rows that are ever written; windowed: keys times windows.
        updates: all of them, each key about equally often, in random order.
        expired_share: of a windowed table's rows, those whose windows are past retention in the
            end; they left by tombstone, as the engine does it.
        tombstone_share: of any table's rows, those that are deleted in the end.
        config: topic settings over those of a new changelog.
    """
    made = _opened(client, application_id, query_id, partitions, windowed, config)
    names = _state_keys(keys, windowed)
    shares = _by_partition(names, partitions, windowed)
    chance = np.random.default_rng(seed)
    for partition, mine in enumerate(shares):
        _update(made, partition, mine, round(updates * len(mine) / len(names)), chance)
    if windowed:
        made.stream_time_ms = _START_MS + RETENTION_MS + round(_WINDOWS * expired_share) * HOUR_MS
    for partition, mine in enumerate(shares):
        gone = _expired(mine, made.stream_time_ms) if windowed else []
        gone += random.Random(seed).sample(mine, int(len(mine) * tombstone_share))
        if gone or windowed:
            made.commit(partition, dict.fromkeys(gone))
    return made


def _opened(
    client: Mapping[str, str],
    application_id: str,
    query_id: str,
    partitions: int,
    windowed: bool,
    config: Mapping[str, str] | None,
) -> MadeChangelog:
    source = f"{application_id}-in"
    text = _SQL.format(source=source, window=_WINDOW if windowed else "")
    (query,) = compile_text(text).queries
    admin = Admin(client)
    admin.ensure_topic(source, partitions)
    topic = changelog_topic(application_id, query_id)
    settings = changelog_config(StateSettings()) | dict(config or {})
    return MadeChangelog(
        client=client,
        application_id=application_id,
        query=query,
        query_id=query_id,
        topic=topic,
        topic_id=admin.ensure_topic(topic, partitions, -1, settings).topic_id,
        partitions=partitions,
        source=source,
        rows=[{} for _ in range(partitions)],
        records=[0] * partitions,
        ends=[0] * partitions,
    )


def _state_keys(keys: int, windowed: bool) -> list[bytes]:
    if not windowed:
        return [b"title-%d" % n for n in range(keys)]
    return [
        window_key(b"title-%d" % (n // _WINDOWS), _START_MS + n % _WINDOWS * HOUR_MS)
        for n in range(keys)
    ]


def _by_partition(names: Sequence[bytes], partitions: int, windowed: bool) -> list[list[bytes]]:
    shares: list[list[bytes]] = [[] for _ in range(partitions)]
    for name in names:
        shares[state_partition(name[:-8] if windowed else name, partitions)].append(name)
    return shares


def _expired(names: Sequence[bytes], stream_time_ms: int) -> list[bytes]:
    before = stream_time_ms - RETENTION_MS
    return [n for n in names if int.from_bytes(n[-8:], "big", signed=True) < before]


def _update(
    made: MadeChangelog,
    partition: int,
    names: Sequence[bytes],
    updates: int,
    chance: np.random.Generator,
) -> None:
    """`updates` rows: all keys in random order, again and again; a batch has a key only once."""
    step = made.query.step
    assert isinstance(step, AggregateStep)
    codec = RowCodec([t for call in step.aggregates for t in bind(call).state])
    size = max(1, min(_BATCH, (len(names) + 1) // 2))
    written = 0
    while names and written < updates:
        for batch in np.split(chance.permutation(len(names)), range(size, len(names), size)):
            picked = np.sort(batch[: updates - written])
            counts = np.full(len(picked), written + 1, np.int64)
            totals = chance.integers(0, 1 << 30, len(picked))
            rowtime = np.full(len(picked), made.stream_time_ms + written, np.int64)
            rows = codec.encode(rowtime, [pa.array(counts), pa.array(totals)])
            made.commit(partition, {names[n]: row for n, row in zip(picked, rows, strict=True)})
            written += len(picked)
            if written >= updates:
                return
