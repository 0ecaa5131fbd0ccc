"""Which streams are started again, and which end the job."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest

from holdfast.errors import (
    DataLoss,
    HoldfastError,
    KafkaUnavailable,
    OffsetOverlap,
    RecordTooLarge,
)
from holdfast.runtime.queries import keep_going as module
from holdfast.runtime.queries.keep_going import KeepGoing
from holdfast.runtime.watching.health import Health

_AWAY = KafkaUnavailable("nobody answers")


class _Query:
    id = "ctas_t"


class _Run:
    """A query whose stream has ended."""

    query = _Query()
    held = False
    batch_id = 3
    streaming = None

    def __init__(self, planning: BaseException | None = None, batch: BaseException | None = None):
        self.planning, self.failure = planning, batch
        self.prepared = self.started = 0
        self.done = {("in", 0): 5}
        self.away = 0  # how often `prepare` still fails

    def ended_by(self) -> BaseException | None:
        return self.failure or self.planning

    def prepare(self) -> None:
        self.prepared += 1
        if self.away:
            self.away -= 1
            raise _AWAY

    def stream(self) -> None:
        self.started += 1
        self.planning = self.failure = None


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)


def _check(run_: _Run, limit_s: float = 60.0) -> None:
    runs = cast("Any", [run_])
    KeepGoing(runs, threading.Event(), Health(["ctas_t"], 60.0), limit_s).check()


def test_a_stream_that_goes_on_is_left_alone() -> None:
    run_ = _Run()
    _check(run_)
    assert (run_.prepared, run_.started) == (0, 0)


@pytest.mark.parametrize(
    "told",
    [_AWAY, RuntimeError("…\nholdfast.errors.KafkaUnavailable: nobody answers\n\tat java")],
    ids=["of a thread of ours", "of Spark's stream"],
)
def test_a_source_that_does_not_answer_is_asked_again(told: BaseException) -> None:
    run_ = _Run(planning=told)
    run_.away = 2
    _check(run_)
    assert (run_.prepared, run_.started) == (3, 1)


def test_a_source_that_does_not_answer_for_too_long_ends_the_job() -> None:
    with pytest.raises(KafkaUnavailable):
        _check(_Run(planning=_AWAY), limit_s=-1.0)


@pytest.mark.parametrize("of_spark", [False, True])
def test_a_batch_that_does_not_fit_the_markers_is_planned_again(of_spark: bool) -> None:
    overlap = OffsetOverlap("another driver has committed")
    run_ = _Run(planning=overlap) if of_spark else _Run(batch=overlap)
    _check(run_)
    assert (run_.prepared, run_.started) == (1, 1)


def test_of_two_drivers_that_both_stay_one_gives_up() -> None:
    run_ = _Run()
    runs = cast("Any", [run_])
    keep_going = KeepGoing(runs, threading.Event(), Health(["ctas_t"], 60.0), 0.0)
    run_.failure = OffsetOverlap("another driver has committed")
    keep_going.check()
    run_.batch_id += 1  # a batch of its own does not settle it
    run_.failure = OffsetOverlap("another driver has committed")
    keep_going._planned_again["ctas_t"] = (time.monotonic() - 1.0, time.monotonic() + 1.0)
    with pytest.raises(OffsetOverlap):
        keep_going.check()


@pytest.mark.parametrize(
    ("planning", "batch"),
    [(None, _AWAY), (DataLoss("records are gone"), None), (RuntimeError("what is this"), None)],
    ids=["a batch whose own retries are used up", "records are gone", "unknown"],
)
def test_what_another_start_does_not_mend_ends_the_job(
    planning: BaseException | None, batch: BaseException | None
) -> None:
    run_ = _Run(planning, batch)
    with pytest.raises(HoldfastError):
        _check(run_)
    assert run_.started == 0


# -- records that are too large --------------------------------------------------------------------

_LARGE = RecordTooLarge("a record of 9 bytes", action="raise the limit.")


def _both() -> tuple[_Run, _Run, Health, KeepGoing]:
    one, other = _Run(), _Run()
    other.query = _Other()  # type: ignore[assignment]
    health = Health(["ctas_t", "ctas_u"], 60.0)
    health.serving()
    runs = cast("Any", [one, other])
    return one, other, health, KeepGoing(runs, threading.Event(), health, 60.0)


class _Other:
    id = "ctas_u"


@pytest.mark.parametrize(
    "told",
    [
        _LARGE,
        RuntimeError(f"…\nholdfast.errors.RecordTooLarge: {_LARGE}"),
        RuntimeError(f"…\nholdfast.errors.SchemaRefused: {_LARGE}"),
        RuntimeError(f"…\nholdfast.errors.NumericOverflow: {_LARGE}"),
    ],
)
def test_a_query_with_a_record_that_is_too_large_stands_still_alone(
    monkeypatch: pytest.MonkeyPatch, told: BaseException
) -> None:
    one, other, health, keep_going = _both()
    one.failure, other.failure = told, OffsetOverlap("another driver has committed")
    keep_going.check()
    keep_going.check()
    assert (one.prepared, one.started, other.started) == (0, 0, 1)
    reason = "ctas_t stands still: a record of 9 bytes What to do: raise the limit."
    assert health.why_not_ready() == reason
    assert health.why_not_live() == ""

    monkeypatch.setattr(module, "_TRY_S", 0.0)
    keep_going._standing["ctas_t"].try_at = 0.0
    keep_going.check()  # its topic still does not take it
    assert (one.prepared, one.started) == (1, 1)
    one.failure = told
    keep_going.check()
    assert health.why_not_ready() == reason

    one.away = 1
    keep_going.check()  # no broker answers
    assert (one.prepared, one.started) == (2, 1)
    keep_going.check()
    assert (one.prepared, one.started) == (3, 2)
    keep_going.check()
    assert health.why_not_ready() == reason, "nothing is committed yet"
    one.done = {("in", 0): 6}
    keep_going.check()
    assert health.why_not_ready() == ""


def test_an_order_to_pause_is_obeyed_by_a_query_that_stands_still() -> None:
    one, _, health, keep_going = _both()
    one.failure = _LARGE
    keep_going.check()
    one.held = True
    keep_going.check()
    assert health.why_not_ready() == ""


def test_a_job_that_is_to_end_does_not_stand_still() -> None:
    one, other, health, _ = _both()
    one.failure = _LARGE
    runs = cast("Any", [one, other])
    with pytest.raises(RecordTooLarge):
        KeepGoing(runs, threading.Event(), health, 60.0, ends=True).check()
