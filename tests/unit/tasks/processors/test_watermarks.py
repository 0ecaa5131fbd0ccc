"""Batches with a watermark: no record is late by another one of its batch, in engine and judge."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.judge.read.arrivals import Batches, Lane
from holdfast.judge.recompute.closings import Windowed, sessions_in_order, windows_in_order
from holdfast.judge.statement.statement import WindowClause
from holdfast.types.statements.topology import Emit, Window, WindowKind
from holdfast.types.times import FOREVER, NO_TIME
from tests.support.jobs.grouped_rows import Grouped, query_of

# Times of a batch's records, and its watermark.
BATCHES: list[tuple[list[int], int | None]] = [
    ([3, 95, 14], NO_TIME),
    ([7, 41, 2], 30),
    ([1, 33, 12], FOREVER),
    ([50, 99, 130], FOREVER),
    ([111, 112, 180, 90], None),
]


def _judged(kind: str) -> Windowed:
    batches = Batches()
    times: list[int] = []
    for of_batch, limit in BATCHES:
        start = len(times)
        times += of_batch
        source = {"topic": "a", "start": [[0, start]], "end": [[0, len(times)]]}
        marker: dict[str, Any] = {"source": source}
        batches.add(0, marker if limit is None else {**marker, "watermark_ms": limit})
    rows = range(len(times))
    lane = Lane("a", [(0,)] * len(times), [0] * len(times), list(rows), times)
    order = [(home, row) for home, _, row in batches.in_order([lane])]
    window, keys = WindowClause(10, 10, kind, 5, 100), [("k",)] * len(times)
    if kind == "SESSION":
        return sessions_in_order(window, keys, times, order, final=True, seen=batches.seen(lane))
    return windows_in_order(window, keys, times, order, batches.seen(lane))


@pytest.mark.parametrize("kind", [WindowKind.TUMBLING, WindowKind.SESSION])
def test_engine_and_judge_tell_the_same_windows_and_drop_the_same_records(
    kind: WindowKind,
) -> None:
    grouped = Grouped(query_of(Window(kind, 10, 10, 5, 100), Emit.FINAL, lists=False))
    for times, limit in BATCHES:
        grouped.feed([("k", 1, time) for time in times], limit)
    judged = _judged(kind.value)
    found: dict[tuple[int, int], int] = {}
    for start, end in zip(judged.starts, judged.ends, strict=True):
        found[start, end] = found.get((start, end), 0) + 1
    assert {window: row[0] for (_, window), row in grouped.table().items() if window} == found
    assert grouped.dropped_late == judged.late


def test_stream_time_goes_as_far_as_the_watermark_and_no_further() -> None:
    grouped = Grouped(query_of(Window(WindowKind.TUMBLING, 10, 10, 5, 15), Emit.FINAL))
    assert grouped.feed([("a", 1, 90), ("a", 2, 3)], NO_TIME) == []
    assert (grouped.stream_time, grouped.newest) == (NO_TIME, 90)
    assert grouped.feed([("a", 4, 4)], 15) == [("a", (0, 10), [2, 6, [2, 4]], 4)]
    assert (grouped.stream_time, grouped.newest) == (15, 90)
    assert grouped.feed([], FOREVER) == []  # of what was held back none closes at 90
    assert (grouped.stream_time, grouped.dropped_late) == (90, 0)
