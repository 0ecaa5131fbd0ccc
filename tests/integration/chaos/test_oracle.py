"""The oracle on a real broker: a job's topics written by hand, right and wrong."""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import pytest

from holdfast.chaos.observe import Observer
from holdfast.chaos.oracle import Oracle, OracleOptions
from holdfast.chaos.verdict import TableVerdict, Verdict
from holdfast.transport.admin import Admin
from holdfast.transport.producer import Producer, TransactionalProducer
from holdfast.types.ids import changelog_topic, consumer_group, progress_topic
from holdfast.types.schema import BIGINT, STRING, Column
from holdfast.types.stores import StoreDigest
from holdfast.types.topology import (
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
from tests.integration.ingest.topics import open_transaction

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

    def read(self, offsets_behind: int = 0) -> None:
        """Writes the input, and says how far the job has read."""
        for i, title in enumerate(TITLES):
            value = json.dumps({"title": title, "ts": i}).encode()
            self.producer.send(self.query.source.topic, None, value, partition=i % 2)
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
        """One update of the table, in sink and changelog."""
        key = title.encode() + (struct.pack(">q", 0) if self.windowed else b"")
        value = json.dumps({"N": count}).encode()
        self.producer.send(self.query.sink.topic, key, value)
        if changelog:
            self.producer.send(self.changelog, b"\x01" + key, b"row", partition=0)
        self.producer.flush()

    def emit_all(self) -> None:
        counts: Counter[str] = Counter()
        for title in TITLES:
            counts[title] += 1
            self.emit(title, counts[title])

    def judged(
        self, catch_up_s: float = 10.0, stores: Mapping[int, StoreDigest] | None = None
    ) -> TableVerdict:
        found = {(self.query.id, p): store for p, store in (stores or {}).items()}
        oracle = Oracle(
            self.application_id,
            Observer(self.client, self.application_id),
            options=OracleOptions(catch_up_s, quiet_s=1.0),
            stores=None if stores is None else lambda: found,
        )
        return oracle.judge(Topology((self.query,))).tables[0]


@pytest.fixture
def servers(kafka: Kafka) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def job(servers: str) -> Iterator[Job]:
    made = Job(servers)
    made.read()
    made.mark()
    yield made
    made.producer.close()


def bad(verdict: TableVerdict) -> dict[str, Verdict]:
    return {f.checker: f.verdict for f in verdict.findings if f.verdict is not Verdict.VALID}


def test_a_right_table_is_valid(job: Job) -> None:
    job.emit_all()
    verdict = job.judged()
    assert bad(verdict) == {}
    assert (verdict.verdict, verdict.input_records, verdict.rows) == (Verdict.VALID, 5, 3)


def test_an_aborted_update_is_not_seen(job: Job) -> None:
    job.emit_all()
    producer = TransactionalProducer(job.client, job.application_id)
    producer.init()
    producer.begin()
    producer.send(job.query.sink.topic, 0, [b"Phantom"], [b'{"N":1}'])
    producer.abort()
    producer.close()
    assert bad(job.judged()) == {}


def test_a_lost_update_is_diverged(job: Job) -> None:
    for title in TITLES[:4]:
        job.emit(title, 1 + (title == "Aliens"))
    assert bad(job.judged())["diverged_values"] is Verdict.INVALID


def test_an_update_written_twice_is_found_though_the_table_ends_right(job: Job) -> None:
    job.emit_all()
    job.emit("Aliens", 3)
    wrong = ("duplicated_updates", "sink_history_legal")
    assert bad(job.judged()) == dict.fromkeys(wrong, Verdict.INVALID)


def test_a_state_partition_that_is_not_level_is_found(job: Job) -> None:
    job.emit_all()
    job.mark(behind=1)
    # The group shows the end, so it claims more than the markers do.
    assert bad(job.judged()) == {"markers_agree": Verdict.INVALID, "group_agrees": Verdict.INVALID}


@pytest.mark.parametrize(
    ("row", "wrong"),
    [(b"row", {}), (b"other", {"stores_agree": Verdict.INVALID})],
)
def test_a_store_is_compared_with_the_changelog(
    job: Job, row: bytes, wrong: dict[str, Any]
) -> None:
    job.emit_all()
    keys = [title.encode() for title in set(TITLES)]
    numbers = (hashlib.sha256(struct.pack(">I", len(k)) + k + row).digest()[:16] for k in keys)
    digest = f"{sum(int.from_bytes(n, 'big') for n in numbers) % 2**128:032x}"
    ends = job.admin.end_offsets(job.changelog)
    first = StoreDigest(job.application_id, job.query.id, 0, len(keys), ends[0], digest)
    second = StoreDigest(job.application_id, job.query.id, 1, 0, ends[1], f"{0:032x}")
    assert bad(job.judged(stores={0: first, 1: second})) == wrong
    unread = {"stores_agree": Verdict.UNKNOWN}
    assert bad(job.judged(stores={0: first})) == (wrong or unread)


def test_a_sink_without_its_changelog_is_found(job: Job) -> None:
    job.emit("Aliens", 3)
    job.emit("Die Hard", 1)
    job.emit("Alien", 1, changelog=False)
    assert bad(job.judged()) == {"changelog_agrees": Verdict.INVALID}


def test_a_transaction_that_stays_open_is_found(job: Job) -> None:
    job.emit_all()
    record = (b"\x01x", b"row")
    producer = open_transaction(job.client["bootstrap.servers"], job.changelog, [record], 1)
    try:
        assert bad(job.judged()) == {"hanging_transactions": Verdict.INVALID}
    finally:
        producer.abort_transaction(30)


def test_a_job_that_has_not_caught_up_is_unknown(servers: str) -> None:
    job = Job(servers)
    job.read(offsets_behind=1)
    job.emit_all()
    verdict = job.judged(catch_up_s=0.5)
    assert bad(verdict) == {"catch_up": Verdict.UNKNOWN}
    assert "3 of 5 input offsets" in verdict.findings[0].fact
    job.producer.close()


@pytest.mark.parametrize(
    ("dropped", "wrong"),
    [
        (0, {"diverged_values": Verdict.INVALID, "late_records": Verdict.INVALID}),
        (1, {}),
        (None, {"diverged_values": Verdict.UNKNOWN}),
    ],
)
def test_a_window_that_misses_late_records(
    servers: str, dropped: int | None, wrong: dict[str, Verdict]
) -> None:
    """Two records of one window are missing; each of two state partitions counts its drops."""
    job = Job(servers, windowed=True)
    job.read()
    job.emit("Aliens", 1)
    job.emit("Die Hard", 1)
    job.emit("Alien", 1)
    job.mark(dropped)
    assert bad(job.judged()) == wrong
    job.producer.close()


@pytest.mark.parametrize(
    ("titles", "wrong"),
    [
        (TITLES, {}),
        (TITLES[1:], {"lost_records": Verdict.INVALID}),
        ([*TITLES, "Alien"], {"duplicated_records": Verdict.INVALID}),
        ([*TITLES, "Shrek"], {"phantom_records": Verdict.INVALID}),
    ],
)
def test_a_stateless_query(servers: str, titles: list[str], wrong: dict[str, Any]) -> None:
    job = Job(servers, stateless=True)
    job.read()
    for title in titles:
        job.producer.send(job.query.sink.topic, None, json.dumps({"TITLE": title}).encode())
    job.mark_sources()
    assert bad(job.judged()) == wrong
    job.producer.close()


def test_a_stateless_query_whose_marker_is_not_at_the_end(servers: str) -> None:
    job = Job(servers, stateless=True)
    job.read()
    for title in TITLES:
        job.producer.send(job.query.sink.topic, None, json.dumps({"TITLE": title}).encode())
    job.mark_sources(behind=1)
    wrong = dict.fromkeys(("markers_agree", "group_agrees"), Verdict.INVALID)
    assert bad(job.judged()) == wrong
    job.producer.close()


def test_a_statement_the_judge_does_not_know_is_unknown_with_the_reason(job: Job) -> None:
    statement = "CREATE TABLE t AS SELECT title, MY_OWN(ts) AS n FROM s GROUP BY title;"
    job.query = replace(job.query, statement=statement)
    verdict = job.judged()
    assert verdict.verdict is Verdict.UNKNOWN
    assert "MY_OWN" in verdict.findings[0].fact
