"""The decisions about a batch of a query without state that need no executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import pytest

from holdfast.config.settings import Settings
from holdfast.errors import DataLoss, ExecutorsMissing, KafkaUnavailable
from holdfast.ingest.ranges import KafkaRange
from holdfast.runtime.queries.batches import retrying
from holdfast.runtime.queries.batches import unshuffled as unshuffled_batch
from holdfast.runtime.queries.batches.unshuffled import run_unshuffled
from holdfast.runtime.queries.feeds import Read
from holdfast.sql import compile_text
from holdfast.tasks.plan import Batch, StreamPlan, TaskReport, Whereabouts
from holdfast.tasks.worker import Answer
from holdfast.types.ids import OffsetRange
from holdfast.types.ingest import IngestOptions

STREAM = """
CREATE STREAM s (a VARCHAR) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM t AS SELECT a FROM s WHERE a > 'b';
"""
PLAN = StreamPlan(Settings("app"), compile_text(STREAM).queries[0], 1, "progress", 3)
READ = Read(IngestOptions(PLAN.query.source, {}, ()), [KafkaRange(0, 0, 4), KafkaRange(2, 0, 4)])
BATCH = Batch(0, OffsetRange.of("s", {0: 0, 1: 5, 2: 0}, {0: 4, 1: 5, 2: 4}))
WHERE = Whereabouts("1", 0, 1, 1)


class _Cluster:
    """Executors that are all away when they are asked for the first time, then others."""

    def __init__(self) -> None:
        self.asked = 0
        self.waited_for: list[str] = []

    def locations(self) -> list[str]:
        self.asked += 1
        if self.asked == 1:
            raise ExecutorsMissing("0 of 1 executors are here.", cause="they died", action="wait")
        return [f"executor_{self.asked}"]

    def waits(self, query_id: str, errors: Sequence[Exception]) -> None:
        self.waited_for += [type(error).__name__ for error in errors]


class _Context:
    """Has no JVM: descriptions go nowhere."""

    def setJobDescription(self, value: str) -> None:  # noqa: N802 - Spark's name
        assert value in ("csas_t: batch 0, 8 records", "")

    def setLocalProperty(self, key: str, value: str) -> None:  # noqa: N802 - Spark's name
        assert value == "read s and write T"


def _run(cluster: _Cluster) -> list[TaskReport]:
    return run_unshuffled(cast("Any", _Context()), READ, PLAN, BATCH, cast("Any", cluster))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[list[Answer]]], list[Any]]:
    """Sets the answers of Spark's tasks, attempt by attempt; returns what was asked of it."""

    def answers(of_attempts: list[list[Answer]]) -> list[Any]:
        seen: list[Any] = []

        def run(places: list[str], _work: Any, pending: Sequence[int]) -> list[Answer]:
            seen.append((places, list(pending)))
            return of_attempts[len(seen) - 1]

        monkeypatch.setattr(unshuffled_batch, "on_state_workers", run)
        return seen

    monkeypatch.setattr(unshuffled_batch, "located", lambda _context, places: places)
    monkeypatch.setattr(retrying, "_BACKOFF_S", (0.0,))
    return answers


def test_a_batch_waits_for_executors_and_goes_on_where_they_are(asked: Any) -> None:
    first = [TaskReport(0, WHERE), KafkaUnavailable("No broker answers.")]
    seen, cluster = asked([first, [TaskReport(2, WHERE)]]), _Cluster()
    assert [r.partition for r in _run(cluster)] == [0, 2]
    assert seen == [(["executor_2"] * 2, [0, 1]), (["executor_3"] * 2, [1])]
    assert cluster.waited_for == ["ExecutorsMissing", "KafkaUnavailable"]


def test_what_no_retry_can_cure_ends_the_batch(asked: Any) -> None:
    seen = asked([[TaskReport(0, WHERE), DataLoss("offset 1 is gone")]])
    with pytest.raises(DataLoss, match="offset 1 is gone"):
        _run(_Cluster())
    assert len(seen) == 1


def test_a_batch_without_records_asks_nobody() -> None:
    nothing = partial(run_unshuffled, cast("Any", None), Read(READ.options, []))
    assert nothing(PLAN, BATCH, cast("Any", None)) == []
