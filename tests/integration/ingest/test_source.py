"""The data source under a real Spark on a real broker."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from holdfast.errors import DataLoss, TopicReplaced
from holdfast.ingest.source import KafkaDataSource, KafkaStream
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ingest import DATA_SOURCE, IngestOptions
from holdfast.types.schema import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, Base, Column, SqlType
from holdfast.types.topology import META_COLUMNS, Source, TimestampSpec
from tests.integration.ingest import topics

COLUMNS = (Column("CUSTOMER", STRING), Column("AMOUNT", DOUBLE))


@pytest.fixture
def servers(kafka: BrokerStatus) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    spark.dataSource.register(KafkaDataSource)
    yield spark
    for query in spark.streams.active:
        query.stop()


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


def batch(session: SparkSession, options: IngestOptions) -> list[tuple[Any, ...]]:
    frame = session.read.format(DATA_SOURCE).options(**options.to_spark()).load()
    return sorted((tuple(r) for r in frame.collect()), key=lambda r: (r[-4], r[-3]))


class Stream:
    """Runs a streaming query until it has seen everything; keeps its batches."""

    def __init__(self, session: SparkSession, options: IngestOptions, checkpoint: Path) -> None:
        self.batches: list[list[tuple[Any, ...]]] = []
        self.input_partitions: list[int] = []
        self._frame = session.readStream.format(DATA_SOURCE).options(**options.to_spark()).load()
        self._checkpoint = str(checkpoint)

    def keep(self, frame: DataFrame, _: int) -> None:
        self.input_partitions.append(frame.rdd.getNumPartitions())
        self.batches.append(sorted(tuple(r) for r in frame.collect()))

    def run(self, until: Callable[[], bool], timeout_s: float = 60) -> Stream:
        writer = self._frame.writeStream.foreachBatch(self.keep)
        query = writer.option("checkpointLocation", self._checkpoint).start()
        done = threading.Event()
        for _ in range(int(timeout_s * 20)):
            if until() or not query.isActive:
                break
            done.wait(0.05)
        if query.isActive:
            query.processAllAvailable()  # a batch that is stopped before its commit comes again
        failure = query.exception()
        query.stop()
        if failure is not None:
            raise failure
        assert until(), f"not reached in {timeout_s} s: {[len(b) for b in self.batches]}"
        return self

    def rows(self) -> list[tuple[Any, ...]]:
        return [row for rows in self.batches for row in rows]

    def offsets(self) -> list[tuple[int, int]]:
        return [(row[-4], row[-3]) for row in self.rows()]


def test_a_bounded_read_gives_wanted_and_meta_columns(
    session: SparkSession, servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers, partitions=3)
    topics.produce(servers, topic, payments(3), partition=0, timestamp=1_600_000_000_000)
    tombstones = [(b"gone", None), (None, b'{"amount": "2.5"}')]
    topics.produce(servers, topic, tombstones, partition=2, timestamp=1_600_000_000_007)
    frame = session.read.format(DATA_SOURCE).options(**options(topic).to_spark()).load()
    assert frame.columns == ["ID", "AMOUNT", *META_COLUMNS]
    types = ["string", "double", "int", "bigint", "bigint", "boolean"]
    assert [kind for _, kind in frame.dtypes] == types
    assert frame.rdd.getNumPartitions() == 2, "an empty topic partition has no input partition"
    assert batch(session, options(topic)) == [
        ("k0", 0.5, 0, 0, 1_600_000_000_000, False),
        ("k1", 1.5, 0, 1, 1_600_000_000_000, False),
        ("k2", 2.5, 0, 2, 1_600_000_000_000, False),
        ("gone", None, 2, 0, 1_600_000_000_007, True),
        (None, 2.5, 2, 1, 1_600_000_000_007, False),
    ]


def test_a_bounded_read_keeps_to_its_offsets(
    session: SparkSession, servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers, partitions=2)
    topics.produce(servers, topic, payments(20), partition=0)
    topics.produce(servers, topic, payments(20), partition=1)
    found = batch(session, options(topic, start={0: 5, 1: 18}, end={0: 8, 1: 18}))
    assert [(r[-4], r[-3]) for r in found] == [(0, 5), (0, 6), (0, 7)]


def test_a_stream_takes_its_limit_and_every_record_once(
    session: SparkSession,
    servers: str,
    options: Callable[..., IngestOptions],
    tmp_path: Path,
) -> None:
    topic = topics.create(servers, partitions=3)
    for partition, count in ((0, 60), (2, 40)):
        topics.produce(servers, topic, payments(count), partition=partition)
    stream = Stream(session, options(topic, max_offsets_per_trigger=10), tmp_path)
    stream.run(lambda: len(stream.rows()) >= 100)
    sizes = [len(b) for b in stream.batches]
    assert max(sizes) == 10, "no batch has more than the limit"
    assert sizes.count(0) <= 1, "that the end is reached is news once"
    expected = [(0, i) for i in range(60)] + [(2, i) for i in range(40)]
    assert sorted(stream.offsets()) == expected


def test_a_stream_goes_on_where_its_checkpoint_ends_and_finds_new_partitions(
    session: SparkSession,
    servers: str,
    options: Callable[..., IngestOptions],
    tmp_path: Path,
) -> None:
    topic = topics.create(servers, partitions=1)
    topics.produce(servers, topic, payments(30))
    given = options(topic, start={0: 10}, auto_offset_reset="latest")
    first = Stream(session, given, tmp_path)
    first.run(lambda: len(first.rows()) >= 20)
    assert first.offsets() == [(0, i) for i in range(10, 30)]
    topics.add_partitions(servers, topic, 2)
    topics.produce(servers, topic, payments(5), partition=0)
    topics.produce(servers, topic, payments(5), partition=1)
    second = Stream(session, given, tmp_path)
    second.run(lambda: len(second.rows()) >= 10)
    expected = [(0, i) for i in range(30, 35)] + [(1, i) for i in range(5)]
    assert sorted(second.offsets()) == expected, "a new partition begins at its start"


def test_aborted_and_open_transactions_stay_invisible(
    session: SparkSession,
    servers: str,
    options: Callable[..., IngestOptions],
    tmp_path: Path,
) -> None:
    topic = topics.create(servers)
    topics.transaction(servers, topic, payments(3))  # 0-2, marker 3
    topics.transaction(servers, topic, payments(3), commit=False)  # 4-6, marker 7
    held = topics.open_transaction(servers, topic, payments(2))  # 8-9
    stream = Stream(session, options(topic), tmp_path)
    stream.run(lambda: len(stream.rows()) >= 3)
    assert stream.offsets() == [(0, 0), (0, 1), (0, 2)]
    held.commit_transaction(30)
    again = Stream(session, options(topic), tmp_path)
    # Spark may send its last batch again when it was stopped before it noted it as done.
    again.run(lambda: {(0, 8), (0, 9)} <= set(again.offsets()))
    assert [at for at in again.offsets() if at > (0, 2)] == [(0, 8), (0, 9)]


def test_lost_offsets_fail_with_topic_partition_wanted_and_available(
    session: SparkSession,
    servers: str,
    options: Callable[..., IngestOptions],
    tmp_path: Path,
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, payments(20))
    topics.delete_records(servers, topic, 0, 15)
    told = rf"{topic} no longer .*partition 0: wanted 3, available 15 to 20[\s\S]*fail.on.data.loss"
    with pytest.raises(PySparkException, match=told):
        batch(session, options(topic, start={0: 3}))
    stream = Stream(session, options(topic, start={0: 3}), tmp_path / "fail")
    with pytest.raises(PySparkException, match=told):
        stream.run(lambda: False)
    lenient = options(topic, start={0: 3}, fail_on_data_loss=False)
    assert [r[-3] for r in batch(session, lenient)] == list(range(15, 20))
    going_on = Stream(session, lenient, tmp_path / "go on")
    going_on.run(lambda: len(going_on.rows()) >= 5)
    assert [offset for _, offset in going_on.offsets()] == list(range(15, 20))


def test_a_topic_made_anew_is_data_loss(
    session: SparkSession, servers: str, options: Callable[..., IngestOptions], tmp_path: Path
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, payments(5))
    stream = Stream(session, options(topic, start={0: 500}), tmp_path)
    with pytest.raises(PySparkException, match=r"partition 0: wanted 500, available 0 to 5"):
        stream.run(lambda: False)


def test_a_partition_new_to_the_query_begins_wherever_its_log_does(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, payments(9))
    topics.delete_records(servers, topic, 0, 4)
    stream = KafkaStream(options(topic))
    joined = stream.latestOffset({topic: {}}, ReadAllAvailable())
    assert joined[topic] == {"0": 4}, "it joins with nothing taken"
    assert stream.partitions({topic: {}}, joined) == []
    end = stream.latestOffset(joined, ReadAllAvailable())
    [found] = stream.partitions(joined, end)
    assert (found.start, found.end) == (4, 9)
    [rows] = stream.read(found)
    assert rows.column("__offset").to_pylist() == [4, 5, 6, 7, 8]
    topics.delete_records(servers, topic, 0, 6)  # what a batch has once begun must be there
    with pytest.raises(DataLoss, match=r"offset 4 is wanted[\s\S]*fail.on.data.loss=false"):
        list(stream.read(found))


def test_a_topic_made_anew_with_more_records_than_before_is_noticed(
    servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, payments(5))
    admin = Admin({"bootstrap.servers": servers})
    known = admin.look(topic)
    stream = KafkaStream(replace(options(topic), topic_id=known.topic_id))
    assert stream.latestOffset({topic: {"0": 5}}, ReadAllAvailable()) == {topic: {"0": 5}}
    admin.delete_topic(topic)
    admin.ensure_topic(topic, len(known.bounds), -1, {})
    topics.produce(servers, topic, payments(9))
    now = admin.look(topic)
    assert now.topic_id != known.topic_id
    assert sum(high for _, high in now.bounds.values()) == 9
    with pytest.raises(
        TopicReplaced, match=re.escape(f"has the id {now.topic_id}, it had {known.topic_id}")
    ):
        stream.latestOffset({topic: {"0": 5}}, ReadAllAvailable())


def test_event_time_comes_from_the_named_column(
    session: SparkSession, servers: str, options: Callable[..., IngestOptions]
) -> None:
    topic = topics.create(servers)
    topics.produce(servers, topic, [*payments(2), (b"none", b'{"ts": null}'), (b"gone", None)])
    letters = topics.create(servers)
    given = options(topic, dead_letter_topic=letters, progress_topic=topics.create(servers))
    given = replace(given, source=replace(given.source, timestamp=TimestampSpec("TS")))
    found = batch(session, given)
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
        datetime.fromisoformat("2023-11-14T22:13:20.123"),
    ),
    "ARR": (SqlType(Base.ARRAY, element=INTEGER), "[1,null]", [1, None]),
    "MAP": (SqlType(Base.MAP, element=DOUBLE), '{"a":1.5}', {"a": 1.5}),
    "REC": (
        SqlType(Base.STRUCT, fields=(Column("X", BIGINT), Column("y z", STRING))),
        '{"x":1,"y z":"q"}',
        (1, "q"),
    ),
}


@pytest.mark.parametrize(
    "names", [list(EVERY_TYPE), [n for n in EVERY_TYPE if n not in ("BYT", "MAP")]]
)
def test_every_type_reaches_spark(
    session: SparkSession, servers: str, options: Callable[..., IngestOptions], names: list[str]
) -> None:
    topic = topics.create(servers)
    fields = ",".join(f'"{n.lower()}":{EVERY_TYPE[n][1]}' for n in names)
    empty = ",".join(f'"{n.lower()}":null' for n in names)
    topics.produce(servers, topic, [(None, b"{%s}" % f.encode()) for f in (fields, empty)])
    columns = tuple(Column(n, EVERY_TYPE[n][0]) for n in names)
    given = options(topic, columns=tuple(names))
    given = replace(given, source=replace(given.source, value_columns=columns))
    # Made in the JVM, so that the session's time zone and not this machine's decides.
    frame = session.read.format(DATA_SOURCE).options(**given.to_spark()).load()
    if "TST" in names:
        frame = frame.withColumn("TST", frame["TST"].cast("timestamp_ntz"))
    full, nothing = frame.orderBy("__offset").collect()
    assert [full[n] for n in names] == [EVERY_TYPE[n][2] for n in names]
    assert [nothing[n] for n in names] == [None] * len(names)
