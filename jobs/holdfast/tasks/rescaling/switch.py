"""The switch from one generation of a state to the next: one record decides it.

The driver takes the transactional ids of all former state partitions, so that nobody commits there
any more, and writes a last commit marker to each that says where the state moves to.  The one of
state partition 0 is written last, and decides.  The same transaction tells the control topic, so
whoever only reads never sees another order of generations than the drivers:

| partition 0 says | the others say | the state is             | whoever opens it          |
|------------------|----------------|--------------------------|---------------------------|
| not moved        | not moved      | in the former generation | goes on there             |
| not moved        | some moved     | the same                 | takes their markers back  |
| moved            | all moved      | in the next generation   | goes on there             |

Whoever opens a state partition that says "moved" takes the transactional id of state partition 0
first: from then on nobody else can decide (`settled`).  So two drivers never disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from holdfast.errors import PlanAgain
from holdfast.state.changelog import MARKER_KEY, CommitMarker
from holdfast.state.layout import Layout
from holdfast.state.markers import last_marker
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.steps import RescaleStep, reached
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import state_transactional_id

__all__ = ["Former", "settled"]

_ENDED_S = 20.0
_AT_ONCE = 8
Record = tuple[str, bytes, bytes]  # topic, key, value


class Former:
    """Owns the transactional ids of the former generation, from `fence` until `close`.

    Args:
        threaded: several state partitions at a time.
    """

    def __init__(self, plan: QueryPlan, *, threaded: bool = True) -> None:
        """Sends nothing before `fence`."""
        self._plan = plan
        self._threaded = threaded
        self._producers: dict[int, TransactionalProducer] = {}
        self.ends: dict[int, int] = {}
        self.markers: dict[int, CommitMarker] = {}

    def fence(self) -> None:
        """Lets nobody commit in the former generation; finds its ends and last commit markers.

        Raises:
            PlanAgain: the state partitions are not level, or have committed nothing.
            HoldfastError: the brokers do not answer.
        """
        self._each(self._fence_one, range(self._plan.state_partitions))
        sources = [marker.source.ends() for _, marker in sorted(self.markers.items())]
        level = len(sources) == self._plan.state_partitions
        moved = any(marker.moved is not None for marker in self.markers.values())
        if not level or moved or any(ends != sources[0] for ends in sources):
            raise PlanAgain(
                f"The state partitions of {self._plan.query.id} are not level: "
                f"{len(sources)} of {self._plan.state_partitions} have committed something.",
                cause="the query has had no batch yet, or another driver is at work",
                action="none: it is tried again",
            )

    def move(self, to: Layout, record: Record) -> None:
        """Says in all state partitions that the state has moved; returns once it is decided.

        Args:
            record: for the control topic, see `layout_record`.

        Raises:
            HoldfastError: it may be decided, or not: ask `settled`.
        """
        others = range(self._plan.state_partitions - 1, 0, -1)
        self._each(lambda partition: self._move_one(partition, to), others)
        self._move_one(0, to, record)

    def close(self) -> None:
        """Closes the producers."""
        for producer in self._producers.values():
            producer.close()
        self._producers = {}

    def _each(self, work: Callable[[int], None], partitions: Iterable[int]) -> None:
        if not self._threaded:
            for partition in partitions:
                work(partition)
            return
        with ThreadPoolExecutor(_AT_ONCE, "rescale") as pool:
            for _ in pool.map(work, partitions):
                pass

    def _fence_one(self, partition: int) -> None:
        producer = _taken(self._plan, partition)
        self._producers[partition] = producer
        end, marker = _last(self._plan, partition)
        self.ends[partition] = end
        if marker is not None:
            self.markers[partition] = marker
        reached(RescaleStep.FENCED, self._plan.query.id, partition)

    def _move_one(self, partition: int, to: Layout, record: Record | None = None) -> None:
        marker = replace(self.markers[partition], moved=to)
        _write(self._plan, self._producers[partition], partition, marker, record)
        reached(RescaleStep.MOVED, self._plan.query.id, partition)


def settled(plan: QueryPlan) -> Layout | None:
    """Where a state has moved to; None: it has not, and no state partition says so any more.

    Nobody else can decide it meanwhile.

    Raises:
        HoldfastError: the brokers do not answer, or another driver does the same; ask again.
    """
    decides = _taken(plan, 0)
    try:
        marker = _last(plan, 0)[1]
        if marker is not None and marker.moved is not None:
            return marker.moved
        for partition in range(1, plan.state_partitions):
            _take_back(plan, partition)
    finally:
        decides.close()
    return None


def _take_back(plan: QueryPlan, partition: int) -> None:
    found = _last(plan, partition)[1]
    if found is None or found.moved is None:
        return
    producer = _taken(plan, partition)
    try:
        marker = _last(plan, partition)[1]
        if marker is not None and marker.moved is not None:
            _write(plan, producer, partition, replace(marker, moved=None))
            reached(RescaleStep.TAKEN_BACK, plan.query.id, partition)
    finally:
        producer.close()


def _taken(plan: QueryPlan, partition: int) -> TransactionalProducer:
    """A producer that has fenced everybody else with the state partition's transactional id."""
    settings = plan.settings
    name = state_transactional_id(
        settings.application_id, plan.query.id, partition, plan.generation
    )
    client = settings.client()
    producer = TransactionalProducer(client, name, settings.transaction_timeout_ms)
    try:
        producer.init()
        shared_admin(client).await_ended(plan.changelog, partition, _ENDED_S)
    except BaseException:
        producer.close()
        raise
    return producer


def _last(plan: QueryPlan, partition: int) -> tuple[int, CommitMarker | None]:
    """The end of a state partition's changelog, and its last commit marker."""
    reader = PartitionReader(plan.settings.client(), plan.changelog, partition, exists=True)
    try:
        start, end = reader.bounds()
        return end, last_marker(reader, start, end)
    finally:
        reader.close()


def _write(
    plan: QueryPlan,
    producer: TransactionalProducer,
    partition: int,
    marker: CommitMarker,
    record: Record | None = None,
) -> None:
    producer.begin()
    if record is not None:
        topic, key, value = record
        producer.send(topic, 0, [key], [value])
    producer.send_marker(plan.changelog, partition, MARKER_KEY, marker.to_bytes())
    producer.commit()
