"""The nemesis against a place in memory: what it does in which order, and what it writes down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.chaos.faults.nemesis import Nemesis, Patience
from holdfast.chaos.faults.target import Held, Hook, Landing, QueryServers, Victim
from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.events import Event, HistoryWriter, Kind, read_history
from holdfast.errors import HoldfastError, Retriable
from holdfast.types.components import BROKER, DRIVER, EXECUTOR
from holdfast.types.steps import Step
from tests.simulation.fakes.clock import VirtualTime

CLOCK = VirtualTime()
QUICK = Patience(held=0.5, landed=0.3, recovered=2.0)


@dataclass
class Place:
    """Two executors, a driver and a broker; what is killed has a successor at once.

    Attributes:
        deaf: faults that do nothing here.
        log: everything that was done, in words.
        holds: is a state task ever held?
        starting: so many strikes find nobody who can be hit.
        refused: why the job will not go on after the first fault.
        hides: whether nothing tells of the hook after the first fault: its processes restart.
    """

    deaf: frozenset[Fault] = frozenset()
    holds: bool = True
    starting: int = 0
    recovers: bool = True
    refused: str = ""
    hides: bool = False
    log: list[str] = field(default_factory=list)
    ordered: list[str] = field(default_factory=list)
    lives: dict[str, int] = field(
        default_factory=lambda: {"executor 0": 0, "executor 1": 0, "driver": 0, "broker": 0}
    )
    stopped: set[str] = field(default_factory=set)
    orders: dict[str, Step] = field(default_factory=dict)

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        return {c: frozenset(Fault) for c in (DRIVER, EXECUTOR, BROKER)}

    @property
    def notes(self) -> Mapping[Fault, str]:
        return {}

    @property
    def hook(self) -> Hook | None:
        return None if self.hides and any(self.lives.values()) else self

    def is_dev_namespace(self) -> bool:
        return True

    def victims(self, component: str) -> list[Victim]:
        return [Victim(component, name, f"{name}#{life}")
                for name, life in self.lives.items() if name.startswith(component)]  # fmt: skip

    def strike(self, victim: Victim, fault: Fault) -> str:
        self.log.append(f"{fault.value} {victim.name}")
        if fault in self.deaf:
            return "nothing"
        if fault is Fault.SLOW:
            raise HoldfastError("it is not slow")
        if self.starting:
            self.starting -= 1
            raise Retriable("it starts")
        if fault.lasts:
            self.stopped.add(victim.name)
        else:
            self.lives[victim.name] += 1
        return f"{fault.value} done"

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        gone = victim.identity != f"{victim.name}#{self.lives[victim.name]}"
        return Landing(gone or victim.name in self.stopped, f"{victim.name} looked at")

    def heal(self, victim: Victim, fault: Fault) -> None:
        self.log.append(f"heal {victim.name}")
        self.stopped.discard(victim.name)

    def heal_all(self) -> list[str]:
        return []

    def recovered(self, victims: Sequence[Victim]) -> bool:
        return self.recovers and not self.stopped

    def refusal(self) -> str:
        return self.refused if any(self.lives.values()) else ""

    def query_servers(self) -> QueryServers:
        return QueryServers()

    def job_status(self) -> dict[str, Any] | None:
        return {"ready": True}

    def order(self, order: str, step: Step, hold_s: float) -> None:
        self.log.append(f"order {order.partition('x')[2]}")
        self.orders[order] = step
        self.ordered.append(order)

    def held(self, order: str) -> Held | None:
        step = self.orders.get(order)
        if step is None or not self.holds:
            return None
        return Held(order, "executor 1", 7, step, "q", 3)

    def release(self, order: str) -> None:
        self.log.append(f"release {order.partition('x')[2]}")
        self.orders.pop(order, None)


class Commits:
    """A job that commits all the time."""

    @property
    def lag(self) -> int | None:
        return 5

    def samples(self) -> list[tuple[float, int]]:
        now = CLOCK.time()
        return [(now - 10 + i / 10, i) for i in range(100)]

    def advanced(self, since: float) -> bool:
        return True


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of two things that are due comes first does not depend on the machine."""
    monkeypatch.setattr("holdfast.chaos.faults.nemesis.time", CLOCK)


def _run(place: Place, folder: Path, *injections: Injection) -> tuple[bool, list[Event]]:
    with HistoryWriter(folder, "nemesis") as history:
        nemesis = Nemesis(place, history, Commits(), lambda _: None, QUICK)
        good = nemesis.run(injections)
    return good, read_history(folder)


def test_a_job_that_has_ended_for_good_is_waited_for_no_longer(tmp_path: Path) -> None:
    """With the first of three faults it refuses: nobody is hit any more, nothing awaited."""
    place = Place(recovers=False, holds=False, refused="offsets overlap")
    patient = Patience(held=1e6, landed=1e6, recovered=1e6)
    with HistoryWriter(tmp_path, "nemesis") as history:
        nemesis = Nemesis(place, history, Commits(), lambda _: None, patient)
        good = nemesis.run(
            (
                Injection(0, EXECUTOR, Fault.KILL, Moment.RANDOM),
                Injection(1, EXECUTOR, Fault.KILL, Moment.RESTORING),
                Injection(2, DRIVER, Fault.KILL, Moment.RANDOM),
            )
        )
    events = read_history(tmp_path)
    struck, missed = _outcomes(events, "inject")
    assert (good, nemesis.tried, struck.kind, missed.kind) == (False, 2, Kind.OK, Kind.FAIL)
    assert missed.data["evidence"] == "offsets overlap"
    (recover,) = _outcomes(events, "recover")
    assert (recover.kind, recover.data["refusal"]) == (Kind.FAIL, "offsets overlap")


def test_no_fault_begins_when_the_time_is_over_but_one_that_follows_does(tmp_path: Path) -> None:
    place = Place()
    with HistoryWriter(tmp_path, "nemesis") as history:
        nemesis = Nemesis(place, history, Commits(), lambda _: None, QUICK)
        good = nemesis.run(
            (
                Injection(0, EXECUTOR, Fault.KILL, Moment.RANDOM),
                Injection(1, DRIVER, Fault.KILL, Moment.RECOVERY, delay_s=0.1),
                Injection(2, EXECUTOR, Fault.KILL, Moment.RANDOM),
            ),
            duration_s=0.01,
        )
    (over,) = [e for e in read_history(tmp_path) if e.what == "time_over"]
    assert (good, nemesis.tried, over.data["injections"]) == (True, 2, 2)
    assert [line for line in place.log if "kill" in line] == ["kill executor 0", "kill driver"]


def _outcomes(events: list[Event], what: str) -> list[Event]:
    return [e for e in events if e.what == what and e.kind in (Kind.OK, Kind.FAIL)]


def test_a_kill_is_written_down_before_and_after(tmp_path: Path) -> None:
    place = Place()
    good, events = _run(place, tmp_path, Injection(0, EXECUTOR, Fault.KILL, Moment.RANDOM))
    assert good
    assert place.log == ["kill executor 0", "heal executor 0"]
    invoked, landed, recover, recovered = events
    assert (invoked.kind, invoked.what) == (Kind.INVOKE, "inject")
    assert invoked.data["victims"] == [
        {"component": EXECUTOR, "name": "executor 0", "identity": "executor 0#0"}
    ]
    assert (landed.kind, landed.data["landed"], landed.data["lag_before"]) == (Kind.OK, True, 5)
    assert landed.data["evidence"] == "executor 0 looked at"
    assert (recover.what, recovered.kind, recovered.op) == ("recover", Kind.OK, recover.op)


@pytest.mark.parametrize(("choice", "first"), [(0.0, "executor 0"), (0.99, "executor 1")])
def test_several_are_hit_at_once(tmp_path: Path, choice: float, first: str) -> None:
    place = Place()
    _run(place, tmp_path, Injection(0, EXECUTOR, Fault.KILL, Moment.RANDOM, 2, choice))
    assert place.log[0] == f"kill {first}"
    assert {line for line in place.log if line.startswith("kill")} == {
        "kill executor 0", "kill executor 1"}  # fmt: skip


def test_an_aimed_fault_hits_the_executor_that_is_held(tmp_path: Path) -> None:
    place = Place()
    _, events = _run(place, tmp_path, Injection(0, EXECUTOR, Fault.PAUSE, Moment.MARKED))
    assert place.log == ["order 0", "pause executor 1", "release 0", "heal executor 1"]
    assert events[0].data["moment_held"]["step"] == "MARKED"
    assert events[0].data["moment_held"]["partition"] == 3


def test_orders_of_two_runs_are_told_apart(tmp_path: Path) -> None:
    """Files of the first may still lie where the hook looks for those of the second."""
    place = Place()
    for folder in ("a", "b"):
        _run(place, tmp_path / folder, Injection(0, EXECUTOR, Fault.PAUSE, Moment.MARKED))
    first, second = place.ordered
    assert first != second


def test_an_aimed_fault_may_hit_the_broker_meanwhile(tmp_path: Path) -> None:
    place = Place()
    _run(place, tmp_path, Injection(0, BROKER, Fault.KILL, Moment.PRODUCED, duration_s=0.1))
    assert place.log == ["order 0", "kill broker", "release 0", "heal broker"]


def test_a_moment_that_never_comes_is_a_fault_that_did_not_land(tmp_path: Path) -> None:
    place = Place(holds=False)
    good, events = _run(place, tmp_path, Injection(0, EXECUTOR, Fault.KILL, Moment.RESTORING))
    (failed,) = _outcomes(events, "inject")
    assert (good, failed.kind, failed.data["landed"]) == (True, Kind.FAIL, False)
    assert "no state task got past RESTORING" in failed.data["evidence"]
    assert place.log == ["order 0", "release 0"]


@pytest.mark.parametrize("fault", [Fault.KILL, Fault.SLOW])
def test_a_fault_without_effect_did_not_land(tmp_path: Path, fault: Fault) -> None:
    place = Place(deaf=frozenset({Fault.KILL}))
    _, events = _run(place, tmp_path, Injection(0, EXECUTOR, fault, Moment.RANDOM))
    (failed,) = _outcomes(events, "inject")
    assert (failed.kind, failed.data["landed"]) == (Kind.FAIL, False)


def test_whoever_cannot_be_hit_yet_is_tried_again(tmp_path: Path) -> None:
    place = Place(starting=1)
    _, events = _run(place, tmp_path, Injection(0, EXECUTOR, Fault.KILL, Moment.RANDOM))
    first, second = _outcomes(events, "inject")
    assert (first.kind, first.data["did"], first.data["evidence"]) == (
        Kind.FAIL, "nothing", "it starts")  # fmt: skip
    assert (second.kind, second.data["landed"]) == (Kind.OK, True)
    assert [line for line in place.log if "kill" in line] == ["kill executor 0", "kill executor 1"]
    assert len(_outcomes(events, "recover")) == 1


def test_an_end_in_good_order_is_not_kept_from_it_by_the_hold(tmp_path: Path) -> None:
    place = Place()
    _run(place, tmp_path, Injection(0, EXECUTOR, Fault.DELETE, Moment.BEGUN))
    assert place.log[:3] == ["order 0", "delete executor 1", "release 0"]


def test_a_fault_in_anothers_recovery_comes_before_that_is_over(tmp_path: Path) -> None:
    place = Place()
    _, events = _run(
        place,
        tmp_path,
        Injection(0, EXECUTOR, Fault.PAUSE, Moment.RANDOM, duration_s=0.4),
        Injection(1, DRIVER, Fault.KILL, Moment.RECOVERY, delay_s=0.1),
        Injection(2, EXECUTOR, Fault.KILL, Moment.RANDOM),
    )
    assert place.log[:4] == ["pause executor 0", "kill driver", "heal driver", "heal executor 0"]
    order = [(e.what, e.kind) for e in events if e.what != "heal"]
    inject, recover = [("inject", Kind.INVOKE), ("inject", Kind.OK)], ("recover", Kind.INVOKE)
    ends = ("recover", Kind.OK)
    assert order == [*inject, *inject, recover, recover, ends, ends, *inject, recover, ends]


@pytest.mark.parametrize(("choice", "second"), [(0.0, "executor 1"), (0.99, "executor 0")])
def test_whom_the_fault_before_has_stopped_is_the_first_to_choose_from(
    tmp_path: Path, choice: float, second: str
) -> None:
    place = Place()
    _run(
        place,
        tmp_path,
        Injection(0, EXECUTOR, Fault.PAUSE, Moment.CHECKED, duration_s=0.3),
        Injection(1, EXECUTOR, Fault.KILL, Moment.RECOVERY, choice=choice, delay_s=0.1),
    )
    hits = [line for line in place.log if line.startswith(("pause", "kill"))]
    assert hits == ["pause executor 1", f"kill {second}"]


def test_an_opening_is_awaited_from_before_the_fault_that_causes_it(tmp_path: Path) -> None:
    place = Place()
    _run(
        place,
        tmp_path,
        Injection(0, EXECUTOR, Fault.LOSE_VOLUME, Moment.RANDOM),
        Injection(1, EXECUTOR, Fault.KILL, Moment.OPENED),
    )
    assert place.log[:2] == ["order 1", "lose-volume executor 0"]
    assert place.log[2:4] == ["kill executor 1", "release 1"]


def test_a_hook_whose_processes_restart_is_still_there(tmp_path: Path) -> None:
    place = Place(hides=True)
    _, events = _run(
        place,
        tmp_path,
        Injection(0, DRIVER, Fault.KILL, Moment.BEGUN),
        Injection(1, EXECUTOR, Fault.KILL, Moment.OPENED),
        Injection(2, EXECUTOR, Fault.KILL, Moment.WRITTEN),
    )
    assert [e.kind for e in _outcomes(events, "inject")] == [Kind.OK] * 3
    assert [line for line in place.log if line.startswith("release")] == [
        "release 0", "release 1", "release 2"]  # fmt: skip


def test_a_job_that_does_not_recover_ends_the_schedule(tmp_path: Path) -> None:
    kill = [Injection(n, EXECUTOR, Fault.KILL, Moment.RANDOM) for n in range(2)]
    good, events = _run(Place(recovers=False), tmp_path, *kill)
    assert not good
    (failed,) = _outcomes(events, "recover")
    assert failed.kind is Kind.FAIL
    assert failed.data["waited_s"] >= QUICK.recovered
    assert len(_outcomes(events, "inject")) == 1


@pytest.mark.parametrize("when", ["strike", "landed"])
def test_what_lasts_is_taken_back_when_the_nemesis_is_interrupted(
    tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place()
    real: Callable[..., Any] = getattr(place, when)
    calls = []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(place, when, interrupted)
    with pytest.raises(KeyboardInterrupt):
        _run(
            place,
            tmp_path,
            Injection(0, EXECUTOR, Fault.PAUSE, Moment.RANDOM, duration_s=30),
            Injection(1, DRIVER, Fault.PAUSE, Moment.RECOVERY, duration_s=30),
        )
    assert "heal executor 0" in place.log


@pytest.mark.parametrize("when", ["held", "strike", "landed"])
def test_no_order_is_left_when_the_nemesis_is_interrupted(
    tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place()

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, when, interrupted)
    with pytest.raises(KeyboardInterrupt):
        _run(
            place,
            tmp_path,
            Injection(0, EXECUTOR, Fault.KILL, Moment.CHECKED),
            Injection(1, EXECUTOR, Fault.KILL, Moment.OPENED),
        )
    assert place.ordered, "the test needs an order"
    assert not place.orders
