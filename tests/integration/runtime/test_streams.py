"""Spark's own words for a stream that has nothing to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.runtime.queries.streams import SparkStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


Batch = tuple[threading.Event, threading.Event]


@pytest.fixture
def batch() -> Batch:
    """Set when a batch has begun; to be set for it to go on."""
    return threading.Event(), threading.Event()


@pytest.fixture(params=["0 seconds", "1 second"])
def stream(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, batch: Batch
) -> Iterator[StreamingQuery]:
    begun, go_on = batch

    def slow(_frame: DataFrame, _batch_id: int) -> None:
        begun.set()
        assert go_on.wait(120)

    (tmp_path / "in").mkdir()
    started = (
        spark.readStream.text(str(tmp_path / "in"))
        .writeStream.foreachBatch(slow)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime=request.param)
        .start()
    )
    yield started
    started.stop()


def samples(stream: StreamingQuery, seconds: float) -> list[bool]:
    deadline, found = time.monotonic() + seconds, list[bool]()
    while time.monotonic() < deadline and not any(found):
        found.append(SparkStream(stream).idle)
        time.sleep(0.05)
    return found


def test_a_stream_without_work_is_seen_idle_and_a_working_one_is_not(
    stream: StreamingQuery, tmp_path: Path, batch: Batch
) -> None:
    begun, go_on = batch
    stream.processAllAvailable()
    assert any(samples(stream, 30.0)), stream.status
    (tmp_path / "line").write_text("a\n")
    (tmp_path / "line").rename(tmp_path / "in" / "line")
    try:
        assert begun.wait(60)
        assert not any(samples(stream, 0.5)), stream.status
    finally:
        go_on.set()
    stream.processAllAvailable()
    assert any(samples(stream, 30.0)), stream.status


def test_a_stream_tells_what_ended_it(spark: SparkSession, tmp_path: Path) -> None:
    def fails(_frame: DataFrame, _batch_id: int) -> None:
        raise ValueError("no more of this")

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "line").write_text("a\n")
    writer = spark.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(fails)
    stream = SparkStream(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    deadline = time.monotonic() + 60
    while stream.active:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "no more of this" in str(stream.error())
    assert not stream.starting
    assert not stream.too_late
    stream.stop()
