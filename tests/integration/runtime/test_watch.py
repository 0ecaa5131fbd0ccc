"""Spark's own words for a stream that has nothing to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.runtime.watch import is_idle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture(params=["0 seconds", "1 second"])
def stream(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[StreamingQuery]:
    def slow(_frame: DataFrame, _batch_id: int) -> None:
        time.sleep(1.5)

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
    deadline, found = time.monotonic() + seconds, []
    while time.monotonic() < deadline:
        found.append(is_idle(stream))
        time.sleep(0.05)
    return found


def test_a_stream_without_work_is_seen_idle_and_a_working_one_is_not(
    stream: StreamingQuery, tmp_path: Path
) -> None:
    stream.processAllAvailable()
    assert any(samples(stream, 5.0)), stream.status
    (tmp_path / "line").write_text("a\n")
    (tmp_path / "line").rename(tmp_path / "in" / "line")
    deadline = time.monotonic() + 30
    while "Processing" not in stream.status["message"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(samples(stream, 0.5)), stream.status
    assert not is_idle(None)
