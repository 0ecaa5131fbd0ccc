"""A state task: one state partition's store, producer and commit marker, and the commit order.

The order and its failure table are in `holdfast.types.steps`; the numbers below refer to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import pyarrow as pa

from holdfast.errors import Moved, NotOwner, OffsetOverlap
from holdfast.state.changelog import (
    FORMAT_VERSION,
    MARKER_KEY,
    CommitMarker,
    Lineage,
    data_keys,
    origin_after,
)
from holdfast.state.layout import Layout
from holdfast.state.past import continued, digest
from holdfast.state.progress import RestoreProgressFile
from holdfast.state.restore import READ_AHEAD, RestoreProgress, RestoreReport
from holdfast.state.table_store import StorePosition, TableStore, store_name
from holdfast.state.volume import Volume
from holdfast.tasks.compatibility import check_marker
from holdfast.tasks.expiry import expired
from holdfast.tasks.lookup import Lookup
from holdfast.tasks.plan import Batch, PlacementId, QueryPlan, TaskReport, Whereabouts
from holdfast.tasks.processors.base import (
    NO_TIME,
    Changes,
    Processor,
    Watermark,
)
from holdfast.tasks.processors.kinds import processor_of
from holdfast.tasks.processors.layout import layout_of
from holdfast.tasks.processors.timed import processed
from holdfast.tasks.replay import from_snapshot, open_store, replay, tombstones_kept_ms
from holdfast.tasks.steps import Step, reached
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.partitioner import PARTITIONER, murmur2_partitions
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import OffsetRange, state_transactional_id
from holdfast.types.statements.facts import statement_facts
from holdfast.types.times import FOREVER

__all__ = ["StateTask", "covered"]

# How long to wait until transactions that `init` has ended are seen to end, and until brokers end
# one of a killed `compaction.apply.roll`: its timeout, and the 10 s between two broker checks.
_ENDED_S = 20.0
# State partitions are opened in parallel, but a restore is bound by CPU: two at once would each
# take twice as long, and neither would finish earlier.
_RESTORING = threading.Lock()


@dataclass
class _Timer:
    """Seconds since the last lap."""

    at: float

    def lap(self) -> float:
        now = time.perf_counter()
        seconds, self.at = now - self.at, now
        return seconds


def covered(marker: CommitMarker | None, batch: OffsetRange, where: str) -> bool:
    """Step 1: whether this batch was committed already.

    Raises:
        OffsetOverlap: the marker ends inside the batch, the batch starts beyond the marker, or the
            batch was planned without a topic partition of the marker, or from another topic of
            the same name.
    """
    if marker is None:
        return False
    _check_ids(marker.source.ids, batch.ids, where)
    done, starts, ends = marker.source.ends(), batch.starts(), batch.ends()
    unknown = {p: at for p, at in done.items() if p not in ends}
    if not unknown and all(p in done and done[p] >= end for p, end in ends.items()):
        return True
    wrong = {p: at for p, at in done.items() if p in ends and at != starts.get(p, 0)}
    if not wrong and not unknown:
        return False
    parts = [
        f"{p[0]} partition {p[1]}: batch {starts.get(p, 0)}..{ends[p]}, committed up to {at}"
        for p, at in sorted(wrong.items())
    ] + [
        f"{p[0]} partition {p[1]}: not in the batch, committed up to {at}"
        for p, at in sorted(unknown.items())
    ]
    raise OffsetOverlap(
        f"A batch overlaps what {where} has committed ({', '.join(parts)}).",
        cause="two jobs run under one application.id, or the changelog was replaced",
        action="stop the other job; this one plans again from the commit markers",
    )


def _check_ids(committed: Mapping[str, str], planned: Mapping[str, str], where: str) -> None:
    """Raises `OffsetOverlap` if the offsets belong to a deleted topic of the same name."""
    for topic, topic_id in planned.items():
        if committed.get(topic, topic_id) != topic_id:
            raise OffsetOverlap(
                f"A batch reads the topic {topic} with the id {topic_id}, {where} has committed "
                f"offsets of the topic with the id {committed[topic]}.",
                cause="the topic was deleted and recreated, and another driver saw it first",
                action="none: this job plans again from the commit markers",
            )


def _moves_time(marker: CommitMarker | None, batch: Batch) -> bool:
    """Whether an empty batch advances stream time that the marker's watermark held back."""
    ends = batch.source.ends()
    stands = batch.source.starts() == ends
    if marker is None or not stands or marker.source.ends() != ends:
        return False
    return marker.held_back_below(batch.watermark_ms)


class StateTask:
    """Owns state partition `p` of one query on this executor from `open` until `close`.

    Attributes:
        marker: the last commit's.
        placement: the last one that has assigned it the state partition.
    """

    def __init__(
        self, plan: QueryPlan, partition: int, volume: Volume | None, where: Whereabouts
    ) -> None:
        self._plan = plan
        self._partition = partition
        self._volume = volume
        self._where = where
        self._name = f"{plan.query.id} state partition {partition}"
        self._layout = layout_of(plan.query)
        self._producer: TransactionalProducer | None = None
        self._store: TableStore | None = None
        self.marker: CommitMarker | None = None
        self.placement = PlacementId()
        self._lineage: Lineage = ()

    @cached_property
    def _processor(self) -> Processor:
        """Created with the first batch, so that a restore does not import Arrow."""
        return processor_of(self._plan.query)

    # -- step 0 ------------------------------------------------------------------------------

    def open(self, least: int = 0, store: TableStore | None = None) -> TaskReport:
        """Fences predecessors, restores the store and reads the last commit marker.

        Args:
            least: the changelog offset that the store had reached, as the driver knows.
            store: its open store on the volume, from now on this task's; None: it is opened.

        Raises:
            NotOwner: the store is far behind it, because its volume was lost.
            ChangelogLost: the store has rows, but its changelog is empty.
            IncompatibleStatement: another statement wrote this state.
            HangingTransaction: a predecessor's open transaction cannot be ended.
            Moved: the state has moved by a rescale, or is about to.
        """
        self._store = store
        plan, settings = self._plan, self._plan.settings
        transactional_id = state_transactional_id(
            settings.application_id, plan.query.id, self._partition, plan.generation
        )
        self._producer = TransactionalProducer(
            settings.client(), transactional_id, settings.transaction_timeout_ms
        )
        self._producer.init()
        admin = shared_admin(settings.client())
        admin.await_ended(plan.changelog, self._partition, _ENDED_S)
        self._store = store or open_store(plan, self._partition, self._volume)
        self._check_place(self.position, least)
        kept_ms = tombstones_kept_ms(plan, admin)
        self._store, source = from_snapshot(
            plan, self._partition, self._volume, self._store, kept_ms
        )
        with _RESTORING:
            report = self._restore(self._store, kept_ms)
        self.marker = self._store.marker
        if self.marker is not None and self.marker.moved is not None:
            raise _moved(self._name, self.marker.moved)
        self._lineage = continued(self.marker, self.position)
        check_marker(
            self.marker,
            plan.query,
            plan.state_partitions,
            owner=store_name(settings.application_id, plan.state_name, self._partition),
        )
        reached(Step.OPENED, plan.query.id, self._partition)
        return self._report(
            opened=True,
            restored_records=report.records,
            restored_bytes=report.bytes,
            restore_seconds=report.seconds,
            restore_reason=f"{source}; {report.reason}" if source else report.reason,
        )

    def _check_place(self, position: int, least: int) -> None:
        """A replacement of a killed executor may find an empty volume; a standby may be warm."""
        if not self._plan.settings.state.on_volumes:
            return  # no executor has a better store
        if least - position > self._plan.settings.state.acceptable_recovery_lag:
            raise NotOwner(
                f"The store of {self._name} is at changelog offset {position}, and was at {least}.",
                cause="its volume was lost, and its executor replaced",
                action="none: the driver looks for the best store there is",
            )

    def _restore(self, store: TableStore, tombstones_kept_ms: int) -> RestoreReport:
        plan, application_id = self._plan, self._plan.settings.application_id
        root = self._volume.root if self._volume is not None else None
        client = READ_AHEAD | plan.settings.client()
        reader = PartitionReader(client, plan.changelog, self._partition, exists=True)
        with (
            closing(reader),
            RestoreProgressFile(root, application_id, plan.query.id, self._partition) as progress,
        ):

            def told(now: RestoreProgress) -> None:
                progress(now)
                reached(Step.RESTORING, plan.query.id, self._partition)

            return replay(plan, store, reader, tombstones_kept_ms, told)

    # -- steps 1 to 5 ------------------------------------------------------------------------

    def process(self, batch: Batch, payload: pa.Table) -> TaskReport:
        """Applies one batch exactly once.  On any error the caller must close this task.

        Raises:
            OffsetOverlap: see `covered`; or only other state partitions have a commit marker.
            Fenced: a newer owner exists.
            CommitUnknown: the outcome of the commit is unknown.
        """
        producer, store = self._opened()
        query_id = self._plan.query.id
        self._check_begun(batch)
        last = self._last(batch)
        if covered(last, batch.source, self._name) and not _moves_time(last, batch):
            return self._report(skipped=True)
        reached(Step.CHECKED, query_id, self._partition)
        timer = _Timer(time.perf_counter())
        lookup = Lookup(store)
        watermark = self._watermark(batch)
        changes = processed(self._processor, payload, self._stream_time(), lookup, watermark)
        gone, changes = expired(store, self._layout, changes)
        merge_seconds = timer.lap() - lookup.seconds
        producer.begin()
        reached(Step.BEGUN, query_id, self._partition)
        self._produce(producer, changes, gone)
        reached(Step.PRODUCED, query_id, self._partition)
        marker = self._marker(batch, changes, len(gone), watermark)
        producer.send_marker(self._plan.changelog, self._partition, MARKER_KEY, marker.to_bytes())
        reached(Step.MARKED, query_id, self._partition)
        produce_seconds = timer.lap()
        offset = producer.commit()
        commit_seconds = timer.lap()
        reached(Step.COMMITTED, query_id, self._partition)
        self._apply(store, changes, gone, marker, offset)
        self.marker = marker
        reached(Step.WRITTEN, query_id, self._partition)
        return self._report(
            records=changes.records,
            emitted=len(changes.sink_keys),
            dropped_null_key=changes.dropped_null_key,
            dropped_late=changes.dropped_late,
            expired=len(gone),
            get_seconds=lookup.seconds,
            merge_seconds=merge_seconds,
            produce_seconds=produce_seconds,
            commit_seconds=commit_seconds,
            put_seconds=timer.lap(),
        )

    def _check_begun(self, batch: Batch) -> None:
        """A partition that lost its changelog while the job ran must not start in the middle."""
        begins = batch.beginners is None or self._partition in batch.beginners
        if self.marker is None and not begins:
            raise OffsetOverlap(
                f"{self._name} has no commit marker, but the query is at batch {batch.batch_id}.",
                cause="its changelog partition was emptied while the job ran",
                action="none: the commit markers of all state partitions are compared",
            )

    def _last(self, batch: Batch) -> CommitMarker | None:
        """The last marker, without its offsets of replaced topics."""
        return self.marker.without(batch.replaced) if self.marker is not None else None

    def _stream_time(self) -> int:
        return self.marker.stream_time_ms if self.marker is not None else NO_TIME

    def _watermark(self, batch: Batch) -> Watermark | None:
        """The batch's watermark; None: each record advances stream time, none held it back."""
        newest = self.marker.newest_ms if self.marker is not None else None
        if batch.watermark_ms is None and newest is None:
            return None
        limit = FOREVER if batch.watermark_ms is None else batch.watermark_ms
        return Watermark(limit, self._stream_time() if newest is None else newest)

    def _produce(
        self, producer: TransactionalProducer, changes: Changes, gone: list[bytes]
    ) -> None:
        changelog, at = self._plan.changelog, self._partition
        producer.send(changelog, at, data_keys(changes.keys), changes.rows)
        if changes.elements:
            elements = changes.elements
            producer.send(changelog, at, list(elements), list(elements.values()))
        if gone:
            producer.send(changelog, at, data_keys(gone), [None] * len(gone))
        producer.send(
            self._plan.query.sink.topic,
            self._sink_partitions(changes.sink_keys),
            changes.sink_keys,
            changes.sink_values,
            changes.sink_timestamps,
        )

    def _sink_partitions(self, keys: Sequence[bytes | None]) -> list[int]:
        """By key; records without key follow their state partition, so that order is kept."""
        count = self._plan.sink_partitions
        if None not in keys:
            return murmur2_partitions(cast("Sequence[bytes]", keys), count)
        found = iter(murmur2_partitions([k for k in keys if k is not None], count))
        own = self._partition % count
        return [own if k is None else next(found) for k in keys]

    def _marker(
        self, batch: Batch, changes: Changes, expired: int, watermark: Watermark | None
    ) -> CommitMarker:
        plan, last, store = self._plan, self._last(batch), self._opened()[1]
        return CommitMarker(
            format_version=FORMAT_VERSION,
            application_id=plan.settings.application_id,
            query_id=plan.query.id,
            state_partition=self._partition,
            state_partitions=plan.state_partitions,
            partitioner=PARTITIONER,
            fingerprint=plan.query.fingerprint(),
            canonical=plan.query.canonical(),
            source=batch.source.after(last.source if last else None),
            stream_time_ms=changes.stream_time_ms,
            batch_id=batch.batch_id,
            # The marker carries the counts, so they are exactly-once like the rows.
            records=changes.records + (last.records if last else 0),
            dropped_late=changes.dropped_late + (last.dropped_late if last else 0),
            dropped_null_key=changes.dropped_null_key + (last.dropped_null_key if last else 0),
            origin=origin_after(last, batch.source),
            facts=statement_facts(plan.query),
            watermark_ms=None if watermark is None else watermark.limit_ms,
            newest_ms=changes.newest_ms,
            rows=store.rows + len(changes.created) - changes.removed - expired,
            lineage=self._lineage,
            savepoint=last.savepoint if last else "",
            generation=plan.generation,
        )

    def _apply(
        self,
        store: TableStore,
        changes: Changes,
        gone: list[bytes],
        marker: CommitMarker,
        offset: int | None,
    ) -> None:
        if offset is None:
            raise AssertionError("a commit with a marker returns the marker's offset")
        position = StorePosition(
            topic_id=self._plan.changelog_topic_id,
            offset=offset + 1,
            written_ms=_now_ms(),
            fingerprint=marker.fingerprint,
            witness_offset=offset,
            witness=digest(MARKER_KEY, marker.to_bytes()),
        )
        dead: list[bytes | None] = [None] * len(gone)
        store.apply(
            [*changes.keys, *gone] if gone else changes.keys,
            [*changes.rows, *dead] if gone else changes.rows,
            created=changes.created,
            removed=len(gone) + changes.removed,
            position=position,
            marker=marker,
            elements=changes.elements,
        )

    # -- the handle --------------------------------------------------------------------------

    @property
    def store(self) -> TableStore:
        """The open store."""
        return self._opened()[1]

    @property
    def query_id(self) -> str:
        """The query whose state it keeps."""
        return self._plan.query.id

    @property
    def schema(self) -> pa.Schema:
        """The columns of a payload."""
        return self._processor.schema

    @property
    def position(self) -> int:
        """The changelog offset the store has reached."""
        position = self._opened()[1].position
        return position.offset if position is not None else 0

    def describe(self) -> TaskReport:
        """The task's current position, without processing anything."""
        return self._report()

    def _opened(self) -> tuple[TransactionalProducer, TableStore]:
        if self._producer is None or self._store is None:
            raise AssertionError(f"{self._name} is not open")
        return self._producer, self._store

    def _report(self, **facts: object) -> TaskReport:
        _, store = self._opened()
        stats = store.stats()
        report = TaskReport(
            partition=self._partition,
            where=self._where,
            marker=self.marker,
            rows=stats.rows,
            bytes=stats.bytes,
            position=self.position,
        )
        return replace(report, **facts)  # type: ignore[arg-type]

    def close(self) -> None:
        """Closes store and producer; the next owner aborts an open transaction."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None
        if self._store is not None:
            self._store.close()
            self._store = None


def _moved(name: str, to: Layout) -> Moved:
    return Moved(
        f"The changelog of {name} says that its state has moved to generation {to.generation} with "
        f"{to.state_partitions} state partitions.",
        cause="another driver has rescaled the query, or was ended while it did.",
        action="none: the job finds out which generation counts",
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
