"""A table of one state partition that is rescaled to three, step by step as a test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.config.settings import RemoteSettings, SnapshotSettings
from holdfast.errors import HoldfastError
from holdfast.state.layout import Layout
from holdfast.state.topics.orders import layout_record
from holdfast.tasks import worker
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, TaskReport
from holdfast.tasks.rescaling.copier import Ending
from holdfast.tasks.rescaling.switch import Former
from holdfast.tasks.worker import Answer
from holdfast.types.ids import OffsetRange, changelog_topic
from tests.simulation.jobs.one_partition import OnePartition
from tests.simulation.jobs.payloads import payloads

__all__ = ["CUT", "RECORDS", "TO", "OneRescale", "raised"]

RECORDS = 10
CUT = 6
"""The former generation goes up to here."""
TO = Layout(1, 3)


class OneRescale(OnePartition):
    """A table of one state partition, and its next generation with three.

    Args:
        remote: whether the stores are in a database.
    """

    def __init__(self, patch: pytest.MonkeyPatch, *, remote: bool = False) -> None:
        super().__init__(patch)
        for n in range(RECORDS):
            self.write(b"k%d" % (n % 4), b'{"v": 1, "ts": 1000}')
        if remote:
            self._move_to_database()
        self.apply(CUT)
        settings, query = self.plan.settings, self.plan.query
        name = changelog_topic(settings.application_id, query.id, TO.generation)
        topic = self.bench.kafka.make_topic(name, TO.state_partitions, {})
        state = replace(settings.state, partitions=TO.state_partitions)
        self.record = layout_record(settings.application_id, query.id, TO)
        self.bench.kafka.make_topic(self.record[0], 1, {})
        self.new = QueryPlan(
            replace(settings, state=state), query, name, topic.topic_id, 1, "state", TO.generation
        )

    def _move_to_database(self) -> None:
        settings = self.plan.settings
        state = replace(settings.state, backend="remote", remote=RemoteSettings("redis://fake:1"))
        settings = replace(settings, state=state, snapshots=SnapshotSettings())
        self.plan = replace(self.plan, settings=settings)

    def copy(self) -> None:
        """Copies some of the changelog.

        Raises:
            HoldfastError: the executor's answer.
        """
        raised(worker.copy_share(self.plan, self.new, 0, 1.0))

    def end(self, former: Former) -> None:
        """Copies the rest.

        Raises:
            HoldfastError: the executor's answer.
        """
        raised(worker.end_share(self.plan, self.new, 0, Ending(former.ends, former.markers)))

    def fenced(self) -> Former:
        former = Former(self.plan, threaded=False)
        former.fence()
        return former

    def switch(self) -> None:
        former = self.fenced()
        self.end(former)
        former.move(TO, self.record)

    def try_next(self, batch: int, start: int, end: int) -> Sequence[Answer]:
        """The running executor's answers to a batch of the next generation, by state partition."""
        source = OffsetRange.of("s", {0: start}, {0: end})
        parts = payloads(self.new.settings, self.new.query, source, TO.state_partitions)
        assigned = Assigned(self.bench.ordinal)
        return [
            worker.process_partition(self.new, p, assigned, Batch(batch, source), part)
            for p, part in enumerate(parts)
        ]

    def go_on(self) -> None:
        """The first batch of the next generation."""
        for answer in self.try_next(1, CUT, RECORDS):
            assert isinstance(answer, TaskReport), answer

    def rows(self) -> dict[bytes, bytes]:
        """The rows of the next generation's stores, which are level with their changelogs."""
        found: dict[bytes, bytes] = {}
        for p in range(TO.state_partitions):
            report = worker.open_partition(self.new, p, Assigned(self.bench.ordinal))
            assert isinstance(report, TaskReport), report
            key = self.new.settings.application_id, self.new.state_name, p
            found |= dict(worker._state_tasks[key].store.scan())
        return found


def raised(answer: object) -> None:
    """Raises an answer that is an error."""
    if isinstance(answer, HoldfastError):
        raise answer
