"""The stream of batches, and its thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise

from holdfast.errors import KafkaUnavailable
from holdfast.runtime.queries.streams import Stream
from holdfast.types.ids import OffsetRange

_WAIT_S = 30.0


def _batch(end: int) -> OffsetRange:
    return OffsetRange.of("t", {0: end - 1}, {0: end})


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class _Source:
    """Plans what it is given, and keeps what was done."""

    def __init__(self, *batches: OffsetRange) -> None:
        self.waiting = list(batches)
        self.done: list[OffsetRange] = []

    def plan(self) -> OffsetRange | None:
        return self.waiting.pop(0) if self.waiting else None

    def work(self, batch: OffsetRange, stopped: Callable[[], bool]) -> None:
        assert not stopped()
        self.done.append(batch)


def test_batches_come_one_after_the_other_and_then_it_waits_for_more() -> None:
    source = _Source(_batch(1), _batch(2))
    stream = Stream("q", source.plan, source.work, 0.0)
    _until(lambda: len(source.done) == 2 and stream.idle)
    source.waiting.append(_batch(3))
    _until(lambda: len(source.done) == 3)
    assert source.done == [_batch(1), _batch(2), _batch(3)]
    assert stream.active
    assert stream.error() is None
    stream.stop()
    _until(lambda: not stream.active)
    assert stream.error() is None


def test_what_planning_raises_ends_it_and_is_told() -> None:
    def plan() -> OffsetRange | None:
        raise KafkaUnavailable("nobody answers")

    stream = Stream("q", plan, _Source().work, 0.0)
    _until(lambda: not stream.active)
    assert isinstance(stream.error(), KafkaUnavailable)


def test_what_a_batch_raises_ends_it_and_is_told() -> None:
    def work(_batch: OffsetRange, _stopped: Callable[[], bool]) -> None:
        raise ValueError("cannot be done")

    stream = Stream("q", _Source(_batch(1)).plan, work, 0.0)
    _until(lambda: not stream.active)
    assert isinstance(stream.error(), ValueError)


def test_a_batch_that_was_planned_before_it_was_stopped_knows() -> None:
    planning, go_on, seen = threading.Event(), threading.Event(), list[bool]()

    def plan() -> OffsetRange | None:
        planning.set()
        assert go_on.wait(_WAIT_S)
        return _batch(1)

    stream = Stream("q", plan, lambda _batch, stopped: seen.append(stopped()), 0.0)
    assert planning.wait(_WAIT_S)
    stream.stop()  # which does not wait for a plan for long
    assert stream.active
    go_on.set()
    _until(lambda: not stream.active)
    assert seen == [True]


def test_it_is_not_idle_while_it_plans_or_works() -> None:
    planning, working, go_on = threading.Event(), threading.Event(), threading.Event()

    def plan() -> OffsetRange | None:
        planning.set()
        assert go_on.wait(_WAIT_S)
        return _batch(1)

    def work(_batch: OffsetRange, _stopped: Callable[[], bool]) -> None:
        go_on.clear()
        working.set()
        assert go_on.wait(_WAIT_S)

    stream = Stream("q", plan, work, 0.0)
    assert planning.wait(_WAIT_S)
    assert not stream.idle
    go_on.set()
    assert working.wait(_WAIT_S)
    assert not stream.idle
    stream.stop()
    go_on.set()
    _until(lambda: not stream.active)


def test_batches_start_an_interval_apart() -> None:
    source = _Source(_batch(1), _batch(2), _batch(3))
    starts: list[float] = []

    def work(batch: OffsetRange, stopped: Callable[[], bool]) -> None:
        starts.append(time.monotonic())
        source.work(batch, stopped)

    stream = Stream("q", source.plan, work, 0.2)
    _until(lambda: len(starts) == 3 and stream.idle)
    stream.stop()
    assert all(b - a >= 0.19 for a, b in pairwise(starts))
