"""One query of a running job: opens its stores, brings it level, streams its batches."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.ingest.planner import Planner
from holdfast.ingest.ranges import kafka_ranges
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.health import Health
from holdfast.runtime.inputs import Inputs
from holdfast.runtime.micro_batch import (
    offsets_of_batch,
    open_stores,
    rehearse,
    run_project,
    run_stateful,
)
from holdfast.runtime.packed_batch import PackedRead, run_packed
from holdfast.runtime.start import StartPoint, start_point, stream_start
from holdfast.runtime.streams import PlannedStream, SparkStream, Stream
from holdfast.runtime.topics import QueryTopics
from holdfast.runtime.turn import Turn
from holdfast.state.sink_owners import SinkOwners, claims_sink
from holdfast.state.source_progress import Of, progress_of
from holdfast.tasks.compatibility import check_progress
from holdfast.tasks.plan import Batch, QueryPlan, StreamPlan, TaskReport
from holdfast.transport.admin import Admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.types.ids import OffsetRange, Place, consumer_group, stream_transactional_id
from holdfast.types.ingest import DATA_SOURCE
from holdfast.types.topology import Query

__all__ = ["QueryRun", "Services"]

_LOG = logging.getLogger(__name__)


@dataclass
class Services:
    """What all queries of a job share."""

    context: SparkContext
    sql: Callable[[], SparkSession]
    settings: Settings
    admin: Admin
    cluster: Cluster
    state_dir: str
    on_reports: Callable[[Query, Batch, list[TaskReport], float], None]
    health: Health
    turn: Turn = field(default_factory=Turn)
    internal_topics: frozenset[str] = frozenset()
    owners: SinkOwners | None = None


class QueryRun:
    """Owns the progress of one query in this driver."""

    def __init__(self, services: Services, query: Query, topics: QueryTopics) -> None:
        self.query = query
        self.failure: BaseException | None = None
        self.streaming: Stream | None = None
        self.done: dict[Place, int] = {}
        # Each once: a self-join has one topic on both sides.
        self.source_topics = tuple(dict.fromkeys(s.topic for s in query.sources))
        self.batch_id = 0
        self._services = services
        self._topics = topics
        self._group = consumer_group(services.settings.application_id, query.id)
        self._checkpoint = (
            Path(services.settings.home, "run", services.settings.application_id)
            / "checkpoint"
            / query.id
        ).resolve()
        settings = self._settings = _settings_of(query, services)
        self._plan: QueryPlan | None = None
        if topics.changelog is not None:
            self._plan = QueryPlan(
                settings,
                query,
                topics.changelog.name,
                topics.changelog.topic_id,
                topics.sink.partitions,
                services.state_dir,
            )
        progress_topic = topics.progress.name if topics.progress else ""
        self._inputs = Inputs(query, services.settings, progress_topic)
        # Of packed batches: the ranges are told batch by batch, the rest once.
        self._all = self._inputs.options({})
        self._stream_plan: StreamPlan | None = None
        if topics.progress is not None and not self.stateful:
            progress = topics.progress
            self._stream_plan = StreamPlan(
                settings, query, topics.sink.partitions, progress.name, progress.partitions
            )
        self._shown: dict[Place, int] = {}
        self._hold = threading.Event()
        self._in_hand = threading.Lock()  # held by the batch in hand
        self._gave_up_sink = False

    @property
    def stateful(self) -> bool:
        return self.query.stateful

    @property
    def packed(self) -> bool:
        """Whether its rows pass Spark SQL by."""
        return self._inputs.packed

    # -- order to hold ------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """Whether it takes no batches; the one in hand may not have ended yet."""
        return self._hold.is_set()

    def hold(self) -> bool:
        """Takes no more batches; called again until True: the last one and the stream have ended.

        Nothing is lost or done twice: `prepare` goes on from the commit markers.
        """
        self._hold.set()
        if not self._in_hand.acquire(blocking=False):
            return False
        self._in_hand.release()  # whoever takes it from now on sees the order
        streaming, self.streaming = self.streaming, None
        if streaming is not None:
            streaming.stop()
        return True

    def release(self) -> None:
        """It may take batches again; `prepare` and `stream` come next."""
        self._hold.clear()

    # -- start -------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Claims the sink, opens all stores (or fences all stream producers), levels partitions.

        Raises:
            SinkOwned: another query writes the sink.
        """
        self._claim_sink()
        start = self._prepare_stateful() if self._plan is not None else self._prepare_stateless()
        self.done = start.offsets
        self.batch_id = start.batch_id

    def _claim_sink(self) -> None:
        owners, settings = self._services.owners, self._services.settings
        if owners is not None and claims_sink(self.query):
            owners.claim(self.query, self._topics.sink.topic_id, settings.application_id)
            self._gave_up_sink = False

    def give_up_sink(self) -> None:
        """Lets another query write the sink; `prepare` claims it again.

        Raises:
            KafkaUnavailable, Refused: it is still claimed.
        """
        owners, settings = self._services.owners, self._services.settings
        if owners is not None and not self._gave_up_sink:
            owners.give_up(self.query, settings.application_id)
            self._gave_up_sink = True

    def _prepare_stateful(self) -> StartPoint:
        plan, services = self._plan, self._services
        assert plan is not None
        reports = open_stores(plan, services.cluster, services.context)
        start = start_point(
            self.query.id,
            [r.marker for r in sorted(reports, key=lambda r: r.partition)],
            self._initial(),
            self._group_offsets(),
            rebuild=self._settings.state.on_changelog_loss == "rebuild",
        )
        batch_id = start.batch_id - 1
        empty = OffsetRange.over(self.source_topics, start.offsets, start.offsets)
        services.on_reports(self.query, Batch(batch_id, empty), reports, 0.0)
        if start.level is not None:
            _LOG.info("%s: bringing lagging state partitions level", self.query.id)
            frame = None if self.packed else self._bounded(start.level)
            known = start.level.start_places().keys()
            self._run(frame, Batch(batch_id, start.level), known, self._hold.is_set)
        return start

    def _prepare_stateless(self) -> StartPoint:
        plan, settings, topic = self._stream_plan, self._settings, self.query.source.topic
        assert plan is not None
        done: dict[Place, int] = {}
        for partition in range(self._topics.source.partitions):
            producer = TransactionalProducer(
                settings.client(),
                stream_transactional_id(settings.application_id, self.query.id, topic, partition),
                settings.transaction_timeout_ms,
            )
            # Fences executors of a driver that died, so that the marker read next is final.
            producer.init()
            producer.close()
            marker = progress_of(
                settings.client(), plan.progress, plan.progress_partitions, Of.RECORDS, partition
            )
            check_progress(marker, self.query)
            if marker is not None:
                done[topic, partition] = marker.offset
        rebuild = settings.state.on_changelog_loss == "rebuild"
        return stream_start(
            self.query.id, done, self._initial(), self._group_offsets(), rebuild=rebuild
        )

    def _initial(self) -> dict[Place, int]:
        latest = self._services.settings.ingest.auto_offset_reset == "latest"
        bounds = {t: self._services.admin.bounds(t) for t in self.source_topics}
        return {
            (t, p): end if latest else start
            for t, of_topic in bounds.items()
            for p, (start, end) in of_topic.items()
        }

    def _group_offsets(self) -> dict[Place, int]:
        admin = self._services.admin
        committed = {t: admin.committed(self._group, t) for t in self.source_topics}
        return {(t, p): offset for t, found in committed.items() for p, offset in found.items()}

    def rehearse(self) -> None:
        """Plans an empty batch, so that Spark SQL has all of it loaded for the first one.

        For a thread of its own while `prepare` waits for executors; what fails here fails again
        where it is told.
        """
        if self._plan is None or self.packed:
            return
        nothing = {(topic, 0): 0 for topic in self.source_topics}
        try:
            rehearse(
                self._bounded(OffsetRange.over(self.source_topics, nothing, nothing)), self._plan
            )
        except Exception as error:  # noqa: BLE001 - nothing depends on it
            _LOG.debug("%s: no rehearsal: %s", self.query.id, error)

    # -- batches -----------------------------------------------------------------------------

    def stream(self) -> None:
        """Starts the stream of batches from where `prepare` found the job."""
        self.failure = None
        self.streaming = self._planned() if self.packed else self._of_spark()

    def _planned(self) -> Stream:
        planner = Planner(self._all)
        topics = self.source_topics

        def plan() -> OffsetRange | None:
            begin = self.done
            end = planner.end(begin)
            start = {place: begin.get(place, 0) for place in end}
            return None if start == end else OffsetRange.over(topics, start, end)

        def work(source: OffsetRange, stopped: Callable[[], bool]) -> None:
            self._guarded(None, Batch(self.batch_id, source), stopped)

        interval_s = self._services.settings.ingest.trigger_interval_ms / 1000
        return PlannedStream(self.query.id, plan, work, interval_s)

    def _of_spark(self) -> Stream:
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        settings = self._services.settings
        reader = self._services.sql().readStream.format(DATA_SOURCE)
        frame = reader.options(**self._inputs.options(self.done).to_spark()).load()
        first = self.batch_id
        initial = dict(self.done)

        def on_batch(batch_frame: DataFrame, spark_batch_id: int) -> None:
            source = offsets_of_batch(self._checkpoint, spark_batch_id, self.source_topics, initial)
            # Spark ends a stream only after its batch: what is on hold has not been started again.
            self._guarded(batch_frame, Batch(first + spark_batch_id, source), self._hold.is_set)

        return SparkStream(
            frame.writeStream.queryName(self.query.id)
            .foreachBatch(on_batch)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=f"{settings.ingest.trigger_interval_ms} milliseconds")
            .start()
        )

    def _guarded(self, frame: DataFrame | None, batch: Batch, unwanted: Callable[[], bool]) -> None:
        # py4j turns an exception into text on its way to Spark; the first one is kept here.
        try:
            self._run(frame, batch, self.done.keys(), unwanted)
        except BaseException as error:
            if self.failure is None:
                self.failure = error
            raise

    def _run(
        self,
        frame: DataFrame | None,
        batch: Batch,
        known: AbstractSet[Place],
        unwanted: Callable[[], bool],
    ) -> None:
        """Works on a batch.

        Args:
            frame: what Spark reads of it, unless it is packed.
            known: topic partitions whose start is told; others begin where their logs do.
            unwanted: whether the batch must not begin any more.
        """
        services = self._services
        began = time.perf_counter()
        beat = partial(services.health.beat, self.query.id)
        with services.turn.take(beat, unwanted) as ours, self._in_hand:
            if not ours or unwanted():
                return  # of Spark's stream it counts as done; its checkpoint is scratch (ADR 2)
            reports = self._reports(frame, batch, known)
            self.done = {**self.done, **batch.source.end_places()}
            self.batch_id = batch.batch_id + 1
        services.health.beat(self.query.id)
        services.on_reports(self.query, batch, reports, time.perf_counter() - began)

    def _reports(
        self, frame: DataFrame | None, batch: Batch, known: AbstractSet[Place]
    ) -> list[TaskReport]:
        cluster = self._services.cluster
        if self._plan is not None and self.packed:
            start = {p: o for p, o in batch.source.start_places().items() if p in known}
            ranges = kafka_ranges(self._all, start, batch.source.end_places())
            context = self._services.context
            return run_packed(context, PackedRead(self._all, ranges), self._plan, batch, cluster)
        assert frame is not None
        if self._plan is not None:
            return run_stateful(frame, self._plan, batch, cluster)
        assert self._stream_plan is not None
        return run_project(frame, self._stream_plan, batch, cluster)

    def show_progress(self) -> bool:
        """Commits the group's offsets for lag tools; nothing is decided from them.

        Not part of a batch, which would have to wait for it.  One thread only may call it.

        Returns:
            Whether the group's offsets are those of the last batch now.
        """
        done = self.done
        if done == self._shown:
            return True
        try:
            for part in OffsetRange.over(self.source_topics, {}, done).parts:
                self._services.admin.commit_group(self._group, part.topic, part.ends())
        except HoldfastError as error:
            _LOG.warning("%s: the group's offsets lag behind: %s", self.query.id, error.fact)
            return False
        self._shown = done
        return True

    def _bounded(self, source: OffsetRange) -> DataFrame:
        options = self._inputs.options(source.start_places(), source.end_places())
        reader = self._services.sql().read.format(DATA_SOURCE)
        return reader.options(**options.to_spark()).load()

    def ended_by(self) -> BaseException | None:
        """What ended its stream; None while the stream goes on, or was never started."""
        if self.failure is not None or self.streaming is None:
            return self.failure
        return self.streaming.error()

    def caught_up(self, ends: Mapping[Place, int]) -> bool:
        """Has every topic partition been committed up to `ends`?"""
        return all(self.done.get(p, 0) >= end for p, end in ends.items())


def _settings_of(query: Query, services: Services) -> Settings:
    """A lost changelog cannot be made again from a topic that forgets what was read."""
    settings = services.settings
    if services.internal_topics.isdisjoint(s.topic for s in query.sources):
        return settings
    return replace(settings, state=replace(settings.state, on_changelog_loss="fail"))
