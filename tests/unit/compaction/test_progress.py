"""When a cleaning is done, and when the cleaner is said to do nothing: time is the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from holdfast.compaction.apply import progress
from holdfast.compaction.apply.progress import Bounds, Cleaned, Goal, await_cleaned
from holdfast.compaction.survey.log_watch import Look
from holdfast.errors import CleanerIdle, KafkaUnavailable

BOUNDS = Bounds(idle_s=100.0, rest_s=20.0, broker_s=30.0)


class _Clock:
    """Stands still but for sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def _await(
    look: Callable[[], Mapping[int, Look]],
    *goals: Goal,
    trouble: Callable[[], str] = lambda: "",
    told: Callable[[str], None] = lambda _: None,
) -> Cleaned:
    return await_cleaned("t", goals, look, bounds=BOUNDS, trouble=trouble, tell=told)


def _over_time(clock: _Clock, looks: Mapping[float, Look]) -> Callable[[], Mapping[int, Look]]:
    """Partition 0 as it looks from each second on."""

    def look() -> Mapping[int, Look]:
        return {0: looks[max(at_s for at_s in looks if at_s <= clock.now_s)]}

    return look


def test_a_checkpoint_at_the_goal_ends_the_wait_at_once(clock: _Clock) -> None:
    look = _over_time(clock, {0: Look(1_000, 0), 7: Look(1_000, 50), 9: Look(400, 100)})
    done = _await(look, Goal(0, to=100, bytes=1_000, expected=100))
    assert (done.bytes, done.seconds, done.exact) == ({0: 400}, 9.0, True)


def test_sizes_that_fell_by_half_and_rest_are_clean_enough(clock: _Clock) -> None:
    look = _over_time(clock, {0: Look(1_000), 10: Look(700), 15: Look(400)})
    done = _await(look, Goal(0, to=100, bytes=1_000, expected=100))
    assert (done.bytes, done.seconds, done.exact) == ({0: 400}, 35.0, False)


def test_a_size_as_predicted_needs_no_rest(clock: _Clock) -> None:
    done = _await(
        _over_time(clock, {0: Look(1_000), 10: Look(104)}),
        Goal(0, to=None, bytes=1_000, expected=100),
    )
    assert (done.seconds, done.exact) == (10.0, False)


def test_a_fall_that_is_too_small_is_waited_on(clock: _Clock) -> None:
    look = _over_time(clock, {0: Look(1_000), 10: Look(800)})
    with pytest.raises(CleanerIdle):
        _await(look, Goal(0, to=100, bytes=1_000, expected=100))
    assert clock.now_s > 10 + BOUNDS.idle_s


def test_where_little_is_to_win_sizes_are_not_waited_for(clock: _Clock) -> None:
    assert _await(lambda: {0: Look(1_000)}, Goal(0, None, 1_000, 990)).seconds == 0.0
    known = _await(lambda: {0: Look(1_000, 5)}, Goal(0, 100, 1_000, 990))
    assert known.seconds == BOUNDS.rest_s, "a clean log is not cleaned again"


def test_every_partition_counts(clock: _Clock) -> None:
    def look() -> Mapping[int, Look]:
        return {0: Look(100, 100), 1: Look(100, 100) if clock.now_s >= 30 else Look(1_000, 0)}

    told: list[str] = []
    done = _await(look, Goal(0, 100, 1_000, 100), Goal(1, 100, 1_000, 100), told=told.append)
    assert (done.seconds, done.exact) == (30.0, True)
    assert told[0].endswith("1 of 2 partitions, 1.1 KiB now, 200 B predicted")


def test_a_cleaner_that_does_nothing_is_said_with_numbers(clock: _Clock) -> None:
    with pytest.raises(CleanerIdle) as idle:
        _await(lambda: {3: Look(1_000, 0)}, Goal(3, to=100, bytes=1_000, expected=100))
    assert "nothing for 101000 ms to topic t, partitions 3 (1000 B, 90% of it" in idle.value.fact
    assert "thread has ended" in idle.value.cause
    assert "uncleanable" in idle.value.action


def test_what_the_cleaner_says_of_itself_ends_the_wait_early(clock: _Clock) -> None:
    with pytest.raises(CleanerIdle) as idle:
        _await(
            lambda: {0: Look(1_000, 0)},
            Goal(0, to=100, bytes=1_000, expected=100),
            trouble=lambda: "broker 1: it gave up t-0" if clock.now_s > 25 else "",
        )
    assert idle.value.cause == "broker 1: it gave up t-0"
    assert clock.now_s < 40


def test_a_broker_that_is_away_for_a_while_is_no_idle_cleaner(clock: _Clock) -> None:
    answers = _looks(clock, away=range(90, 115))
    done = _await(lambda: next(answers), Goal(0, to=100, bytes=1_000, expected=100))
    assert done.bytes == {0: 100}
    assert clock.now_s >= 120


def test_a_broker_that_stays_away_is_an_error(clock: _Clock) -> None:
    answers = _looks(clock, away=range(10, 1_000))
    with pytest.raises(KafkaUnavailable):
        _await(lambda: next(answers), Goal(0, to=100, bytes=1_000, expected=100))
    assert 10 + BOUNDS.broker_s <= clock.now_s < 10 + BOUNDS.broker_s + 5


def _looks(clock: _Clock, away: range) -> Iterator[Mapping[int, Look]]:
    """A cleaner that is done 120 s after the start; `next` raises while the broker is away."""

    class Answers:
        def __iter__(self) -> Iterator[Mapping[int, Look]]:
            return self

        def __next__(self) -> Mapping[int, Look]:
            if int(clock.now_s) in away:
                raise KafkaUnavailable("no answer")
            return {0: Look(100, 100) if clock.now_s >= 120 else Look(1_000, 0)}

    return iter(Answers())
