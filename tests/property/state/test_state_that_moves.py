"""State that moves between executors, standbys and snapshots, against a dict.

The executors' workers run as they are, on the simulation's Kafka, disks and place of snapshots.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.errors import HoldfastError, PlanAgain
from holdfast.state.changelog import DATA_PREFIX
from holdfast.tasks import worker
from holdfast.tasks.plan import TaskReport
from tests.simulation.jobs.one_partition import INTERVAL_S, OnePartition

EXECUTORS = st.integers(0, 1)
KEYS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), min_size=1, max_size=4)


class MovingState(RuleBasedStateMachine):
    """Rules act on one of two executors; the dict counts the records of each key."""

    statement = "totals"

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.job = OnePartition(self.patch, self.statement)
        self.counted: Counter[bytes] = Counter()
        self.owner = 0
        self.time_ms = 1_000_000
        self.level = False  # whether the owner's store is open, and level

    @rule(executor=EXECUTORS, keys=KEYS, seconds=st.integers(0, 30))
    def batch(self, executor: int, keys: list[bytes], seconds: int) -> None:
        """An executor becomes the owner, or stays it, without asking the former one."""
        self.time_ms += seconds * 1000
        for key in keys:
            self.job.write(key, json.dumps({"v": 1, "ts": self.time_ms}).encode())
        self.job.bench.on(executor)
        report = self.job.apply(self.job.done + len(keys))
        assert not report.skipped
        self.counted.update(keys)
        self.owner, self.level = executor, True

    @rule(executor=EXECUTORS)
    @precondition(lambda self: self.job.batch)
    def former_owner(self, executor: int) -> None:
        """An executor that does not know better repeats the last batch."""
        self.job.bench.on(executor)
        end = self.job.done
        answer = self.job.try_batch(self.job.batch - 1, end - 1, end)
        assert isinstance(answer, PlanAgain) or (
            answer.skipped if isinstance(answer, TaskReport) else isinstance(answer, HoldfastError)
        )
        self.level = False

    @rule(executor=EXECUTORS)
    def stands_by(self, executor: int) -> None:
        self.job.bench.on(executor)
        state = self.job.follow(1 - executor, executor)
        assert state is None or not state.error, state
        self.level = self.level and executor != self.owner

    @rule(executor=EXECUTORS)
    def snapshot(self, executor: int) -> None:
        self.job.bench.on(executor)
        self.job.bench.clock.sleep(INTERVAL_S)
        worker._snapshots.turn()

    @rule(executor=EXECUTORS, volume=st.booleans())
    def kill(self, executor: int, volume: bool) -> None:
        self.job.bench.on(executor)
        if volume:
            self.job.bench.lose_volume()
        else:
            self.job.bench.renew()
        self.level = self.level and executor != self.owner

    @rule(executor=EXECUTORS)
    def machine(self, executor: int) -> None:
        """The executor's machine crashes: what was not synced may be gone."""
        self.job.bench.on(executor)
        self.job.bench.crash()
        self.level = self.level and executor != self.owner

    @rule()
    def damage(self) -> None:
        self.job.place.damage()

    @rule(seconds=st.sampled_from([10, 100]))
    def outage(self, seconds: int) -> None:
        self.job.place.away_until_s = self.job.bench.clock.monotonic() + seconds

    @rule(seconds=st.sampled_from([5, 70]))
    def wait(self, seconds: int) -> None:
        """Also longer than tombstones are kept."""
        self.job.bench.clock.sleep(seconds)

    @rule()
    def clean(self) -> None:
        self.job.bench.kafka.compact(self.job.changelog)

    @invariant()
    def the_changelog_and_the_owners_store_agree(self) -> None:
        if self.level:
            self.job.bench.on(self.owner)
            assert dict(self.job.bench.rows()) == self._changelog()

    @invariant()
    def every_record_is_counted_once(self) -> None:
        log = self.job.bench.kafka.log(self.job.plan.query.sink.topic, 0)
        rows = {e.key: e.value for e in log.entries if e.visible and e.key is not None}
        found = {key: json.loads(value)["N"] for key, value in rows.items() if value is not None}
        assert found == self.counted

    def _changelog(self) -> dict[bytes, bytes]:
        log = self.job.bench.kafka.log(self.job.changelog, 0)
        last = {e.key: e.value for e in log.entries if e.visible and e.key is not None}
        return {
            key[1:]: value
            for key, value in last.items()
            if value is not None and key.startswith(DATA_PREFIX)
        }

    def teardown(self) -> None:
        self.job.close()
        self.patch.undo()


class MovingWindows(MovingState):
    """Windows, whose rows leave the store by tombstones when their time is over."""

    statement = "windows"

    @invariant()
    def every_record_is_counted_once(self) -> None:
        """A window's key in the sink has its time, and late records are not counted."""


_SETTINGS = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
for _machine in (MovingState, MovingWindows):
    _machine.TestCase.settings = _SETTINGS
TestMovingState = MovingState.TestCase
TestMovingWindows = MovingWindows.TestCase
