"""A driver in miniature: the real `QueryRun` on the fake Spark, one query, one life.

The stream of batches is the loop in `advance`: the engine's planner says where each ends, and a
stream that failed starts again from the commit markers, as `runtime.queries.keep_going` has it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from holdfast.config.settings import PlacementSettings, Settings, StateSettings
from holdfast.errors import DataLoss, PlanAgain, Retriable
from holdfast.ingest import planner
from holdfast.ingest.ranges import KafkaRange
from holdfast.ingest.source import KafkaBatch
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.queries import feeds, inputs, micro_batch, packed_batch, stateful, stateless
from holdfast.runtime.queries.cutting import Cutting
from holdfast.runtime.queries.feeds import SqlFeed, Taker, Work, planned_stream
from holdfast.runtime.queries.kinds import run_of
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.streams import Stream
from holdfast.runtime.topics import ensure_topics
from holdfast.runtime.watching.health import Health
from holdfast.tasks.pack.packing import addressed, packs
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import IngestOptions, Planned
from holdfast.types.topology import Query
from tests.simulation.fakes.clients import FakeAdmin
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.fakes.kafka import FakeKafka
from tests.simulation.fakes.spark import Rdd
from tests.simulation.jobs.pairs import pair_rows
from tests.simulation.jobs.statements import decode, partials, projected

__all__ = [
    "APPLICATION",
    "DELETE_RETENTION_MS",
    "Cut",
    "Job",
    "install_frames",
    "pack",
    "settings_of",
]

Cut = Callable[[Mapping[Place, int], Mapping[Place, tuple[int, int]]], dict[Place, int]]
"""Where a batch has to end at the latest, of its begin and the bounds of its topics."""

APPLICATION = "app"
_PAUSE_S = 1.0
_ATTEMPTS = 60  # errors in a row that are retried; more is a job that hangs
DELETE_RETENTION_MS = 60_000


class Frame:
    """A batch as the fake Spark knows it: a range of source offsets, and who can read them."""

    def __init__(self, kafka: FakeKafka, source: OffsetRange) -> None:
        self.kafka = kafka
        self.source = source
        self.sparkSession = self
        self.sparkContext = None

    def records(self, place: Place, *, tombstones: bool = False) -> list[Any]:
        start, end = self.source[place].start or 0, self.source[place].end
        log = self.kafka.log(*place)
        if start < end and (0 < start < log.start or end > log.stable_end):
            raise DataLoss(f"{place[0]}-{place[1]}: no offsets {start} to {end}.")
        return decode(place[1], log.visible(start, end, 1 << 30), tombstones=tombstones)

    def by_topic(self) -> dict[str, list[Any]]:
        """All records of every source topic, tombstones as well: they move time on."""
        found: dict[str, list[Any]] = {topic: [] for topic in self.source.topics}
        for place in self.source:
            found[place[0]] += self.records(place, tombstones=True)
        return found


def _state_frame(frame: Frame, query: Query, partitions: int) -> Rdd:
    if query.inputs:
        return Rdd(pair_rows(query, frame.by_topic(), partitions))
    records = [r for place in frame.source for r in frame.records(place)]
    return Rdd(partials(query, records, partitions))


def _project_frame(frame: Frame, query: Query) -> Rdd:
    ranges = [place for place, span in frame.source.items() if (span.start or 0) < span.end]
    return Rdd([projected(query, frame.records(place)) for place in ranges])


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


def install_frames(patch: Any, kafka: FakeKafka, cut: Cut | None = None) -> None:
    """Installs the input of Spark SQL or of executors; batches are only packed after `pack`.

    Args:
        cut: makes batches smaller than the planner would.
    """

    class Cutting(planner.Planner):
        def plan(
            self, begin: Mapping[Place, int], target: Mapping[Place, int] | None = None
        ) -> Planned:
            if cut is not None:
                limits = cut(begin, planner.bounds_of(self._options))
                # What brings a state partition level has an end of its own: no batch is beyond it.
                target = limits if target is None else _nearer(target, limits)
            return super().plan(begin, target)

    class Feed(_Feed):
        log = kafka

    for module in (stateful, stateless):
        patch.setattr(module, "SqlFeed", Feed)
    patch.setattr(feeds, "Planner", Cutting)
    patch.setattr(feeds, "PlannedStream", _ByHand)
    patch.setattr(inputs, "packs", lambda query: False)
    for module in (micro_batch, packed_batch):
        patch.setattr(module, "AT_ONCE", 1)
    patch.setattr(packed_batch, "shuffled", _shuffled)
    patch.setattr(packed_batch, "read_packed", partial(_read_packed, kafka))
    patch.setattr(micro_batch, "_state_frame", _state_frame)
    patch.setattr(micro_batch, "project_frame", _project_frame)
    patch.setattr(micro_batch, "payload", lambda rdd: rdd)


def _nearer(target: Mapping[Place, int], limits: Mapping[Place, int]) -> dict[Place, int]:
    return {place: min(at, limits.get(place, at)) for place, at in target.items()}


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


@dataclass
class _ByHand:
    """`PlannedStream` without a thread."""

    name: str
    plan: Callable[[], OffsetRange | None]
    work: Callable[[OffsetRange, Callable[[], bool]], None]
    interval_s: float

    def take(self, unwanted: Callable[[], bool]) -> bool:
        """One batch; false when there is nothing to read."""
        source = self.plan()
        if source is not None:
            self.work(source, unwanted)
        return source is not None

    def error(self) -> None:
        """Errors are raised where the batch is taken."""

    def stop(self) -> None:
        """Nothing goes on by itself."""


class _Feed(SqlFeed):
    """Frames of the fake Spark; the planner's loop stands for Structured Streaming."""

    log: FakeKafka

    def stream(self, taker: Taker) -> Stream:
        def work(source: OffsetRange) -> Work:
            return self._work_on(cast("DataFrame", Frame(self.log, source)))

        return planned_stream(taker, self._inputs, self.planner(), work, 0)

    def _bounded(self, source: OffsetRange) -> DataFrame:
        KafkaBatch(self._inputs.options(source.starts(), source.ends())).partitions()
        return cast("DataFrame", Frame(self.log, source))


class Job:
    """One driver, from its start to its death or the end of the input."""

    def __init__(
        self, settings: Settings, query: Query, kafka: FakeKafka, admin: FakeAdmin,
        clock: VirtualTime, cutting: Cutting | None = None,
    ) -> None:  # fmt: skip
        self._clock = clock
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
            cutting=cutting or Cutting(any_admin, settings, [query]),
        )
        self.run = run_of(services, query, ensure_topics(any_admin, settings, query))
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
                self.run.stream()
                self._prepared = True
            more = self._batch()
        except (PlanAgain, Retriable):
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
        stream = self.run.streaming
        assert self.run.hold(), "a batch is in hand"
        before = self.run.batch_id, dict(self.run.done)
        with suppress(PlanAgain, Retriable):
            if stream is not None:
                cast("_ByHand", stream).take(lambda: self.run.held)
        assert before == (self.run.batch_id, self.run.done)

    def resume(self) -> None:
        """Told to go on: from the commit markers, as after a start."""
        self.run.release()
        self._prepared = False

    def _batch(self) -> bool:
        """One micro-batch; false when there is nothing to read."""
        stream = cast("_ByHand", self.run.streaming)
        return stream.take(lambda: self.run.held) or not self.run.show_progress()
