"""Carries out a schedule: strike, check that the fault landed, heal, wait for the recovery.

    group of faults that follow each other closely
      for each: wait → (aimed: order a hold, wait until held) → choose victims → strike
                → check until it landed → release the held task
      heal faults that last, each after its time
      wait until the victims have successors and every query commits again

Every fault is written down before and after it happens; see `holdfast.chaos.history.events`.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

from holdfast.chaos.faults.recovery import longest_silence
from holdfast.chaos.faults.schedule import groups
from holdfast.chaos.faults.target import Held, Hook, Landing, Target, Victim
from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.events import HistoryWriter, Kind
from holdfast.errors import HoldfastError, Retriable
from holdfast.types.components import BROKER, EXECUTOR, SERVER

__all__ = ["Nemesis", "Patience", "Progress"]

_POLL_S = 0.1
_AGAIN_S = 1.0


class Progress(Protocol):
    """The progress of the job's commits; see `Sampler`."""

    @property
    def lag(self) -> int | None: ...

    def samples(self) -> list[tuple[float, int]]: ...

    def advanced(self, since: float) -> bool: ...


@dataclass(frozen=True)
class Patience:
    """How long the nemesis waits, in seconds.

    Attributes:
        held: for a state task to reach the step that is aimed at.
        landed: for a fault to show its effect; a second driver has to start first.
        recovered: for the job to commit again.
    """

    held: float = 120.0
    landed: float = 240.0
    recovered: float = 360.0


@dataclass
class _Struck:
    """A fault under way; `ends_at` (monotonic s) is when it is healed."""

    injection: Injection
    victims: tuple[Victim, ...]
    at: float  # wall seconds
    ends_at: float
    landed: bool
    healed: bool = False


@dataclass
class _Group:
    """The faults of a group so far, and the hold order that a later fault of it waits for."""

    struck: list[_Struck] = field(default_factory=list)
    ordered: str | None = None


class Nemesis:
    """Owns the faults it injected until they are healed.

    Args:
        tell: receives a line for people now and then.
    """

    def __init__(
        self,
        target: Target,
        history: HistoryWriter,
        progress: Progress,
        tell: Callable[[str], None],
        patience: Patience | None = None,
    ) -> None:
        self._target, self._history, self._progress, self._tell = target, history, progress, tell
        self._patience = patience or Patience()
        # Orders of an earlier run may still lie in the hook's folder.
        self._token = uuid.uuid4().hex[:8]
        self._hook: Hook | None = None
        self.tried = 0
        """Faults so far, whether they landed or not."""

    def run(self, schedule: Sequence[Injection], duration_s: float = 0.0) -> bool:
        """Carries out the schedule; False when the job did not recover, which ends the schedule.

        Args:
            duration_s: no fault begins after it, except followers of an earlier one; 0: no limit.

        Raises:
            KeyboardInterrupt: after healing the faults that last and releasing what was ordered.
        """
        # While the processes that have the hook are down, the target cannot tell that it exists.
        self._hook = self._target.hook
        end = time.monotonic() + (duration_s or float("inf"))
        total = "" if duration_s else f" of {len(schedule)}"
        for group in groups(schedule):
            if time.monotonic() >= end:
                self._history.state("time_over", injections=self.tried)
                break
            state = _Group()
            try:
                for injection, later in zip(group, (*group[1:], None), strict=True):
                    self._tell(f"fault {injection.number + 1}{total}: {_words(injection)}")
                    self._inject(state, injection, later)
                    self.tried += 1
                self._sleep(state, max((s.ends_at for s in state.struck), default=0.0))
            finally:
                self._heal_due(state, float("inf"))
                if state.ordered is not None:
                    self._release(state.ordered)
            if not self._recover(state):
                return False
        return not self._target.refusal()

    # -- one fault ---------------------------------------------------------------------------

    def _inject(self, state: _Group, injection: Injection, later: Injection | None) -> None:
        self._wait(state, injection)
        step, order = injection.moment.step, state.ordered
        if step is not None and order is None:
            order = self._order(injection)
        state.ordered = None
        try:
            held = self._await_held(state, order) if order is not None else None
            if step is not None and held is None:
                why = f"no state task got past {step.name} in {self._patience.held} s"
                self._missed(injection, self._target.refusal() or why)
            else:
                if later is not None and later.moment.step is not None:
                    state.ordered = self._order(later)
                self._strike(state, injection, held)
        finally:
            if order is not None:
                self._release(order)

    def _wait(self, state: _Group, injection: Injection) -> None:
        start = time.monotonic()
        if injection.moment is Moment.RECOVERY and state.struck:
            start -= time.time() - state.struck[-1].at
        self._sleep(state, start + injection.delay_s)

    def _order(self, injection: Injection) -> str | None:
        hook, step = self._hook, injection.moment.step
        if hook is None or step is None:
            return None
        order = f"{self._token}x{injection.number}"
        hook.order(order, step, self._patience.held + injection.duration_s)
        return order

    def _await_held(self, state: _Group, order: str) -> Held | None:
        hook = self._hook
        assert hook is not None, "an order has a hook"
        deadline = time.monotonic() + self._patience.held
        while time.monotonic() < deadline and not self._target.refusal():
            held = hook.held(order)
            if held is not None:
                return held
            self._heal_due(state, time.monotonic())
            time.sleep(_POLL_S / 2)
        return None

    def _missed(self, injection: Injection, why: str) -> None:
        op = self._history.invoke(
            "inject", injection=asdict(injection), victims=[], moment_held=None
        )
        self._history.outcome(Kind.FAIL, "inject", op, landed=False, evidence=why, did="nothing",
                              lag_before=self._progress.lag, struck_s=time.time())  # fmt: skip

    def _strike(self, state: _Group, injection: Injection, held: Held | None) -> None:
        """Retries until a victim can be hit: processes that are just starting often cannot."""
        deadline = time.monotonic() + self._patience.recovered
        for turn in itertools.count():
            victims = self._victims(state, injection, held, turn)
            if not victims:
                why = f"there was no {injection.component} to hit"
                self._missed(injection, self._target.refusal() or why)
                return
            if self._try(state, injection, held, victims) or time.monotonic() >= deadline:
                return
            self._sleep(state, time.monotonic() + _AGAIN_S)

    def _try(
        self, state: _Group, injection: Injection, held: Held | None, victims: tuple[Victim, ...]
    ) -> bool:
        """One try; False when nothing was done and another try may succeed."""
        op = self._history.invoke(
            "inject",
            injection=asdict(injection),
            victims=[asdict(v) for v in victims],
            moment_held=None if held is None else {**asdict(held), "step": held.step.name},
        )
        lag, at, did, again = self._progress.lag, time.time(), list[str](), False
        try:
            for victim in victims:
                did.append(self._target.strike(victim, injection.fault))
            if injection.fault is Fault.DELETE and held is not None:
                self._release(held.order)  # a graceful end needs its batch to finish
            landing = self._landing(state, victims, injection)
        except HoldfastError as error:
            landing, again = Landing(False, error.fact), isinstance(error, Retriable) and not did
        if not again:
            ends_at = time.monotonic() + injection.duration_s
            state.struck.append(_Struck(injection, victims, at, ends_at, landing.landed))
        kind = Kind.OK if landing.landed else Kind.FAIL
        self._history.outcome(kind, "inject", op, landed=landing.landed, struck_s=at,
                              did="; ".join(did) or "nothing", evidence=landing.evidence,
                              lag_before=lag)  # fmt: skip
        return not again

    def _release(self, order: str) -> None:
        if self._hook is not None:
            self._hook.release(order)

    def _victims(
        self, state: _Group, injection: Injection, held: Held | None, turn: int
    ) -> tuple[Victim, ...]:
        """Chooses the victims, others at each try; waits while the job recovers from a fault.

        A victim that an earlier fault hit without ending it comes first: a driver stopped and then
        killed leaves workers that continue long after it was replaced.
        """
        deadline = time.monotonic() + self._patience.recovered
        hit = {v.identity for one in state.struck for v in one.victims}
        while True:
            found = self._target.victims(injection.component)
            alive = sorted(found, key=lambda victim: victim.identity not in hit)
            if held is not None and injection.component == EXECUTOR:
                chosen = tuple(v for v in alive if v.name == held.victim)
            else:
                chosen = _choose(alive, injection, turn)
            if chosen or time.monotonic() >= deadline or self._target.refusal():
                return chosen
            self._heal_due(state, time.monotonic())
            time.sleep(_POLL_S)

    def _landing(self, state: _Group, victims: Sequence[Victim], injection: Injection) -> Landing:
        """Checks until the fault shows; heals in time any fault that may hide it."""
        deadline = time.monotonic() + self._patience.landed
        while True:
            found = [self._target.landed(v, injection.fault) for v in victims]
            landed = all(f.landed for f in found)
            if landed or time.monotonic() >= deadline:
                return Landing(landed, "; ".join(f.evidence for f in found))
            self._heal_due(state, time.monotonic())
            time.sleep(_POLL_S / 4)

    # -- taking back -------------------------------------------------------------------------

    def _sleep(self, state: _Group, until: float) -> None:
        while (now := time.monotonic()) < until:
            self._heal_due(state, now)
            time.sleep(min(_POLL_S, max(0.0, until - now)))

    def _heal_due(self, state: _Group, now: float) -> None:
        for one in state.struck:
            if not one.healed and one.ends_at <= now:
                self._heal(one)

    def _heal(self, one: _Struck) -> None:
        one.healed = True
        for victim in one.victims:
            self._target.heal(victim, one.injection.fault)
            if one.injection.fault.lasts or victim.component in (BROKER, SERVER):
                self._history.state("heal", fault=one.injection.fault, victim=asdict(victim))

    # -- recovery ----------------------------------------------------------------------------

    def _recover(self, state: _Group) -> bool:
        """Waits until the job recovers from every fault of the group, or has ended for good."""
        if not state.struck:
            return not self._target.refusal()
        ops = [(one, self._history.invoke("recover", injection=one.injection.number))
               for one in state.struck]  # fmt: skip
        began = time.monotonic()
        good = self._await_recovery(state.struck, began + self._patience.recovered)
        samples, refusal = self._progress.samples(), self._target.refusal()
        for (one, op), later in zip(ops, [*state.struck[1:], None], strict=True):
            if good:
                before = None if later is None else later.at
                seconds = longest_silence(samples, one.at, before)
                self._history.outcome(Kind.OK, "recover", op, seconds=seconds)
            else:
                waited = time.monotonic() - began
                self._history.outcome(Kind.FAIL, "recover", op, waited_s=waited, refusal=refusal)
        return good

    def _await_recovery(self, struck: Sequence[_Struck], deadline: float) -> bool:
        seen_at: float | None = None
        while time.monotonic() < deadline and not self._target.refusal():
            if seen_at is None and self._all_recovered(struck):
                seen_at = time.time()
            if seen_at is not None and self._progress.advanced(seen_at):
                return True
            time.sleep(_POLL_S)
        return False

    def _all_recovered(self, struck: Sequence[_Struck]) -> bool:
        try:
            return all(self._target.recovered(one.victims) for one in struck)
        except Retriable:
            return False


def _choose(alive: Sequence[Victim], injection: Injection, turn: int) -> tuple[Victim, ...]:
    if len(alive) < injection.count:
        return ()
    first = int(injection.choice * len(alive)) + turn
    return tuple(alive[(first + i) % len(alive)] for i in range(injection.count))


def _words(injection: Injection) -> str:
    several = f"{injection.count} " if injection.count > 1 else ""
    return f"{injection.fault.value} {several}{injection.component}, {injection.moment.value}"
