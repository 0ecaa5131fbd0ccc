"""Spark without Spark: executors with volumes, tasks that are run again when theirs dies.

Takes the place of the functions of `holdfast.runtime.jvm.spark_internals`; whatever the engine does
around them is the engine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.runtime.jvm.spark_internals import Executor as Known
from holdfast.tasks import worker
from holdfast.tasks.savepoints import SavepointCopies
from holdfast.tasks.snapshots import Snapshots
from holdfast.tasks.standbys import Standbys
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.fakes.coroutine import Coroutine
from tests.simulation.fakes.disk import Disk, FakeVolume
from tests.simulation.fakes.kafka import FakeKafka
from tests.simulation.histories.faults import Fault, Injector, Kind

__all__ = [
    "Crash",
    "Driver",
    "DriverDied",
    "Executor",
    "FakeContext",
    "FakeSpark",
    "JobAborted",
    "Rdd",
    "Shuffled",
]

_Work = Callable[[int, Any], Iterable[Any]]
_Blobs = list[tuple[int, bytes]]  # each with the number of the task that gets it

_HEARTBEAT_S = 20.0  # a stopped executor is given up after so long
_FAILURES_MAX = 8  # `spark.task.maxFailures` of `runtime.jvm.session`


class Crash(BaseException):  # not an Exception: nothing may catch it and go on
    """The process that runs is gone; unwinds it."""


class DriverDied(BaseException):
    """The driver is gone; unwinds it."""


class JobAborted(Exception):
    """A task failed too often, the last time with `cause`; Spark would tell that as text."""

    def __init__(self, cause: HoldfastError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class FakeContext:
    """`SparkContext`, as far as batches describe themselves with it."""

    def setJobDescription(self, text: str) -> None:  # noqa: N802 - Spark's name
        """Nobody looks."""

    def setLocalProperty(self, name: str, text: str) -> None:  # noqa: N802 - Spark's name
        """Nobody looks."""


@dataclass(eq=False)
class Driver:
    """The driver's process."""

    alive: bool = True


@dataclass(eq=False)
class Executor:
    """An executor's process: what it has in memory, and the volume it holds."""

    known: Known
    volume: FakeVolume
    alive: bool = True
    state_tasks: dict[Any, Any] = field(default_factory=dict)
    stream_tasks: dict[Any, Any] = field(default_factory=dict)
    standbys: Standbys = field(default_factory=partial(Standbys, threaded=False))
    snapshots: Snapshots = field(default_factory=partial(Snapshots, threaded=False))
    copiers: dict[Any, Any] = field(default_factory=dict)
    copies: SavepointCopies = field(default_factory=partial(SavepointCopies, threaded=False))


@dataclass
class Rdd:
    """One element per partition, each with the place it should go to."""

    elements: list[Any]
    locations: list[str]


@dataclass
class Shuffled:
    """The blobs that `work` makes of each element, to be moved to other tasks.

    Attributes:
        made: the blobs of each element, and the executor that has them: they are lost with it.
    """

    rdd: Rdd
    work: _Work
    made: dict[int, tuple[Executor, _Blobs]] = field(default_factory=dict)

    def missing(self) -> list[int]:
        """The elements whose blobs nobody has."""
        numbers = range(len(self.rdd.elements))
        return [n for n in numbers if n not in self.made or not self.made[n][0].alive]

    def parts(self, task: int) -> list[bytes]:
        """The blobs for a task."""
        return [blob for _, (_, blobs) in sorted(self.made.items()) for to, blob in blobs
                if to == task]  # fmt: skip


@dataclass
class _Zombie:
    executor: Executor
    call: Coroutine
    tasks_left: int  # of others, before it goes on


class FakeSpark:
    """Owns the executors, dead and alive, and who runs now."""

    def __init__(
        self, executors: int, clock: VirtualTime, rng: random.Random, kafka: FakeKafka,
        disk: Disk, injector: Injector, first_volume: int = 0,
    ) -> None:  # fmt: skip
        self._count = executors
        self._clock = clock
        self._rng = rng
        self._kafka = kafka
        self._disk = disk
        self._injector = injector
        self._first_volume = first_volume
        self._made = 0
        self.alive: list[Executor] = []
        self._ghosts: list[tuple[Known, float]] = []  # dead, and until when the driver thinks not
        self._births_s: list[float] = []
        self._zombies: list[_Zombie] = []
        self._running: tuple[Executor, Coroutine | None] | None = None
        self._driver_dies = False
        self.driver = Driver()
        self.in_order: Callable[[list[int]], None] = rng.shuffle  # how tasks of a stage come
        self.follows = 0.0  # chance that the threads of an executor work between two tasks

    # -- what the engine calls -----------------------------------------------------------------

    def executors(self, context: object) -> list[Known]:
        self._be_born()
        self._ghosts = [(k, until) for k, until in self._ghosts if until > self._clock.monotonic()]
        return sorted([e.known for e in self.alive] + [k for k, _ in self._ghosts])

    def ended_executors(self, context: object) -> int:
        return len(self._ghosts)

    def located(self, context: object, locations: Sequence[str]) -> Rdd:
        return Rdd(list(range(len(locations))), list(locations))

    def shuffled(self, rdd: Rdd, work: _Work, count: int) -> Shuffled:
        """Lazy, as in Spark: blobs are made for the tasks that want them."""
        return Shuffled(rdd, work)

    def on_state_workers(self, rdd: Rdd, work: _Work, partitions: Sequence[int]) -> list[Any]:
        calls = {p: partial(_run_to_its_end, work, p, [rdd.elements[p]]) for p in partitions}
        return self._run_all(calls, rdd.locations)

    def follow(self) -> None:
        """Lets one executor restore its standbys and take snapshots, as its threads do."""
        if self.alive:
            executor = self._rng.choice(self.alive)

            def turn() -> list[Any]:
                executor.standbys.turn()
                executor.snapshots.turn()
                return []

            with suppress(Crash):  # it may be killed or stopped meanwhile
                self._attempt(executor, turn)
            self._as_driver()
            self._die_if_told()

    def follow_all(self) -> None:
        """Lets every executor restore its standbys once."""
        for executor in self.alive:
            self._enter(executor, None)
            executor.standbys.turn()
        self._as_driver()

    def on_owners(
        self, payloads: Shuffled, locations: Sequence[str], work: _Work, partitions: Sequence[int]
    ) -> list[Any]:
        def tried(partition: int) -> list[Any]:
            parts = payloads.parts(partition)  # each try of a task has its own
            self._rng.shuffle(parts)  # whichever arrives first
            return list(work(partition, parts))

        calls = {p: partial(tried, p) for p in partitions}
        return self._run_all(calls, locations, lambda: self._make(payloads))

    def _run_all(
        self, calls: Mapping[int, Callable[[], list[Any]]], locations: Sequence[str],
        prepare: Callable[[], None] = lambda: None,
    ) -> list[Any]:  # fmt: skip
        order = list(calls)
        self.in_order(order)
        answers = []
        for p in order:
            self._wake_zombies()
            if self.follows and self._rng.random() < self.follows:
                self.follow()
            answers += self._run_task(locations[p], calls[p], prepare)
        self._die_if_told()
        return answers

    def _make(self, shuffled: Shuffled) -> None:
        """Runs the tasks whose blobs are missing: at first all, later those of lost executors."""
        for n in shuffled.missing():
            self._make_blobs(shuffled, n)

    def _make_blobs(self, shuffled: Shuffled, n: int) -> None:
        rdd, failures = shuffled.rdd, 0
        while True:
            executor = self._placed(rdd.locations[n])
            self._enter(executor, None)  # it reaches no step, at which it could be stopped
            try:
                blobs = _run_to_its_end(shuffled.work, n, [rdd.elements[n]])
            except Crash:
                pass
            except HoldfastError as error:
                failures += 1
                if failures == _FAILURES_MAX:
                    raise JobAborted(error) from error
            else:
                shuffled.made[n] = executor, blobs
                return
            finally:
                self._as_driver()
            self._die_if_told()

    # -- life and death ------------------------------------------------------------------------

    def start_driver(self) -> None:
        """A new driver, with new executors on the volumes that are free."""
        self.driver = Driver()
        self._driver_dies = False
        self._births_s = [self._clock.monotonic()] * self._count
        self._as_driver()

    def strike(self, fault: Fault) -> None:
        """A fault hits the executor that runs now, right after a step."""
        executor, call = self.running, self._running[1] if self._running else None
        if fault.kind is Kind.PAUSE:
            assert call is not None, "a task that may be stopped runs in a coroutine"
            call.pause()
            if not executor.alive:
                raise Crash
            return
        if fault.kind is Kind.DRIVER_LATER:
            self._driver_dies = True
            return
        self._driver_dies |= fault.kind is Kind.DRIVER
        every = fault.kind in {Kind.KILL_ALL, Kind.DRIVER}
        for victim in list(self.alive) if every else [executor]:
            self.kill(victim)
        if fault.kind is Kind.MACHINE:
            self._disk.crash(executor.volume.path)
        elif fault.kind is Kind.LOSE_VOLUME:
            self._disk.delete(executor.volume.path)
        raise Crash

    @property
    def running(self) -> Executor:
        """The executor whose worker is running."""
        assert self._running is not None, "steps are reached inside a task"
        return self._running[0]

    @property
    def in_driver(self) -> bool:
        """Whether the driver's process runs, and not a task."""
        return self._running is None

    @property
    def dead_within(self) -> bool:
        """Whether the executor whose task runs now has been killed meanwhile."""
        return self._running is not None and not self._running[0].alive

    def kill(self, executor: Executor, away_s: float | None = None) -> None:
        """A process is gone; another one takes the lowest free volume after a while."""
        executor.alive = False
        if executor in self.alive:
            self._lose(executor, away_s)

    def kill_all(self) -> None:
        """The driver has died, and its executors with it; zombies do not notice."""
        self.driver.alive = False
        for executor in self.alive:
            executor.alive = False
        self.alive, self._ghosts, self._births_s = [], [], []

    def doom(self) -> None:
        """The driver and its executors die where they are."""
        self._driver_dies = True
        for executor in self.alive:
            executor.alive = False

    def end_zombies(self) -> None:
        """Lets every stopped process go on to its end."""
        while self._zombies:
            self._wake(self._zombies.pop())

    def _lose(self, executor: Executor, away_s: float | None = None) -> None:
        self.alive.remove(executor)
        now, rng = self._clock.monotonic(), self._rng
        self._ghosts.append((executor.known, now + rng.choice((0.0, 0.0, 2.0))))
        self._births_s.append(now + (away_s or rng.choice((0.5, 4.0, 20.0))))

    def _be_born(self) -> None:
        due = [b for b in self._births_s if b <= self._clock.monotonic()]
        self._births_s = [b for b in self._births_s if b > self._clock.monotonic()]
        for _ in due:
            held = {e.volume.ordinal for e in self.alive}
            held |= {z.executor.volume.ordinal for z in self._zombies}
            ordinal = next(n for n in count(self._first_volume) if n not in held)
            self._made += 1
            known = Known(f"{self._made:04d}", "host")
            self.alive.append(Executor(known, FakeVolume(self._disk, ordinal)))

    # -- tasks ---------------------------------------------------------------------------------

    def _run_task(
        self, location: str, call: Callable[[], list[Any]], prepare: Callable[[], None]
    ) -> list[Any]:
        while True:
            prepare()
            try:
                return self._attempt(self._placed(location), call)
            except Crash:
                self._as_driver()
                self._die_if_told()

    def _placed(self, location: str) -> Executor:
        """The executor a task should go to, or another one that is alive."""
        self._be_born()
        while not self.alive:
            self._clock.sleep(min(self._births_s) - self._clock.monotonic())
            self._be_born()
        wanted = [e for e in self.alive if e.known.location == location]
        return wanted[0] if wanted else self._rng.choice(self.alive)

    def _attempt(self, executor: Executor, call: Callable[[], list[Any]]) -> list[Any]:
        answers: list[Any]
        if not self._injector.may_pause:
            self._enter(executor, None)
            answers = call()
        else:
            coroutine = Coroutine(call)
            self._enter(executor, coroutine)
            if not coroutine.resume():
                self._zombies.append(_Zombie(executor, coroutine, self._rng.randint(0, 12)))
                self._clock.sleep(self._rng.uniform(0, 2 * _HEARTBEAT_S))
                self._lose(executor)
                raise Crash
            answers = coroutine.outcome()
        self._as_driver()
        self._die_if_told()
        return answers

    def _die_if_told(self) -> None:
        if self._driver_dies:
            self.kill_all()
            raise DriverDied

    def _wake_zombies(self) -> None:
        for zombie in list(self._zombies):
            zombie.tasks_left -= 1
            if zombie.tasks_left < 0:
                self._zombies.remove(zombie)
                self._wake(zombie)

    def _wake(self, zombie: _Zombie) -> None:
        """Continues to the end of its task, whose answer is lost, and then ends."""
        armed, self._injector.armed = self._injector.armed, False
        self._enter(zombie.executor, zombie.call)
        assert zombie.call.resume(), "a zombie is not stopped twice"
        self._injector.armed = armed
        zombie.executor.alive = False
        self._as_driver()
        for answer in zombie.call.outcome():
            if isinstance(answer, HoldfastError):
                self._injector.hits["zombie", type(answer).__name__] += 1

    def _enter(self, executor: Executor, call: Coroutine | None) -> None:
        """From here on this executor's Python worker runs."""
        self._running = (executor, call)
        self._kafka.current = executor
        worker._state_tasks = executor.state_tasks
        worker._stream_tasks = executor.stream_tasks
        worker._standbys = executor.standbys
        worker._snapshots = executor.snapshots
        worker._copies = executor.copies
        worker._copiers = executor.copiers
        worker._volume = lambda *_: executor.volume  # type: ignore[assignment]
        worker._processes = lambda: (executor.known.id, 0, 0)  # type: ignore[assignment]

    def _as_driver(self) -> None:
        self._running = None
        self._kafka.current = self.driver


def _run_to_its_end(work: _Work, partition: int, elements: list[Any]) -> list[Any]:
    return list(work(partition, elements))
