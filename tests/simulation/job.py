"""A driver in miniature: the real `QueryRun` on the fake Spark, one query, one life.

Spark's streaming query is the loop in `advance`: it takes what is there up to some offset, and
starts again from the commit markers after an error, as `runtime.keep_going` has it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from holdfast.config.settings import PlacementSettings, Settings, StateSettings
from holdfast.errors import Retriable
from holdfast.ingest.ranges import KafkaRange
from holdfast.runtime import inputs, micro_batch, packed_batch
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.cutting import Cutting
from holdfast.runtime.health import Health
from holdfast.runtime.query_run import QueryRun, Services
from holdfast.runtime.topics import ensure_topics
from holdfast.tasks.packing import addressed, packs
from holdfast.tasks.plan import Batch
from holdfast.types.ids import OffsetRange
from holdfast.types.ingest import IngestOptions
from holdfast.types.topology import Query
from tests.simulation.clock import VirtualTime
from tests.simulation.fake_clients import FakeAdmin
from tests.simulation.fake_kafka import FakeKafka
from tests.simulation.fake_spark import Rdd
from tests.simulation.pairs import pair_rows
from tests.simulation.statements import decode, partials, projected

__all__ = ["APPLICATION", "Job", "install_frames", "pack", "settings_of"]

APPLICATION = "app"
_PAUSE_S = 1.0
_BATCH_MAX = 12  # offsets of one topic partition
_ATTEMPTS = 60  # errors in a row that are retried; more is a job that hangs
DELETE_RETENTION_MS = 60_000


class Frame:
    """A batch as the fake Spark knows it: a range of source offsets, and who can read them."""

    def __init__(self, kafka: FakeKafka, source: OffsetRange) -> None:
        self.kafka = kafka
        self.source = source
        self.sparkSession = self
        self.sparkContext = None

    def records(self, partition: int, *, tombstones: bool = False) -> list[Any]:
        start, end = self.source.starts()[partition], self.source.ends()[partition]
        entries = self.kafka.log(self.source.topic, partition).visible(start, end, 1 << 30)
        return decode(partition, entries, tombstones=tombstones)

    def by_topic(self) -> dict[str, list[Any]]:
        """All records of every source topic, tombstones as well: they move time on."""
        parts = {part.topic: Frame(self.kafka, part) for part in self.source.parts}
        return {
            t: [r for p in f.source.ends() for r in f.records(p, tombstones=True)]
            for t, f in parts.items()
        }


def _aggregate_frame(frame: Frame, query: Query, partitions: int) -> Rdd:
    records = [r for p in frame.source.ends() for r in frame.records(p)]
    return Rdd(partials(query, records, partitions))


def _project_frame(frame: Frame, query: Query) -> Rdd:
    starts = frame.source.starts()
    ranges = [p for p, end in frame.source.end if starts[p] < end]
    return Rdd([projected(query, frame.records(p)) for p in ranges])


def _read_frame(frame: Frame, query: Query, partitions: int) -> Rdd:
    return Rdd(pair_rows(query, frame.by_topic(), partitions))


def _shuffled(rdd: Rdd, work: Callable[[int, list[int]], Iterator[Any]], count: int) -> Rdd:
    parts: list[list[bytes]] = [[] for _ in range(count)]
    for index, element in enumerate(rdd.elements):
        for task, blob in work(index, [element]):
            parts[task].append(blob)
    return Rdd(parts)


def _read_packed(
    kafka: FakeKafka, options: IngestOptions, wanted: KafkaRange
) -> Iterator[tuple[int, bytes]]:
    assert options.packing is not None
    topic = options.inputs[wanted.side].source.topic
    entries = kafka.log(topic, wanted.partition).visible(wanted.start, wanted.end, 1 << 30)
    records = decode(wanted.partition, entries, tombstones=False)
    shares = partials(options.packing.query, records, options.packing.state_partitions)
    for place, parts in enumerate(shares):
        yield from ((place, addressed(place, part)) for part in parts)


def pack(patch: pytest.MonkeyPatch) -> None:
    """Batches of aggregates are packed from here on, where the engine packs them."""
    patch.setattr(inputs, "packs", lambda query: not query.inputs and packs(query))


def install_frames(patch: Any, kafka: FakeKafka) -> None:
    """What Spark SQL or executors would read; no batch is packed but after `pack`."""
    patch.setattr(inputs, "packs", lambda query: False)
    for module in (micro_batch, packed_batch):
        patch.setattr(module, "AT_ONCE", 1)
    patch.setattr(packed_batch, "shuffled", _shuffled)
    patch.setattr(packed_batch, "read_packed", partial(_read_packed, kafka))
    patch.setattr(micro_batch, "aggregate_frame", _aggregate_frame)
    patch.setattr(micro_batch, "project_frame", _project_frame)
    patch.setattr(micro_batch, "read_frame", _read_frame)
    patch.setattr(micro_batch, "payload", lambda rdd: rdd)


def settings_of(rng: random.Random, partitions: int, executors: int) -> Settings:
    state = StateSettings(
        partitions=partitions,
        delete_retention_ms=DELETE_RETENTION_MS,
        restore_batch_records=rng.choice((2, 5, 50_000)),
        acceptable_recovery_lag=rng.choice((0, 10, 10_000)),
    )
    placement = PlacementSettings(executors=executors, wait_ms=3_000)
    retry_timeout_ms = rng.choice((20_000, 300_000))  # after it the stream starts again
    return Settings(
        APPLICATION, "fake:1", retry_timeout_ms=retry_timeout_ms, state=state, placement=placement
    )


class _Run(QueryRun):
    kafka: FakeKafka

    def _bounded(self, source: OffsetRange) -> DataFrame:
        return cast("DataFrame", Frame(self.kafka, source))


class Job:
    """One driver, from its start to its death or the end of the input."""

    def __init__(
        self, settings: Settings, query: Query, kafka: FakeKafka, admin: FakeAdmin,
        clock: VirtualTime, rng: random.Random,
    ) -> None:  # fmt: skip
        self._kafka, self._admin = kafka, admin
        self._clock, self._rng = clock, rng
        frames = cast("Any", Frame(kafka, OffsetRange.of(query.source.topic, {}, {})))
        any_admin = cast("Any", admin)
        services = Services(
            context=frames.sparkContext,
            sql=lambda: frames,
            settings=settings,
            admin=any_admin,
            cluster=Cluster(frames.sparkContext, settings, "state"),
            state_dir="state",
            on_reports=lambda *_: None,
            health=Health((query.id,), 300.0, clock.monotonic),
            cutting=Cutting(any_admin, settings, [query]),
        )
        self.run = _Run(services, query, ensure_topics(any_admin, settings, query))
        self.run.kafka = kafka
        self._prepared = False
        self._failures = 0

    def advance(self) -> None:
        """Takes in what the input holds now.

        Raises:
            HoldfastError: for good, or too often in a row.
        """
        while self.step():
            pass

    def step(self) -> bool:
        """One batch, after whatever it takes to get there; false when there is nothing to read.

        Raises:
            HoldfastError: for good, or too often in a row.
        """
        try:
            if not self._prepared:
                self.run.prepare()
                self._prepared = True
            more = self._batch()
        except Retriable:
            self._failures += 1
            if self._failures > _ATTEMPTS:
                raise
            self._prepared = False
            self._clock.sleep(_PAUSE_S)
            return True
        self._failures = 0
        return more

    def pause(self) -> None:
        """Told to hold: a batch that Spark had planned by then is passed over."""
        assert self.run.hold(), "a batch is in hand"
        before = self.run.batch_id, dict(self.run.done)
        with suppress(Retriable):
            self._batch()
        assert before == (self.run.batch_id, self.run.done)

    def resume(self) -> None:
        """Told to go on: from the commit markers, as after a start."""
        self.run.release()
        self._prepared = False

    def _batch(self) -> bool:
        """One micro-batch; false when there is nothing to read."""
        topics, done = self.run.source_topics, self.run.done
        bounds = {(t, p): found for t in topics for p, found in self._admin.bounds(t).items()}
        start = {place: done.get(place, low) for place, (low, _) in bounds.items()}
        end = {place: self._upto(start[place], high) for place, (_, high) in bounds.items()}
        if end == start:
            return not self.run.show_progress()
        source = OffsetRange.over(topics, start, end)
        frame = cast("DataFrame", Frame(self._kafka, source))
        self.run._guarded(frame, Batch(self.run.batch_id, source), lambda: self.run.held)
        return True

    def _upto(self, start: int, high: int) -> int:
        # Often all there is, so that whole rounds are batches, too.
        wanted = start + self._rng.randint(1, _BATCH_MAX)
        return high if self._rng.random() < 0.5 else max(start, min(high, wanted))
