"""Several drivers at once: one of them runs at a time, and any step or request may be its last for
a while.

A cluster that is cut in two has two drivers of one job, each with executors of its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.tasks import worker
from holdfast.types.steps import AnyStep
from tests.simulation.fakes.coroutine import Coroutine
from tests.simulation.fakes.kafka import FakeKafka
from tests.simulation.fakes.spark import (
    Crash,
    DriverDied,
    FakeSpark,
    Rdd,
    Shuffled,
)
from tests.simulation.histories.job import Job

__all__ = ["Current", "Side", "Sides"]

_SLICES = (0, 0, 0, 1, 2, 5, 20, 80)  # steps and requests that a driver does before another's turn
_STALL = 0.04  # chance that it then stops for some rounds: a zombie
_PATIENCE = 100  # batches
_OF_WORKER = (
    "_state_tasks", "_stream_tasks", "_standbys", "_snapshots", "_copiers", "_volume",
    "_processes",
)  # fmt: skip


@dataclass
class Current:
    """Forwards the engine's calls to the Spark of the current driver."""

    spark: FakeSpark

    def ended_executors(self, *args: Any) -> int:
        return self.spark.ended_executors(*args)

    def executors(self, context: object) -> list[Any]:
        return self.spark.executors(context)

    def located(self, context: object, locations: Sequence[str]) -> Rdd:
        return self.spark.located(context, locations)

    def shuffled(self, *args: Any) -> Shuffled:
        return self.spark.shuffled(*args)

    def on_state_workers(self, *args: Any) -> list[Any]:
        return self.spark.on_state_workers(*args)

    def on_owners(self, *args: Any) -> list[Any]:
        return self.spark.on_owners(*args)


@dataclass(eq=False)
class Side:
    """One driver, with its executors.

    Attributes:
        job: None until it is started, and again after its death.
        call: what it is in the middle of.
        stalled: rounds that it still lies still.
        inside: the last step of its batch that it reached.
    """

    spark: FakeSpark
    start: Callable[[], Job]
    job: Job | None = None
    call: Coroutine | None = None
    stalled: int = 0
    slice: int = 0
    inside: tuple[AnyStep, int] | None = None
    died_of: HoldfastError | None = None


@dataclass
class Sides:
    """Owns which driver runs.

    Attributes:
        turns: how often one driver followed another in the middle of something, and what else was
            seen.
    """

    kafka: FakeKafka
    rng: random.Random
    current: Current
    all: list[Side] = field(default_factory=list)
    turns: Counter[str] = field(default_factory=Counter)
    _running: Side | None = None
    _until: Callable[[Side], bool] | None = None

    def resume(self, side: Side) -> None:
        """Lets a driver go on, until it gives its turn away or its batch has ended."""
        self._enter(side)
        side.slice = self.rng.choice(_SLICES)
        if side.call is None:
            side.call = Coroutine(lambda: self._work(side))
            self.kafka.current = side.spark.driver
        ended = side.call.resume()
        self._running = None
        if ended:
            self._ended(side)

    def until(self, side: Side, there: Callable[[Side], bool]) -> None:
        """Lets a driver go on until something holds right after one of its steps."""
        self._until = there
        try:
            for _ in range(_PATIENCE):
                self.resume(side)
                if side.call is not None and there(side):
                    return
                assert side.died_of is None, f"it died before: {side.died_of}"
            raise AssertionError("it never comes there")
        finally:
            self._until = None

    def to_end(self, side: Side) -> None:
        """Lets a driver finish its current call."""
        while side.call is not None:
            self.resume(side)

    def stop(self) -> None:
        """Kills every driver and its executors after their current calls."""
        for side in self.all:
            side.stalled = 0
            self.to_end(side)
            self._enter(side)
            side.spark.end_zombies()
            side.spark.kill_all()
            side.job = None
        self._running = None

    def reached(self, step: AnyStep, partition: int) -> None:
        """Called after every step of a task: another driver may go on now."""
        if self._running is not None:
            self._running.inside = step, partition
            self.switch(self._until is not None and self._until(self._running))

    def switch(self, at_once: bool = False) -> None:
        """Called at every request, too."""
        side = self._running
        if side is None or side.call is None:
            return
        if self._until is None:
            at_once = side.slice <= 0
            side.slice -= 1
        if at_once:
            self._pause(side)

    def close(self) -> None:
        """Ends what is left of every driver, wherever it is."""
        self._running = None
        for side in self.all:
            if side.call is not None:
                side.call.abandon()

    def _pause(self, side: Side) -> None:
        assert side.call is not None, "it is in the middle of something"
        self.turns["switches"] += 1
        if self._until is None and self.rng.random() < _STALL:
            side.stalled = self.rng.randint(1, 3)
            self.turns["stalls"] += 1
        process, known = self.kafka.current, _of_worker()
        side.call.pause()
        self.kafka.current = process
        for name, value in known.items():
            setattr(worker, name, value)
        if side.spark.dead_within:
            raise Crash

    def _enter(self, side: Side) -> None:
        self._running = side
        self.current.spark = side.spark

    def _work(self, side: Side) -> None:
        if side.job is None:
            side.spark.start_driver()
            side.job = side.start()
        side.job.step()

    def _ended(self, side: Side) -> None:
        """The batch has ended, or the driver has: it is started again when its turn comes."""
        call, side.call, side.inside, side.died_of = side.call, None, None, None
        assert call is not None, "it has run"
        try:
            call.outcome()
        except DriverDied:
            side.job = None
        except HoldfastError as error:
            self.turns[type(error).__name__] += 1
            side.died_of = error
            side.spark.kill_all()
            side.job = None


def _of_worker() -> Mapping[str, Any]:
    return {name: getattr(worker, name) for name in _OF_WORKER}
