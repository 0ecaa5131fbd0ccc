"""The batch lock's order of turns, with real threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.runtime.queries.batches.lock import Turn


def _thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_one_at_a_time_and_whoever_waits_shows_signs_of_life() -> None:
    turn, beats, order = Turn(), threading.Event(), list[str]()

    def second() -> None:
        with turn.take(beats.set) as ours:
            order.append(f"second {ours}")

    with turn.take(lambda: None) as ours:
        waiting = _thread(second)
        assert beats.wait(30)
        order.append(f"first {ours}")
    waiting.join(30)
    assert order == ["first True", "second True"]


def test_stopping_waits_for_the_batch_in_hand_and_lets_no_other_begin() -> None:
    turn, has_it, finish, order = Turn(), threading.Event(), threading.Event(), list[str]()

    def batch() -> None:
        with turn.take(lambda: None) as ours:
            has_it.set()
            finish.wait(30)
            order.append(f"batch {ours}")

    def late() -> None:
        with turn.take(lambda: None) as ours:
            order.append(f"late {ours}")
        finish.set()

    _thread(batch)
    assert has_it.wait(30)
    waiting = _thread(late)
    with turn.last(30):
        order.append("stopped")
        # Spark's stop waits for such a one, too, while the turn is the stopping job's.
        later = _thread(late)
        later.join(30)
        assert not later.is_alive()
    waiting.join(30)
    assert order == ["late False", "batch True", "stopped", "late False"]


def _batch(
    turn: Turn, query_id: str = "", order: list[str] | None = None
) -> tuple[threading.Thread, threading.Event]:
    """A batch that has the turn, and the event that ends it; it notes its end in `order`."""
    has_it, finish = threading.Event(), threading.Event()

    def batch() -> None:
        with turn.take(lambda: None, query_id=query_id):
            has_it.set()
            finish.wait(60)
            if order is not None:
                order.append("batch")

    running = _thread(batch)
    assert has_it.wait(30)
    return running, finish


def test_a_batch_that_does_not_end_is_not_waited_for_for_ever() -> None:
    turn = Turn()
    running, finish = _batch(turn)
    with turn.last(0.05):
        assert running.is_alive()
    finish.set()
    running.join(30)
    with turn.take(lambda: None) as ours:
        assert not ours


def test_a_batch_that_is_doomed_is_not_waited_for_as_long_as_one_that_runs() -> None:
    """Executors that end with the job answer no more; the next driver begins the batch anew."""
    turn = Turn()
    running, finish = _batch(turn, "q")
    with turn.last(60, lambda query_id: query_id == "q"):
        assert running.is_alive()
    finish.set()
    running.join(30)


def test_only_the_batch_in_hand_can_be_doomed() -> None:
    """A query that stands, or failed, waits for something, too, and has no batch."""
    turn = Turn()
    other, ended = _batch(turn, "stands")
    ended.set()
    other.join(30)
    asked, order = list[str](), list[str]()
    _, finish = _batch(turn, "q", order)

    def doomed(query_id: str) -> bool:
        asked.append(query_id)
        if len(asked) == 40:
            finish.set()
        return query_id == "stands"

    with turn.last(60, doomed):
        order.append("stopped")
    assert order == ["batch", "stopped"]
    assert {*asked} == {"q"}


def test_a_batch_that_goes_on_after_it_seemed_doomed_is_waited_for() -> None:
    turn, asked, order = Turn(), list[str](), list[str]()
    _, finish = _batch(turn, order=order)

    def doomed(query_id: str) -> bool:
        asked.append(query_id)
        if len(asked) == 40:
            finish.set()
        return len(asked) <= 5

    with turn.last(60, doomed):
        order.append("stopped")
    assert order == ["batch", "stopped"]


def test_who_does_not_want_the_turn_any_more_waits_no_longer() -> None:
    turn, unwanted, order = Turn(), threading.Event(), list[str]()

    def held() -> None:
        with turn.take(unwanted.set, unwanted.is_set) as ours:
            order.append(f"held {ours}")

    with turn.take(lambda: None):
        waiting = _thread(held)
        waiting.join(30)
        assert not waiting.is_alive()
    assert order == ["held False"]


def test_a_query_that_two_have_barred_waits_for_both() -> None:
    """A savepoint copies its stores while a rescale gives up."""
    turn = Turn()
    with turn.barred("q", 1.0) as first:
        with turn.barred("q", 1.0) as second:
            assert first
            assert second
        assert not turn._taken("q")
        assert turn._taken("other")
        turn._lock.release()
    assert turn._taken("q")
