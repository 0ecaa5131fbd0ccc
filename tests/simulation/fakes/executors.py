"""A few executors on the fakes without a driver: tests call their workers by hand."""

from __future__ import annotations

import random

import pytest

from holdfast.runtime.jvm.spark_internals import Executor as Known
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.fakes.database import Database
from tests.simulation.fakes.disk import Disk, FakeVolume
from tests.simulation.fakes.install import install
from tests.simulation.fakes.kafka import FakeKafka
from tests.simulation.fakes.spark import Executor, FakeSpark
from tests.simulation.histories.faults import Injector
from tests.simulation.histories.job import settings_of

__all__ = ["Bench"]


class Bench:
    """Owns the fakes of one test."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        rng = random.Random(0)
        self.clock = VirtualTime()
        self.kafka = FakeKafka(self.clock, rng)
        self.settings = settings_of(rng, 1, 2)
        self.ordinal = 0
        self.disk = disk = Disk(rng)
        injector = Injector(())
        self._spark = FakeSpark(2, self.clock, rng, self.kafka, disk, injector)
        self.database = Database()
        install(patch, self.clock, self.kafka, disk, self._spark, injector.step, self.database)
        self._executors = [self._new(n) for n in range(2)]

    def on(self, executor: int) -> None:
        """From here on this executor's worker runs."""
        self.ordinal = executor
        self._spark._enter(self._executors[executor], None)

    def kill(self) -> None:
        """The executor that runs is gone; its successor on the same volume is new."""
        self._executors[self.ordinal].alive = False
        self._executors[self.ordinal] = self._new(self.ordinal)

    def renew(self) -> None:
        """The executor that runs has been started again: its stores are closed."""
        self.kill()
        self.on(self.ordinal)

    def lose_volume(self) -> None:
        """The executor that runs is gone with its volume; its successor finds nothing."""
        self.disk.delete(self._executors[self.ordinal].volume.path)
        self.renew()

    def crash(self) -> None:
        """The machine of the executor that runs has been started again."""
        self._executors[self.ordinal].alive = False
        self.disk.crash(self._executors[self.ordinal].volume.path)
        self.renew()

    def rows(self) -> list[tuple[bytes, bytes]]:
        """The rows of the open store of the running executor."""
        (task,) = self._executors[self.ordinal].state_tasks.values()
        return list(task._opened()[1].scan())

    def _new(self, ordinal: int) -> Executor:
        return Executor(Known(str(ordinal), "host"), FakeVolume(self.disk, ordinal))
