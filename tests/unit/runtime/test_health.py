"""When a job is ready, when it is alive, and how far it is behind."""

from __future__ import annotations

from holdfast.runtime.health import Health

P0, P1 = ("t", 0), ("t", 1)


class Clock:
    """Moves when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def health(clock: Clock) -> Health:
    return Health(["a", "b"], 300.0, clock)


def test_only_a_serving_job_is_ready_and_the_reason_is_what_it_does() -> None:
    found = health(Clock())
    assert found.why_not_ready() == "starting Spark"
    found.phase("restoring a, query 1 of 2")
    assert found.why_not_ready() == "restoring a, query 1 of 2"
    found.serving()
    assert found.why_not_ready() == ""
    found.phase("stopping")
    assert found.why_not_ready() == "stopping"


def test_a_restore_takes_as_long_as_it_takes() -> None:
    clock = Clock()
    found = health(clock)
    found.phase("restoring a, query 1 of 2")
    clock.now += 100_000
    assert found.why_not_live() == ""


def test_a_query_without_a_sign_of_life_is_named() -> None:
    clock = Clock()
    found = health(clock)
    found.serving()
    clock.now += 300
    found.beat("a")
    found.turned()
    assert found.why_not_live() == ""
    clock.now += 61
    assert found.why_not_live() == "b has shown no sign of life for 361 s"
    found.beat_all()
    assert found.why_not_live() == ""


def test_a_main_loop_that_hangs_is_no_life() -> None:
    clock = Clock()
    found = health(clock)
    found.serving()
    clock.now += 361
    found.beat_all()
    assert found.why_not_live().startswith("the driver's main loop has shown no sign")


def test_level_with_what_was_there_a_moment_ago_is_caught_up() -> None:
    clock = Clock()
    found = health(clock)
    assert found.level("a") is None
    behind = found.observe("a", {P0: 5}, {P0: 10, P1: 10})
    assert (behind.lag, behind.caught_up) == (15, False)
    clock.now += 10
    # A producer goes on writing; the query has what was there ten seconds ago.
    steady = found.observe("a", {P0: 10, P1: 10}, {P0: 12, P1: 10})
    assert (steady.lag, steady.caught_up) == (2, True)
    clock.now += 20
    slower = found.observe("a", {P0: 11, P1: 10}, {P0: 30, P1: 10})
    assert (slower.lag, slower.caught_up) == (19, False)
    assert found.level("a") == slower
