"""A stateless query's task: one source topic partition, one transaction per batch.

There is no state partition; commit markers are `state.topics.source_progress`.  The steps are
those of `holdfast.types.steps` without a changelog and a store: 0 fence and read the last marker,
1 skip a batch that it covers, 2 produce, 3 produce the marker, 4 commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from holdfast.errors import OffsetOverlap
from holdfast.state.topics.source_progress import Of, SourceProgress, home_partition, progress_of
from holdfast.tasks.evaluate.projected import Projected
from holdfast.tasks.plan import StreamPlan, TaskReport, Whereabouts
from holdfast.tasks.steps import Step, reached
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.partitioner import murmur2_partition
from holdfast.transport.producer import TransactionalProducer
from holdfast.types.ids import stream_transactional_id
from holdfast.types.statements.facts import statement_facts

__all__ = ["StreamTask"]

_ENDED_S = 10.0  # until transactions that `init` has ended are seen to end


class StreamTask:
    """Owns one source topic partition of a stateless query on this executor."""

    def __init__(self, plan: StreamPlan, topic_partition: int, where: Whereabouts) -> None:
        self._plan = plan
        self._partition = topic_partition
        self._home = home_partition(topic_partition, plan.progress_partitions)
        self._topic = plan.query.source.topic
        self._where = where
        self._projected = Projected(plan.query)
        self._producer: TransactionalProducer | None = None
        self._last: SourceProgress | None = None

    def open(self) -> None:
        """Step 0: fences predecessors, then reads the last commit marker.

        Raises:
            HangingTransaction: a predecessor's open transaction cannot be ended.
        """
        plan, settings = self._plan, self._plan.settings
        transactional_id = stream_transactional_id(
            settings.application_id, self._plan.query.id, self._topic, self._partition
        )
        self._producer = TransactionalProducer(
            settings.client(), transactional_id, settings.transaction_timeout_ms
        )
        self._producer.init()
        # Dead letters of the same source topic partition are committed to the same place.
        others_s = settings.transaction_timeout_ms / 1000
        admin = shared_admin(settings.client())
        admin.await_ended(plan.progress, self._home, others_s + _ENDED_S)
        self._last = progress_of(
            settings.client(), plan.progress, plan.progress_partitions, Of.RECORDS, self._partition
        )
        reached(Step.OPENED, self._plan.query.id, self._partition)

    def process(
        self, start: int, end: int, read: Callable[[], Iterable[pa.RecordBatch]]
    ) -> TaskReport:
        """Writes the results of source offsets `start` (inclusive) to `end` exactly once.

        `read` gives their decoded records; it is not called if they are committed already.

        Raises:
            OffsetOverlap: the last commit marker lies inside the range or before it.
        """
        if self._producer is None:
            raise AssertionError("the task is not open")
        done = self._done(start)
        if done >= end:
            return TaskReport(self._partition, self._where, skipped=True)
        if done != start:
            raise self._overlap(start, end, done)
        reached(Step.CHECKED, self._plan.query.id, self._partition)
        # Before the transaction begins: reading may take long.
        payload = [self._projected.rows(batch) for batch in read()]
        began = time.perf_counter()
        self._producer.begin()
        reached(Step.BEGUN, self._plan.query.id, self._partition)
        emitted = self._produce(self._producer, payload)
        reached(Step.PRODUCED, self._plan.query.id, self._partition)
        marker = self._mark(self._producer, start, end)
        reached(Step.MARKED, self._plan.query.id, self._partition)
        produced = time.perf_counter()
        self._producer.commit()
        self._last = marker
        reached(Step.COMMITTED, self._plan.query.id, self._partition)
        return TaskReport(
            self._partition,
            self._where,
            records=end - start,
            emitted=emitted,
            produce_seconds=produced - began,
            commit_seconds=time.perf_counter() - produced,
        )

    def _done(self, start: int) -> int:
        """The end offset of the last commit marker; without one the start of the batch."""
        last, plan = self._last, self._plan
        if last is None or last.topic_id in plan.replaced:
            return start
        if last.of_other(plan.source_id):
            raise OffsetOverlap(
                f"A batch reads {self._topic} with the id {plan.source_id}, {plan.query.id} has "
                f"committed offsets of the topic with the id {last.topic_id}.",
                cause="the topic was deleted and recreated, and another driver saw it first",
                action="none: this job plans again from the commit markers",
            )
        return last.offset

    def fits(self, plan: StreamPlan) -> bool:
        """Whether the task was opened for the same topics."""
        known = self._plan
        return (known.source_id, known.replaced) == (plan.source_id, plan.replaced)

    def _mark(self, producer: TransactionalProducer, start: int, end: int) -> SourceProgress:
        plan, before = self._plan, self._last.records if self._last is not None else 0
        marker = SourceProgress(
            self._topic,
            self._partition,
            end,
            before + end - start,
            facts=statement_facts(plan.query),
            topic_id=plan.source_id,
        )
        producer.send_marker(
            plan.progress, self._home, Of.RECORDS.key(self._partition), marker.to_bytes()
        )
        return marker

    def _overlap(self, start: int, end: int, done: int) -> OffsetOverlap:
        return OffsetOverlap(
            f"A batch of {self._topic} partition {self._partition} covers offsets {start}..{end}, "
            f"the last commit marker of {self._plan.query.id} is at {done}.",
            cause="two jobs run under one application.id, or the progress topic was replaced",
            action="stop the other job; this one plans again from the commit markers",
        )

    def _produce(self, producer: TransactionalProducer, payload: Sequence[pa.RecordBatch]) -> int:
        return sum(self._send(producer, batch) for batch in payload)

    def _send(self, producer: TransactionalProducer, batch: pa.RecordBatch) -> int:
        found = self._projected.records(batch)
        partitions = [self._sink_partition(k) for k in found.keys]
        topic = self._plan.query.sink.topic
        if found.headers is None:
            producer.send(topic, partitions, found.keys, found.values, found.timestamps)
        else:
            for partition, key, value, headers, time_ms in zip(
                partitions, found.keys, found.values, found.headers, found.timestamps, strict=True
            ):
                producer.send_one(topic, partition, key, value, headers, time_ms)
        return len(found.keys)

    def _sink_partition(self, key: bytes | None) -> int:
        # A record without a key stays with its source partition: order is kept, no randomness.
        count = self._plan.sink_partitions
        return self._partition % count if key is None else murmur2_partition(key, count)

    def close(self) -> None:
        """Closes the producer; the next owner aborts an open transaction."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None
