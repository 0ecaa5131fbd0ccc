"""When a job is ready, when it is alive, and how far it is behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.watching.health import Health, Level

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


def test_a_lag_that_was_observed_long_ago_is_unknown() -> None:
    clock = Clock()
    found = health(clock)
    found.serving()
    found.observe("a", {P0: 5}, {P0: 5})
    clock.now += 30
    level = found.level("a")
    assert level is not None
    assert (level.caught_up, found.why_unknown()) == (True, "")
    clock.now += 10
    assert found.level("a") is None
    assert found.why_unknown() == "Kafka has not told the ends of the source topics for 40 s"
    found.observe("a", {P0: 5}, {P0: 7})
    assert (found.level("a"), found.why_unknown()) == (Level(2, caught_up=True), "")


def test_a_query_that_commits_nothing_for_too_long_is_not_ready_and_says_why() -> None:
    clock = Clock()
    found = health(clock)
    found.serving()
    found.observe("a", {P0: 5}, {P0: 10})
    clock.now += 300
    assert found.why_not_ready() == ""
    found.observe("a", {P0: 5}, {P0: 18}, "Kafka failed reading offsets")
    clock.now += 1
    assert found.why_not_ready() == (
        "a has committed nothing for 301 s and is 13 offsets behind; "
        "it waits for: Kafka failed reading offsets"
    )
    found.observe("a", {P0: 18}, {P0: 18})
    assert found.why_not_ready() == ""


def test_late_is_what_takes_far_longer_than_most_commits() -> None:
    clock = Clock()
    found = health(clock)
    found.serving()
    for n in range(6):
        found.observe("a", {P0: n}, {P0: n + 1})
        clock.now += 10
    found.observe("a", {P0: 6}, {P0: 7})
    clock.now += 100
    assert found.why_not_ready() == ""
    clock.now += 1
    assert found.why_not_ready().startswith("a has committed nothing for 101 s and is 1 offsets")


def test_a_quick_query_is_not_late_before_a_minute() -> None:
    clock = Clock()
    found = health(clock)
    found.serving()
    for n in range(10):
        found.observe("a", {P0: n}, {P0: n + 1})
        clock.now += 1
    found.observe("a", {P0: 10}, {P0: 11})
    clock.now += 60
    assert found.why_not_ready() == ""
    clock.now += 1
    assert found.why_not_ready() != ""


def test_what_a_paused_query_does_not_commit_is_no_fault() -> None:
    clock = Clock()
    found = health(clock)
    found.serving()
    found.observe("a", {P0: 5}, {P0: 10})
    found.rest("a")
    clock.now += 1000
    assert found.why_not_ready() == ""
    found.observe("a", {P0: 5}, {P0: 10})
    assert found.why_not_ready() == "", "it has only just gone on"


def test_a_start_again_begins_anew() -> None:
    clock = Clock()
    found = health(clock)
    found.serving()
    found.observe("a", {P0: 5}, {P0: 10})
    clock.now += 1000
    found.serving()
    assert found.why_not_ready() == ""


@given(
    st.lists(
        st.tuples(st.sampled_from(["idle", "arrives", "commits"]), st.integers(0, 400)),
        max_size=40,
    )
)
def test_idle_is_ready_and_so_is_whoever_commits_in_time(steps: list[tuple[str, int]]) -> None:
    """Late is never told of a query that has nothing to commit, nor before its time is over."""
    clock = Clock()
    found = health(clock)
    found.serving()
    done = end = 0
    waiting_since: float | None = None
    for step, seconds in steps:
        if step == "arrives":
            end += 1
        elif step == "commits":
            done, waiting_since = end, None
        found.observe("a", {P0: done}, {P0: end})
        if end > done and waiting_since is None:
            waiting_since = clock.now
        clock.now += seconds
        waited = clock.now - waiting_since if waiting_since is not None else 0.0
        late = bool(found.why_not_ready())
        assert not (late and waited <= 60)
        assert late or waited <= 300
