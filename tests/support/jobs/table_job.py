"""A job without Spark: state tasks that commit given counts, as the real ones do."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.config.settings import Settings, StateSettings
from holdfast.runtime.topics import ensure_topics
from holdfast.sql import compile_text
from holdfast.state.volume import claim
from holdfast.tasks.plan import Batch, QueryPlan, Whereabouts
from holdfast.tasks.state_task import StateTask
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.partitioner import state_partition
from holdfast.types.ids import OffsetRange, changelog_topic
from holdfast.types.statements.topology import Query, Topology

__all__ = ["STATEMENTS", "TableJob", "settings_of"]

STATEMENTS = """
CREATE STREAM {topic} (id STRING KEY, amount BIGINT)
  WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE counts WITH (KAFKA_TOPIC='{topic}-counts') AS
  SELECT id, COUNT(*) AS n FROM {topic} {window} GROUP BY id;
"""
Key = str | tuple[str, int]  # with the start of its window, ms


def settings_of(bootstrap: str, application_id: str, home: Path, partitions: int = 2) -> Settings:
    """Small settings for a test."""
    return Settings(
        application_id,
        bootstrap,
        home=str(home),
        transaction_timeout_ms=10_000,
        state=replace(StateSettings(), partitions=partitions, dir=str(home / "state")),
    )


class TableJob:
    """Owns the state tasks of the table COUNTS."""

    def __init__(self, settings: Settings, topic: str, window: str = "") -> None:
        """Makes the topics and opens the tasks.

        Args:
            topic: of the stream; also the stream's name.
            window: a WINDOW clause.
        """
        name = f'"{topic}"'
        self.sql = STATEMENTS.format(topic=topic, window=window)
        self.sql = self.sql.replace(f"STREAM {topic}", f"STREAM {name}")
        self.sql = self.sql.replace(f"FROM {topic}", f"FROM {name}")
        self.settings = settings
        self.topology: Topology = compile_text(self.sql)
        self.query: Query = self.topology.queries[0]
        self.written: Counter[Key] = Counter()
        self._batch = 0
        self._volume = claim(Path(settings.state.dir), expected=1, wait_s=5.0)
        self._tasks = self._opened()

    @property
    def changelog(self) -> str:
        return changelog_topic(self.settings.application_id, self.query.id)

    def _opened(self) -> list[StateTask]:
        settings, admin = self.settings, Admin(self.settings.client())
        ensure_topics(admin, settings, self.query)
        info = admin.describe(self.changelog)
        assert info is not None
        plan = QueryPlan(settings, self.query, info.name, info.topic_id, 1, settings.state.dir)
        where = Whereabouts("test", self._volume.ordinal, os.getpid(), 0)
        tasks = [StateTask(plan, p, self._volume, where) for p in range(settings.state.partitions)]
        for task in tasks:
            task.open()
        return tasks

    def commit(self, counts: Mapping[Any, int]) -> dict[int, int]:
        """One batch: adds to the counts, by `Key`; returns positions by state partition."""
        start = self._batch * 1_000
        offsets = OffsetRange.of(self.query.source.topic, {0: start}, {0: start + 1_000})
        parts: dict[int, dict[Key, int]] = defaultdict(dict)
        for key, count in counts.items():
            plain = key if isinstance(key, str) else key[0]
            parts[state_partition(plain.encode(), len(self._tasks))][key] = count
        for partition, task in enumerate(self._tasks):
            task.process(Batch(self._batch, offsets), self._payload(task, parts[partition]))
        self.written.update(counts)
        self._batch += 1
        return {partition: task.position for partition, task in enumerate(self._tasks)}

    def _payload(self, task: StateTask, counts: Mapping[Key, int]) -> pa.Table:
        pairs = [key if isinstance(key, tuple) else (key, 0) for key in counts]
        now_ms = int(time.time() * 1000)
        columns = {
            "__key": [key.encode() for key, _ in pairs],
            "__window": [start for _, start in pairs],
            "__n": list(counts.values()),
            "__ts": [start or now_ms for _, start in pairs],
            "p0_0": list(counts.values()),
        }
        names = task.schema.names
        return pa.table({n: columns[n] for n in names}, schema=task.schema)

    def start_anew(self) -> None:
        """Deletes the changelog, the stores and all counts, and begins with a new changelog."""
        for task in self._tasks:
            task.close()
        admin = Admin(self.settings.client())
        admin.delete_topic(self.changelog)
        for partition in range(self.settings.state.partitions):
            application = self.settings.application_id
            self._volume.delete_store(application, self.query.id, partition)
        self.written.clear()
        self._batch = 0
        self._tasks = self._opened()

    def close(self) -> None:
        for task in self._tasks:
            task.close()
        self._volume.release()
