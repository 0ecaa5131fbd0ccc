"""A job that never ran, on a real broker: its topics are written by hand, right or wrong."""

from __future__ import annotations

import json
import struct
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from holdfast.chaos.load.workload import HEADER
from holdfast.judge.oracle import Oracle, OracleOptions
from holdfast.judge.read.observe import Observer
from holdfast.judge.verdict import TableVerdict
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.types.columns.schema import BIGINT, STRING, Column
from holdfast.types.ids import changelog_topic, consumer_group, progress_topic
from holdfast.types.statements.topology import (
    AggregateStep,
    ProjectStep,
    Query,
    Sink,
    Source,
    TimestampSpec,
    Topology,
    Window,
    WindowKind,
)
from holdfast.types.stores import StoreDigest

__all__ = ["HOUR", "TITLES", "Job", "Kafka"]

HOUR = 3_600_000
TITLES = ["Aliens", "Die Hard", "Aliens", "Alien", "Aliens"]


class Kafka(Protocol):
    bootstrap_servers: str


class Job:
    """A job that never ran: its topics hold what a right one would have written."""

    def __init__(self, servers: str, *, windowed: bool = False, stateless: bool = False) -> None:
        self.client = {"bootstrap.servers": servers}
        self.application_id = f"app-{uuid.uuid4().hex[:8]}"
        self.windowed = windowed
        self.query = self._query(stateless)
        name = progress_topic if stateless else changelog_topic
        self.changelog = name(self.application_id, self.query.id)
        self.admin = Admin(self.client)
        self.producer = Producer(self.client)
        for topic in (self.query.source.topic, self.query.sink.topic, self.changelog):
            self.admin.ensure_topic(topic, 2)

    def _query(self, stateless: bool) -> Query:
        name = f"t{uuid.uuid4().hex[:8]}"
        title = Column("TITLE", STRING)
        window = "WINDOW TUMBLING (SIZE 1 HOUR)" if self.windowed else ""
        select = f"SELECT title, COUNT(*) AS n FROM s {window} GROUP BY title"
        keys: tuple[Column, ...] = (title,)
        values: tuple[Column, ...] = (Column("N", BIGINT),)
        if stateless:
            select, keys, values = "SELECT title FROM s", (), (title,)
        lengths = Window(WindowKind.TUMBLING, HOUR, HOUR, 0, 24 * HOUR)
        step = AggregateStep((), lengths if self.windowed else None, (), ())
        return Query(
            id=f"q_{name}",
            statement=f"CREATE TABLE {name} AS {select} EMIT CHANGES;",
            source=Source(
                "S", "STREAM", f"{name}-in", (), (title, Column("TS", BIGINT)),
                timestamp=TimestampSpec("TS"),
            ),
            filter=None,
            step=ProjectStep((), ()) if stateless else step,
            sink=Sink(name.upper(), "TABLE", name, keys, values),
        )  # fmt: skip

    def read(self, offsets_behind: int = 0, run: str = "run") -> None:
        """Writes the input as a workload does, and says how far the job has read."""
        for i, title in enumerate(TITLES):
            value = json.dumps({"title": title, "ts": i}).encode()
            header: dict[str, str | bytes | None] = {HEADER: f"{run}/{i}".encode()}
            self.producer.send(
                self.query.source.topic, None, value, partition=i % 2, headers=header
            )
        self.producer.flush()
        group, topic = consumer_group(self.application_id, self.query.id), self.query.source.topic
        ends = self.admin.end_offsets(topic)
        self.admin.commit_group(group, topic, {p: e - offsets_behind for p, e in ends.items()})

    def mark(self, dropped_late: int | None = 0, behind: int = 0) -> None:
        """Both state partitions' commit markers, at the end of the input or short of it."""
        ends = self.admin.end_offsets(self.query.source.topic)
        for partition in range(2):
            end = [[p, e - behind * partition] for p, e in ends.items()]
            marker: dict[str, Any] = {"source": {"end": end}}
            if dropped_late is not None:
                marker["dropped_late"] = dropped_late
            value = json.dumps(marker).encode()
            self.producer.send(self.changelog, b"\x00holdfast", value, partition=partition)
        self.producer.flush()

    def mark_sources(self, behind: int = 0) -> None:
        """A stateless query's commit markers, the second one short of the end by `behind`."""
        for partition, end in self.admin.end_offsets(self.query.source.topic).items():
            key = b"\x00holdfast.commit.%d" % partition
            value = json.dumps({"offset": end - behind * partition}).encode()
            self.producer.send(self.changelog, key, value, partition=partition)
        self.producer.flush()

    def emit(self, title: str, count: int, changelog: bool = True) -> None:
        """One update of the table, in sink and changelog, at its newest record's event time."""
        key = title.encode() + (struct.pack(">q", 0) if self.windowed else b"")
        value = json.dumps({"N": count}).encode()
        times = [at for at, each in enumerate(TITLES) if each == title] or [0]
        newest = times[min(count, len(times)) - 1]
        self.producer.send(self.query.sink.topic, key, value, timestamp_ms=max(newest, 1))
        if changelog:
            self.producer.send(self.changelog, b"\x01" + key, b"row", partition=0)
        self.producer.flush()

    def emit_all(self) -> None:
        counts: Counter[str] = Counter()
        for title in TITLES:
            counts[title] += 1
            self.emit(title, counts[title])

    def judged(
        self, catch_up_s: float = 10.0, stores: Mapping[int, Sequence[StoreDigest]] | None = None
    ) -> TableVerdict:
        found = {(self.query.id, p): store for p, store in (stores or {}).items()}
        oracle = Oracle(
            self.application_id,
            Observer(self.client, self.application_id),
            options=OracleOptions(catch_up_s, quiet_s=1.0),
            stores=None if stores is None else lambda: found,
        )
        return oracle.judge(Topology((self.query,))).tables[0]
