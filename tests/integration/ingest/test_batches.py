"""Planning and reading batches of a real topic: `Planner`, `kafka_ranges`, `read`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import DataLoss, TopicReplaced
from holdfast.ingest.planner import Planner, bounds_of
from holdfast.ingest.ranges import KafkaRange, kafka_ranges
from holdfast.ingest.reading import read
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.types.columns.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Base,
    Column,
    SqlType,
)
from holdfast.types.ids import Place
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import META_COLUMNS, Source, TimestampSpec
from tests.integration.ingest import topics

COLUMNS = (Column("CUSTOMER", STRING), Column("AMOUNT", DOUBLE))
WHEN_MS = 1_600_000_000_000


@pytest.fixture
def servers(kafka: BrokerStatus) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def options(servers: str) -> Callable[..., IngestOptions]:
    def make(topic: str, **changes: Any) -> IngestOptions:
        source = Source(
            "PAYMENTS", "STREAM", topic, (Column("ID", STRING),), (*COLUMNS, Column("TS", BIGINT))
        )
        return IngestOptions(
            **{
                "source": source,
                "kafka": {"bootstrap.servers": servers},
                "columns": ("ID", "AMOUNT"),
                "transactional_id_prefix": f"app-{topic}",
                **changes,
            }
        )

    return make


def payment(i: int) -> tuple[bytes | None, bytes | None]:
    document = {"customer": f"c{i % 7}", "amount": i + 0.5, "ts": 1_700_000_000_000 + i}
    return b"k%d" % i, json.dumps(document).encode()


def payments(count: int) -> list[tuple[bytes | None, bytes | None]]:
    return [payment(i) for i in range(count)]


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def bounded(options: IngestOptions, start: dict[int, int] | None = None) -> list[tuple[Any, ...]]:
    """All rows from `start`, or from where the log starts."""
    bounds = bounds_of(options)
    starts = {place: low for place, (low, _) in bounds.items()}
    starts |= {(options.source.topic, p): offset for p, offset in (start or {}).items()}
    ranges = kafka_ranges(options, starts, {place: high for place, (_, high) in bounds.items()})
    return rows_of([batch for each in ranges for batch in read(options, each)])


class Batches:
    """Plans and reads one batch after the other, as a query does."""

    def __init__(self, options: IngestOptions, begin: dict[int, int] | None = None) -> None:
        self.options = options
        self.at: dict[Place, int] = {
            (options.source.topic, p): offset for p, offset in (begin or {}).items()
        }
        self._planner = Planner(options)

    def next(self) -> list[tuple[int, int]]:
        """The places of the next batch's records."""
        planned = self._planner.plan(self.at)
        ranges = kafka_ranges(self.options, self.at, planned.end)
        self.at = planned.end
        rows = rows_of([batch for each in ranges for batch in read(self.options, each)])
        return [(row[-4], row[-3]) for row in rows]


def test_a_range_gives_wanted_and_meta_columns(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers, partitions=3)
    topics.produce(servers, topic, payments(3), partition=0, timestamp=1_600_000_000_000)
    tombstones = [(b"gone", None), (None, b'{"amount": "2.5"}')]
    topics.produce(servers, topic, tombstones, partition=2, timestamp=1_600_000_000_007)
    given = options(topic)
    ends = {place: high for place, (_, high) in bounds_of(given).items()}
    ranges = kafka_ranges(given, dict.fromkeys(ends, 0), ends)
    assert ranges == [KafkaRange(0, 0, 3), KafkaRange(2, 0, 2)], "none of an empty partition"
    (batch,) = read(given, ranges[0])
    assert batch.schema.names == ["ID", "AMOUNT", *META_COLUMNS]
    assert [str(t) for t in batch.schema.types] == [
        "string", "double", "int32", "int64", "int64", "bool",
    ]  # fmt: skip
    assert bounded(given) == [
        ("k0", 0.5, 0, 0, 1_600_000_000_000, False),
        ("k1", 1.5, 0, 1, 1_600_000_000_000, False),
        ("k2", 2.5, 0, 2, 1_600_000_000_000, False),
        ("gone", None, 2, 0, 1_600_000_000_007, True),
        (None, 2.5, 2, 1, 1_600_000_000_007, False),
    ]


def test_a_range_keeps_to_its_offsets(servers: str, options: Callable[..., IngestOptions]) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, payments(20))
    (batch,) = read(options(topic), KafkaRange(0, 5, 8))
    assert batch["__offset"].to_pylist() == [5, 6, 7]
    (again,) = read(options(topic), KafkaRange(0, 2, 4))  # a reader that is kept goes back
    assert again["__offset"].to_pylist() == [2, 3]


def test_batches_take_their_limit_and_every_record_once(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers, partitions=3)
    for partition, count in ((0, 60), (2, 40)):
        # One time for all: a batch ends between two record times if it can.
        topics.produce(servers, topic, payments(count), partition=partition, timestamp=WHEN_MS)
    batches = Batches(options(topic, max_offsets_per_trigger=10), {0: 0, 1: 0, 2: 0})
    found = [batches.next() for _ in range(11)]
    assert [len(batch) for batch in found] == [10] * 10 + [0]
    expected = [(0, i) for i in range(60)] + [(2, i) for i in range(40)]
    assert sorted(place for batch in found for place in batch) == expected


def test_a_query_goes_on_where_it_ended_and_finds_new_partitions(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers, partitions=1)
    topics.produce(servers, topic, payments(30))
    first = Batches(options(topic), {0: 10})
    assert first.next() == [(0, i) for i in range(10, 30)]
    topics.add_partitions(servers, topic, 2)
    topics.produce(servers, topic, payments(5), partition=0)
    topics.produce(servers, topic, payments(5), partition=1)
    second = Batches(options(topic), {0: 30})
    assert second.next() == [(0, i) for i in range(30, 35)], "a new partition joins with nothing"
    assert second.next() == [(1, i) for i in range(5)], "it begins at its start"


def test_aborted_and_open_transactions_stay_invisible(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers)
    topics.transaction(servers, topic, payments(3))  # 0-2, marker 3
    topics.transaction(servers, topic, payments(3), commit=False)  # 4-6, marker 7
    held = topics.open_transaction(servers, topic, payments(2))  # 8-9
    batches = Batches(options(topic), {0: 0})
    assert batches.next() == [(0, 0), (0, 1), (0, 2)]
    assert batches.next() == []
    topics.end_transaction(servers, topic, held)
    assert batches.next() == [(0, 8), (0, 9)]


def test_lost_offsets_fail_with_topic_partition_wanted_and_available(
    servers: str, options: Callable[..., IngestOptions], caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, payments(20))
    topics.delete_records(servers, topic, 0, 15)
    told = rf"{topic} no longer .*partition 0: wanted 3, available 15 to 20[\s\S]*fail.on.data.loss"
    with pytest.raises(DataLoss, match=told):
        Batches(options(topic), {0: 3}).next()
    lenient = options(topic, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        assert Batches(lenient, {0: 3}).next() == [(0, offset) for offset in range(15, 20)]
    assert f"DATA LOSS in topic {topic} partition 0: offsets 3 to 20" in caplog.text


def test_a_topic_made_anew_is_data_loss(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, payments(5))
    with pytest.raises(DataLoss, match=r"partition 0: wanted 500, available 0 to 5"):
        Batches(options(topic), {0: 500}).next()


def test_what_is_lost_while_it_is_read_ends_the_read(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, payments(9))
    topics.delete_records(servers, topic, 0, 4)
    batches = Batches(options(topic))
    assert batches.next() == []
    assert batches.at == {(topic, 0): 4}, "it joins with nothing taken"
    assert batches.next() == [(0, offset) for offset in range(4, 9)]
    topics.delete_records(servers, topic, 0, 6)  # what a batch has once begun must be there
    with pytest.raises(DataLoss, match=r"offset 4 is wanted[\s\S]*fail.on.data.loss=false"):
        list(read(options(topic), KafkaRange(0, 4, 9)))


def test_a_topic_made_anew_with_more_records_than_before_is_noticed(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, payments(5))
    admin = Admin({"bootstrap.servers": servers})
    known = admin.look(topic)
    batches = Batches(replace(options(topic), topic_id=known.topic_id), {0: 5})
    assert batches.next() == []
    admin.delete_topic(topic)
    admin.ensure_topic(topic, len(known.bounds), -1, {})
    topics.produce(servers, topic, payments(9))
    now = admin.look(topic)
    assert now.topic_id != known.topic_id
    assert sum(high for _, high in now.bounds.values()) == 9
    with pytest.raises(
        TopicReplaced, match=re.escape(f"has the id {now.topic_id}, it had {known.topic_id}")
    ):
        batches.next()


def test_event_time_comes_from_the_named_column(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, [*payments(2), (b"none", b'{"ts": null}'), (b"gone", None)])
    letters = topics.create(servers)
    given = options(topic, dead_letter_topic=letters, progress_topic=topics.create(servers))
    given = replace(given, source=replace(given.source, timestamp=TimestampSpec("TS")))
    found = bounded(given)
    assert [r[0] for r in found] == ["k0", "k1", "gone"]
    assert [r[-2] for r in found[:2]] == [1_700_000_000_000, 1_700_000_000_001]
    [letter] = topics.letters(servers, letters)
    assert letter.headers["holdfast.reason"] == "event time TS is null"


EVERY_TYPE = {
    "BOOL": (BOOLEAN, "true", True),
    "INT": (INTEGER, "-7", -7),
    "BIG": (BIGINT, "9007199254740993", 9007199254740993),
    "DBL": (DOUBLE, "1", 1.0),
    "DEC": (SqlType(Base.DECIMAL, 6, 2), "12.5", Decimal("12.50")),
    "STR": (STRING, '"\u00e9"', "é"),
    "BYT": (SqlType(Base.BYTES), '"AAE="', b"\x00\x01"),
    "DAT": (SqlType(Base.DATE), "19675", date(2023, 11, 14)),
    "TIM": (SqlType(Base.TIME), "3600000", 3_600_000),
    "TST": (
        SqlType(Base.TIMESTAMP),
        "1700000000123",
        datetime.fromisoformat("2023-11-14T22:13:20.123").replace(tzinfo=UTC),
    ),
    "ARR": (SqlType(Base.ARRAY, element=INTEGER), "[1,null]", [1, None]),
    "MAP": (SqlType(Base.MAP, element=DOUBLE), '{"a":1.5}', [("a", 1.5)]),
    "REC": (
        SqlType(Base.STRUCT, fields=(Column("X", BIGINT), Column("y z", STRING))),
        '{"x":1,"y z":"q"}',
        {"X": 1, "y z": "q"},
    ),
}


def test_every_type_is_read(servers: str, options: Callable[..., IngestOptions]) -> None:
    names = list(EVERY_TYPE)
    topic = topics.create(servers)
    fields = ",".join(f'"{n.lower()}":{EVERY_TYPE[n][1]}' for n in names)
    empty = ",".join(f'"{n.lower()}":null' for n in names)
    topics.produce(servers, topic, [(None, b"{%s}" % f.encode()) for f in (fields, empty)])
    columns = tuple(Column(n, EVERY_TYPE[n][0]) for n in names)
    given = options(topic, columns=tuple(names))
    given = replace(given, source=replace(given.source, value_columns=columns))
    (batch,) = read(given, KafkaRange(0, 0, 2))
    assert [batch.schema.field(n).type for n in names] == [
        t.arrow() for t, _, _ in EVERY_TYPE.values()
    ]
    full, nothing = batch.to_pylist()
    assert [full[n] for n in names] == [EVERY_TYPE[n][2] for n in names]
    assert [nothing[n] for n in names] == [None] * len(names)
