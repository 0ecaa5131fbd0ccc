"""A history step by step: a test says what drivers do, and the simulation judges what is left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, cast

import pytest

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.runtime.queries.batches.cutting import Cutting
from holdfast.types.ids import Place
from holdfast.types.statements.topology import Query
from holdfast.types.steps import Step
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.histories.drivers import Side, Sides
from tests.simulation.histories.job import Job
from tests.simulation.histories.moves import Moves
from tests.simulation.histories.world import History, Outcome, Refused, World

__all__ = ["Stage", "follow", "windows"]

TIME_MS = 1_000_000


class Stage(World):
    """Owns one history that a test directs.

    Attributes:
        upto: where batches that are planned now end in some topic partitions.
        excused: checkers that what befell the job makes useless.
    """

    def __init__(
        self, statement: str, script: Callable[[Stage], None], patch: pytest.MonkeyPatch,
        home: str, drivers: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(History(0, statement, 2, 1, 0, (), drivers=drivers), patch)
        self._script = script
        self.upto: dict[Place, int] = {}
        self.excused: frozenset[str] = frozenset()
        self._settings = replace(self._settings, retry_timeout_ms=20_000)
        self._home = home
        self._cutting: Cutting | None = None
        for side in self._sides.all:
            side.spark.in_order = list.sort

    # -- what a test may touch -----------------------------------------------------------------

    @property
    def sides(self) -> Sides:
        return self._sides

    @property
    def clock(self) -> VirtualTime:
        return self._clock

    @property
    def moves(self) -> Moves:
        return self._moves

    @property
    def queries(self) -> tuple[Query, ...]:
        return tuple(self._topology.queries)

    @property
    def settings(self) -> Settings:
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._settings = settings

    def write(self, partition: int, count: int, keys: int = 4) -> None:
        """So many records to a partition of the source topic."""
        log = self._kafka.log("s", partition)
        for n in range(count):
            value = json.dumps({"v": 1, "ts": TIME_MS}).encode()
            log.append(b"k%d" % (n % keys), value, TIME_MS)

    def write_at(self, partition: int, key: str, time_ms: int, v: int = 1) -> None:
        """One record of that event time, after `TIME_MS`."""
        at = TIME_MS + time_ms
        value = json.dumps({"v": v, "ts": at}).encode()
        self._kafka.log("s", partition).append(key.encode(), value, at)

    def lose_stores(self) -> None:
        """Every volume is lost."""
        for path in self._disk.paths(Path()):
            self._disk.delete(path)

    def swap_stores(self) -> None:
        """State partitions 0 and 1 of the one volume change places."""
        first, second = self._disk.paths(Path())
        self._disk.swap(first, second)

    def refuse(self, error: type[HoldfastError]) -> NoReturn:
        """The next start has to be refused so; that is the end of the history."""
        with pytest.raises(error):
            self.drive()
        raise Refused

    def drive(self) -> None:
        """One driver processes all input, then all processes die."""
        self._current.spark = self._spark
        self._spark.start_driver()
        try:
            self._drive()
        finally:
            self._spark.kill_all()

    def each_a_driver(self) -> list[Side]:
        """The queries of one job, in their order: each can be stopped by itself.

        They share the job's book of cuts.  All drivers there were are ended.
        """
        self._sides.stop()
        settings = replace(self._settings, home=self._home)
        self._cutting = Cutting(cast("Any", self._admin), settings, self.queries)
        self._sides.all = [
            Side(self._new_spark(100 * (n + 1)), partial(self._job, query))
            for n, query in enumerate(self.queries)
        ]
        for side in self._sides.all:
            side.spark.in_order = list.sort
        return self._sides.all

    def until(self, side: Side, step: Step, partition: int) -> None:
        """A driver goes on until it has reached a step on a state partition."""
        self._sides.until(side, lambda side: side.inside == (step, partition))

    def kill(self, side: Side) -> None:
        """A driver dies in the middle of its batch, and its executors do."""
        side.spark.doom()
        self._sides.to_end(side)

    def old_stores(self) -> Callable[[], None]:
        """Copies all stores; the answer brings the copies back."""
        copies = self._disk.copy()

        def bring_back() -> None:
            for path, rows in copies.items():
                self._disk.bring_back(path, rows)

        return bring_back

    def batch(self, side: Side) -> None:
        """A driver begins its next batch, or goes on with the one it is in, and ends it."""
        self._sides.resume(side)
        self._sides.to_end(side)
        if self._cutting is not None:  # as the main loop of a job does, without waiting
            self._cutting._next = 0.0
            runs = [each.job.run for each in self._sides.all if each.job is not None]
            self._cutting.look(runs if len(runs) == len(self.queries) else [])

    def told(self) -> dict[tuple[str, int], int]:
        """The last value of each of the sink's windows, by key and start after `TIME_MS`."""
        found = {}
        for log in self._kafka.topics[self._query.sink.topic].logs:
            for entry in log.visible(log.start, log.stable_end, 1 << 30):
                key, value = entry.key or b"", json.loads(entry.value or b"null")
                start = int.from_bytes(key[-8:], "big") - TIME_MS
                found[key[:-8].decode(), start] = value and value["N"]
        return found

    # -- the run -------------------------------------------------------------------------------

    def _excused(self) -> frozenset[str]:
        return super()._excused() | self.excused

    def _job(self, query: Query) -> Job:
        cutting = self._cutting
        return Job(self._settings, query, self._admin, self._clock, cutting)

    def _live(self) -> None:
        self._injector.armed = True
        try:
            self._script(self)
        except AssertionError as error:  # the script's own, and no failure of the engine
            pytest.fail(str(error))
        if self._history.drivers > 1:
            self._sides.stop()
        self._current.spark = self._spark
        self._spark.start_driver()

    def _cut(
        self, begin: Mapping[Place, int], bounds: Mapping[Place, tuple[int, int]]
    ) -> dict[Place, int]:
        return {place: self.upto.get(place, high) for place, (_, high) in bounds.items()}


def follow(statement: str, script: Callable[[Stage], None], drivers: int = 1) -> Outcome:
    """How a history ends in which the drivers do what a script says; then one is left."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as home:
        return Stage(statement, script, patch, home, drivers).run()


def windows(records: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """How many records each window of ten seconds has, by key and start."""
    return dict(Counter((key, time_ms - time_ms % 10_000) for key, time_ms in records))
