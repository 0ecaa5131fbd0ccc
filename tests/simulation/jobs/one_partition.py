"""A table of one state partition on a few executors, whose batches a test applies one by one."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.settings import SnapshotSettings
from holdfast.state.snapshots import archive
from holdfast.tasks import worker
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, StandbyDuties, StandbyState, TaskReport
from holdfast.tasks.worker import Answer
from holdfast.types.ids import OffsetRange, changelog_topic
from tests.simulation.fakes.executors import Bench
from tests.simulation.fakes.snapshot_place import SnapshotPlace
from tests.simulation.jobs.payloads import payloads
from tests.simulation.jobs.statements import topology

__all__ = ["INTERVAL_S", "OnePartition"]

INTERVAL_S = 30.0
"""Between two snapshots."""


class OnePartition:
    """Owns the fakes, the input and the place of the snapshots until `close`."""

    def __init__(self, patch: pytest.MonkeyPatch, statement: str = "totals") -> None:
        self.bench = bench = Bench(patch)
        self.place = SnapshotPlace(bench.clock, random.Random(0))
        patch.setattr(archive, "opened", self.place.opened)
        bench.disk.scratch = self.place.root
        query = topology(statement).queries[0]
        snapshots = SnapshotSettings(self.place.uri, int(INTERVAL_S * 1000), 2)
        settings = replace(bench.settings, snapshots=snapshots)
        self.changelog = changelog_topic(settings.application_id, query.id)
        topic = bench.kafka.make_topic(self.changelog, 1, {})
        bench.kafka.make_topic(query.sink.topic, 1, {})
        self.source = bench.kafka.make_topic("s", 1, {}).logs[0]
        self.plan = QueryPlan(settings, query, self.changelog, topic.topic_id, 1, "state")
        self.key = query.id, 0
        self.batch = 0
        self.done = 0  # the source offset up to which batches were applied
        bench.on(0)

    def write(self, key: bytes, value: bytes) -> None:
        """Adds a record to the input."""
        self.source.append(key, value, 1000)

    def try_batch(self, batch: int, start: int, end: int) -> Answer:
        """The running executor's answer to a batch of these source offsets."""
        source = OffsetRange.of("s", {0: start}, {0: end})
        (payload,) = payloads(self.plan.settings, self.plan.query, source, 1)
        assigned = Assigned(self.bench.ordinal)
        return worker.process_partition(self.plan, 0, assigned, Batch(batch, source), payload)

    def apply(self, end: int) -> TaskReport:
        """The next batch, up to a source offset; an owner that was fenced is opened again."""
        answer = self.try_batch(self.batch, self.done, end)
        if not isinstance(answer, TaskReport):
            answer = self.try_batch(self.batch, self.done, end)
        assert isinstance(answer, TaskReport), answer
        self.batch, self.done = self.batch + 1, end
        return answer

    def reopened(self) -> TaskReport:
        """The report of opening the store again."""
        answer = worker.open_partition(self.plan, 0, Assigned(self.bench.ordinal))
        assert isinstance(answer, TaskReport), answer
        return answer

    def follow(self, owner: int, standby: int) -> StandbyState | None:
        """The running executor is told whose duty is what, and its thread works once."""
        wanted, owned = ({v: frozenset({self.key})} for v in (standby, owner))
        duties = StandbyDuties({self.key[0]: self.plan}, wanted, owned)
        worker.keep_standbys(duties, "state", 2, self.plan.settings.application_id)
        worker._standbys.turn()
        return next(iter(worker._standbys.states()), None)

    def snapshots(self) -> list[int]:
        """Changelog offsets of the snapshots there are."""
        folder = self.folder / "manifests"
        return sorted(int(p.name[:20]) for p in folder.iterdir()) if folder.exists() else []

    @property
    def folder(self) -> Path:
        """The place of the snapshots."""
        settings = self.plan.settings
        return Path(self.place.uri) / settings.application_id / self.plan.query.id / "0"

    def close(self) -> None:
        self.place.close()
