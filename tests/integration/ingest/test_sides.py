"""Several topics read as one under a real Spark on a real broker."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.ingest.source import KafkaDataSource, KafkaStream
from holdfast.local.broker import BrokerStatus
from holdfast.types.ingest import DATA_SOURCE, IngestOptions
from holdfast.types.schema import BIGINT, STRING, Column
from holdfast.types.topology import Source
from tests.integration.ingest import topics

CLICKS, VIEWS = 400, 40
STEP_MS = 1_000  # between two clicks; views are ten times as rare


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    spark.dataSource.register(KafkaDataSource)
    yield spark
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def options(kafka: BrokerStatus) -> IngestOptions:
    servers = kafka.bootstrap_servers
    clicks, views = topics.create(servers, partitions=2), topics.create(servers)
    for i in range(CLICKS):
        record = (b"k%d" % (i % 5), json.dumps({"n": i}).encode())
        topics.produce(servers, clicks, [record], i % 2, timestamp=1_000_000 + i * STEP_MS)
    for i in range(VIEWS):
        record = (b"k%d" % (i % 5), json.dumps({"page": f"p{i}"}).encode())
        topics.produce(servers, views, [record], timestamp=1_000_000 + i * 10 * STEP_MS)
    key = (Column("K", STRING),)
    given = IngestOptions(
        Source("CLICKS", "STREAM", clicks, key, (Column("N", BIGINT),)),
        {"bootstrap.servers": servers}, ("K", "N"), transactional_id_prefix=f"app-{clicks}",
    )  # fmt: skip
    source = Source("VIEWS", "STREAM", views, key, (Column("PAGE", STRING),))
    return replace(given, others=(replace(given, source=source, columns=("K", "PAGE"), side=1),))


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def test_a_bounded_read_has_the_rows_of_both_and_tells_them_apart(
    session: SparkSession, options: IngestOptions
) -> None:
    frame = session.read.format(DATA_SOURCE).options(**options.to_spark()).load()
    rows = _rows(frame)
    assert Counter(row["__side"] for row in rows) == {0: CLICKS, 1: VIEWS}
    clicks = {row["__0_N"] for row in rows if row["__side"] == 0}
    assert clicks == set(range(CLICKS))
    pages = [(row["__1_K"], row["__0_K"], row["__0_N"]) for row in rows if row["__1_PAGE"] == "p7"]
    assert pages == [("k2", None, None)]


def test_batches_with_a_limit_end_at_one_record_time_in_all_topics(
    session: SparkSession, options: IngestOptions, tmp_path: Path
) -> None:
    limited = replace(options, max_offsets_per_trigger=120)
    batches: list[list[dict[str, Any]]] = []
    seen = threading.Event()

    def keep(frame: DataFrame, _: int) -> None:
        batches.append(_rows(frame))
        if sum(map(len, batches)) >= CLICKS + VIEWS:
            seen.set()

    frame = session.readStream.format(DATA_SOURCE).options(**limited.to_spark()).load()
    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
    query = writer.start()
    assert seen.wait(60), f"{query.exception()}: {[len(b) for b in batches]}"
    query.stop()
    assert len(batches) >= 4
    assert [len(b) <= 120 for b in batches] == [True] * len(batches)
    times = [[row["__timestamp"] for row in b] for b in batches]
    assert all(max(a) < min(b) for a, b in pairwise(times))
    places = [(r["__side"], r["__partition"], r["__offset"]) for b in batches for r in b]
    assert len(set(places)) == len(places) == CLICKS + VIEWS


def test_both_sides_of_a_self_join_get_every_record(
    session: SparkSession, options: IngestOptions
) -> None:
    twin = replace(options, others=(replace(options, others=(), side=1),))
    frame = session.read.format(DATA_SOURCE).options(**twin.to_spark()).load()
    numbers = Counter(row["__0_N"] if row["__side"] == 0 else row["__1_N"] for row in _rows(frame))
    assert numbers == dict.fromkeys(range(CLICKS), 2)
    offsets = KafkaStream(twin).initialOffset()
    assert list(offsets) == [options.source.topic]
