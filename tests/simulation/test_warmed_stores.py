"""Stores in a database are warmed before their first owner opens them, and by nobody afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, takewhile

import pytest

from holdfast.tasks import worker
from holdfast.tasks.plan import StandbyDuties, StandbyState, TaskReport
from holdfast.tasks.worker import Answer
from tests.simulation.broken.remote_mutants import warmer_takes_from_owners, warmer_writes_late
from tests.simulation.fakes.coroutine import Coroutine
from tests.simulation.jobs.one_rescale import CUT, RECORDS, TO, OneRescale

Mutate = Callable[[pytest.MonkeyPatch], None]
MIDDLE = 8  # records of the first batch of the next generation
AGAIN_S = 10.0  # after it a standby tries again
MARKERS = TO.state_partitions


class _Crash(BaseException):
    """The process is gone."""


class Stage(OneRescale):
    """A copied changelog whose stores executor 0 warms, and executor 1 owns after the switch."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch, remote=True)
        self.database = self.bench.database
        self.copy()

    def warm(self) -> Sequence[StandbyState]:
        """The running executor is told to warm all new stores, and its thread works once."""
        wanted = frozenset((self.new.state_name, p) for p in range(TO.state_partitions))
        plans = {plan.state_name: plan for plan in (self.plan, self.new)}
        owned = {0: frozenset({self.key})}
        duties = StandbyDuties(plans, {self.bench.ordinal: wanted}, owned)
        worker.keep_standbys(duties, "state", 2, self.plan.settings.application_id)
        worker._standbys.turn()
        return worker._standbys.states()

    def warm_again(self) -> Sequence[StandbyState]:
        """Executor 0, which has not been told that there is an owner, goes on."""
        self.bench.on(0)
        self.bench.clock.sleep(AGAIN_S)
        worker._standbys.turn()
        found = worker._standbys.states()
        self.bench.on(1)
        return found

    def at_request(self, number: int, then: Callable[[], object]) -> None:
        """Does something right after this request to the database, counted from here."""
        left = number

        def after() -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        self.database.after = after

    def in_use(self) -> dict[bytes, bytes]:
        """The rows that executor 1 has in its open stores."""
        found: dict[bytes, bytes] = {}
        for task in worker._state_tasks.values():
            found |= dict(task.store.scan())
        return found


@pytest.fixture(scope="module")
def whole() -> dict[bytes, bytes]:
    """The rows of a table that was never rescaled."""
    with pytest.MonkeyPatch.context() as patch:
        stage = OneRescale(patch)
        stage.apply(RECORDS)
        rows = dict(stage.bench.rows())
        stage.close()
    return rows


def _wrong(answers: Sequence[Answer]) -> list[Answer]:
    return [answer for answer in answers if not isinstance(answer, TaskReport)]


def _restored(answers: Sequence[Answer]) -> int:
    assert not _wrong(answers)
    return sum(answer.restored_records for answer in answers if isinstance(answer, TaskReport))


@pytest.mark.parametrize("warms", [True, False])
@pytest.mark.parametrize("owner", [0, 1])
def test_an_owner_replays_only_what_came_after_the_warming(
    monkeypatch: pytest.MonkeyPatch, whole: dict[bytes, bytes], warms: bool, owner: int
) -> None:
    stage = Stage(monkeypatch)
    if warms:
        assert {(state.lag, state.error) for state in stage.warm()} == {(0, "")}
    stage.switch()
    stage.bench.on(owner)
    restored = _restored(stage.try_next(1, CUT, RECORDS))
    assert (restored == MARKERS) == warms
    assert stage.rows() == whole
    stage.close()


@pytest.mark.parametrize("another", [True, False])
def test_a_warmer_may_die_at_any_request(whole: dict[bytes, bytes], another: bool) -> None:
    def crash() -> None:
        raise _Crash

    for number in count(1):
        with pytest.MonkeyPatch.context() as patch:
            stage = Stage(patch)
            stage.at_request(number, crash)
            try:
                stage.warm()
            except _Crash:
                stage.bench.kill()
            else:
                break
            stage.bench.on(1)
            if another:
                assert {(state.lag, state.error) for state in stage.warm()} == {(0, "")}
            stage.switch()
            stage.go_on()
            assert stage.rows() == whole, number
            stage.close()
    stage.close()
    assert number > 10, "it asks much"


def _late_warmer(
    number: int, whole: dict[bytes, bytes], mutate: Mutate = lambda _: None
) -> str | None:
    """Lets a warmer sleep right after a request until the owner is at work; tells what it spoils.

    None: it makes fewer requests.
    """
    with pytest.MonkeyPatch.context() as patch:
        stage = Stage(patch)
        mutate(patch)
        sleeper = Coroutine(stage.warm)
        stage.at_request(number, sleeper.pause)
        if sleeper.resume():
            stage.close()
            return None
        stage.bench.on(1)
        stage.switch()
        answers = stage.try_next(1, CUT, MIDDLE)
        stage.bench.on(0)
        assert sleeper.resume()
        told = stage.warm_again()
        answers = [*answers, *stage.try_next(2, MIDDLE, RECORDS)]
        found = stage.in_use()
        stage.close()
    if wrong := _wrong(answers):
        return f"the owner was disturbed: {wrong}"
    if not all("has an owner by now" in state.error for state in told):
        return f"it warms further: {told}"
    return "" if found == whole else "the rows are wrong"


def test_a_warmer_that_wakes_late_does_nothing_to_an_owner(whole: dict[bytes, bytes]) -> None:
    for number in count(1):
        spoiled = _late_warmer(number, whole)
        if spoiled is None:
            break
        assert not spoiled, number
    assert number > 10, "it asks much"


@pytest.mark.parametrize("mutate", [warmer_takes_from_owners, warmer_writes_late])
def test_a_warmer_that_does_something_is_found(whole: dict[bytes, bytes], mutate: Mutate) -> None:
    told = takewhile(
        lambda each: each is not None, (_late_warmer(n, whole, mutate) for n in count(1))
    )
    assert any(told)


def test_one_that_comes_while_the_owner_opens_the_store_does_not_hold_it_up(
    whole: dict[bytes, bytes],
) -> None:
    for number in count(1):
        with pytest.MonkeyPatch.context() as patch:
            stage = Stage(patch)
            stage.warm()
            stage.switch()
            stage.bench.on(1)
            came: list[int] = []

            def comes(stage: Stage = stage, came: list[int] = came) -> None:
                came.append(1)
                stage.warm_again()

            stage.at_request(number, comes)
            assert not _wrong(stage.try_next(1, CUT, RECORDS)), number
            assert stage.in_use() == whole, number
            stage.close()
        if not came:
            break
    assert number > 10, "it asks much"
