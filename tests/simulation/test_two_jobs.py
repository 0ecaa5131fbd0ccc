"""Two drivers run the same job at once, each with executors of its own.

A cluster that is cut in two does that.  One of them may give up, loudly; the table stays exact.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from holdfast.errors import OffsetOverlap
from holdfast.runtime import cluster, micro_batch, packed_batch
from tests.simulation.fake_spark import DriverDied, FakeSpark
from tests.simulation.job import Job
from tests.simulation.world import History, World, history_of

_SEEDS = 12
_TURNS = 6  # at most, in each round


@dataclass
class _Side:
    spark: FakeSpark
    job: Job | None = None


class _TwoJobs(World):
    """Lets two drivers take turns, batch by batch."""

    def __init__(self, history: History, patch: pytest.MonkeyPatch) -> None:
        super().__init__(history, patch)
        self._patch = patch
        self._sides = [_Side(self._spark), _Side(self._new_spark(first_volume=100))]
        self.given_up = 0

    def _live(self) -> None:
        self._injector.armed = True
        while self._round < self._history.rounds:
            self._round += 1
            self._next_round()
            for _ in range(self._rng.randint(1, _TURNS)):
                self._turn(self._rng.choice(self._sides))
        first, second = self._sides
        second.spark.end_zombies()
        second.spark.kill_all()
        self._enter(first)
        self._spark.kill_all()
        self._spark.start_driver()

    def _turn(self, side: _Side) -> None:
        self._enter(side)
        try:
            if side.job is None:
                side.spark.start_driver()
                side.job = self._started()
            side.job.step()
        except OffsetOverlap:
            self.given_up += 1
            side.spark.kill_all()
            side.job = None
        except DriverDied:
            side.job = None

    def _enter(self, side: _Side) -> None:
        self._spark = spark = side.spark
        self._injector.strike = spark.strike
        self._kafka.current = spark.driver
        for module in (cluster, micro_batch):
            self._patch.setattr(module, "located", spark.located)
            self._patch.setattr(module, "on_state_workers", spark.on_state_workers)
        for module in (micro_batch, packed_batch):
            self._patch.setattr(module, "on_owners", spark.on_owners)
        self._patch.setattr(packed_batch, "located", spark.located)
        self._patch.setattr(cluster, "executors", spark.executors)


def test_two_jobs_under_one_id_do_no_harm() -> None:
    wrong, seen = {}, Counter[str]()
    for seed in range(_SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            world = _TwoJobs(history_of(seed), patch)
            outcome = world.run()
        seen["given up"] += world.given_up
        seen += outcome.visits
        if outcome.failure:
            wrong[seed] = outcome.failure
    assert not wrong
    assert seen["given up"] > 0, "the two never met"
