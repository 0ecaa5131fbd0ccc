"""One query of a running job: opens stores, levels state partitions, streams batches."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, PlanAgain
from holdfast.ingest.planner import Planner
from holdfast.ingest.ranges import kafka_ranges
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.queries.batch_lock import Turn
from holdfast.runtime.queries.cutting import Cutting
from holdfast.runtime.queries.inputs import Inputs
from holdfast.runtime.queries.levelling import pieces
from holdfast.runtime.queries.micro_batch import (
    offsets_of_batch,
    open_stores,
    plan_of_batch,
    rehearse,
    run_project,
    run_stateful,
)
from holdfast.runtime.queries.packed_batch import PackedRead, run_packed
from holdfast.runtime.queries.sources import source_state
from holdfast.runtime.queries.start import Level, SourceState, StartPoint, start_point, stream_start
from holdfast.runtime.queries.streams import PlannedStream, SparkStream, Stream
from holdfast.runtime.topics import QueryTopics
from holdfast.runtime.watching.health import Health
from holdfast.state.topics.sink_owners import SinkOwners, claims_sink
from holdfast.state.topics.source_progress import Of, SourceProgress, progress_of
from holdfast.tasks.compatibility import check_progress
from holdfast.tasks.plan import Batch, QueryPlan, StreamPlan, TaskReport
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.types.ids import OffsetRange, Place, consumer_group, stream_transactional_id
from holdfast.types.ingest import DATA_SOURCE, Planned
from holdfast.types.topology import Query

__all__ = ["QueryRun", "Services"]

_LOG = logging.getLogger(__name__)
_PLAN_AGAIN_S = 1.0


@dataclass
class Services:
    """Services that all queries of a job share."""

    context: SparkContext
    sql: Callable[[], SparkSession]
    settings: Settings
    admin: Admin
    cluster: Cluster
    state_dir: str
    on_reports: Callable[[Query, Batch, list[TaskReport], float], None]
    health: Health
    cutting: Cutting
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
        # Without duplicates: a self-join has one topic on both sides.
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
        cuts = services.cutting.file_for(query)
        self._inputs = Inputs(query, services.settings, progress_topic, cuts=cuts)
        # Options of packed batches; only their ranges change from batch to batch.
        self._all = self._inputs.options({})
        self._stream_plan: StreamPlan | None = None
        if topics.progress is not None and not self.stateful:
            progress = topics.progress
            self._stream_plan = StreamPlan(
                settings, query, topics.sink.partitions, progress.name, progress.partitions
            )
        self._shown: dict[Place, int] = {}
        self._marked: frozenset[Place] = frozenset()  # places that commit markers name
        self._ids: dict[str, str] = {}  # the topic ids of the sources to which offsets belong
        self._replaced: frozenset[str] = frozenset()  # the sources' former topic ids
        self._known: dict[int, TaskReport] = {}  # the last report of each state partition
        self._hold = threading.Event()
        self._in_hand = threading.Lock()  # held by the current batch
        self._gave_up_sink = False

    @property
    def stateful(self) -> bool:
        return self.query.stateful

    @property
    def packed(self) -> bool:
        """Whether its batches are packed, without Spark SQL."""
        return self._inputs.packed

    @property
    def waits_for(self) -> str:
        """Why the current batch is being retried; empty: it is not."""
        return self._services.cluster.waits_for(self.query.id)

    # -- order to hold ------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """Whether the query takes no batches; the current one may still run."""
        return self._hold.is_set()

    def hold(self) -> bool:
        """Stops taking batches; call until True, when the last batch and the stream have ended.

        Nothing is lost or repeated: `prepare` continues from the commit markers.
        """
        self._hold.set()
        if not self._in_hand.acquire(blocking=False):
            return False
        self._in_hand.release()  # the next batch to take it sees the order
        streaming, self.streaming = self.streaming, None
        if streaming is not None:
            streaming.stop()
        return True

    def release(self) -> None:
        """Allows batches again; call `prepare` and `stream` next."""
        self._hold.clear()

    # -- start -------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Claims the sink, opens all stores (or fences stream producers), levels partitions.

        If another driver commits meanwhile, the markers are read again.

        Raises:
            SinkOwned: another query writes the sink.
            PlanAgain: the markers kept changing for `retry.timeout.ms`.
        """
        self._claim_sink()
        deadline = time.monotonic() + self._settings.retry_timeout_ms / 1000
        while True:
            try:
                start = self._prepare_stateful() if self._plan else self._prepare_stateless()
            except PlanAgain as error:
                if time.monotonic() > deadline:
                    raise
                _LOG.warning("%s: reading the commit markers again: %s", self.query.id, error.fact)
                time.sleep(_PLAN_AGAIN_S)
            else:
                break
        self.done = start.offsets
        self.batch_id = start.batch_id
        self._marked = start.marked

    def _know(self, sources: SourceState, start: StartPoint) -> StartPoint:
        """Takes over the topic ids to which offsets belong from now on."""
        self._ids, self._replaced = dict(sources.ids), start.replaced
        self._inputs = replace(self._inputs, ids=self._ids)
        self._all = self._inputs.options({})
        if self._stream_plan is not None:
            topic_id = self._ids.get(self.query.source.topic, "")
            self._stream_plan = replace(
                self._stream_plan, source_id=topic_id, replaced=start.replaced
            )
        if start.replaced:
            _LOG.warning(
                "DATA LOSS, continuing because of fail.on.data.loss=false: %s reads recreated "
                "topics from their start; former topic ids: %s",
                self.query.id, ", ".join(sorted(start.replaced)),
            )  # fmt: skip
            self._show(start.offsets)  # otherwise the markers would seem to be behind the group
        return start

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
        # The group is read before the markers: another driver may commit meanwhile, and a marker is
        # never behind group offsets that were read before it.
        group = self._group_offsets()
        reports = open_stores(plan, services.cluster, services.context)
        sources = source_state(services.admin, self._settings, self.source_topics)
        start = start_point(
            self.query.id,
            [r.marker for r in sorted(reports, key=lambda r: r.partition)],
            sources,
            group,
            rebuild=self._settings.state.on_changelog_loss == "rebuild",
        )
        self._know(sources, start)
        empty = OffsetRange.over(self.source_topics, start.offsets, start.offsets)
        services.on_reports(self.query, Batch(start.batch_id - 1, empty), reports, 0.0)
        self._known = {r.partition: r for r in reports}
        for level in start.levels:
            self._level(level, start.batch_id - 1)
        return start

    def _level(self, level: Level, batch_id: int) -> None:
        """Brings some state partitions to the offsets of the furthest ones."""
        which = ", ".join(map(str, sorted(level.state_partitions)))
        _LOG.info("%s: bringing state partitions %s level", self.query.id, which)
        beginners = level.beginners
        for source, watermark_ms in pieces(level, Planner(self._all)):
            frame = None if self.packed else self._bounded(source)
            batch = Batch(
                batch_id,
                source,
                level.state_partitions,
                beginners,
                self._replaced,
                watermark_ms,
            )
            self._run(frame, batch, self._hold.is_set)
            beginners = frozenset()

    def _prepare_stateless(self) -> StartPoint:
        plan, settings, topic = self._stream_plan, self._settings, self.query.source.topic
        assert plan is not None
        done: dict[Place, SourceProgress] = {}
        group = self._group_offsets()  # before the markers, see above
        # Partitions may have been added to the topic since the job started.
        for partition in self._services.admin.bounds(topic):
            producer = TransactionalProducer(
                settings.client(),
                stream_transactional_id(settings.application_id, self.query.id, topic, partition),
                settings.transaction_timeout_ms,
            )
            # Fences executors of a dead driver, so that the marker read next is final.
            producer.init()
            producer.close()
            marker = progress_of(
                settings.client(), plan.progress, plan.progress_partitions, Of.RECORDS, partition
            )
            check_progress(marker, self.query)
            if marker is not None:
                done[topic, partition] = marker
        rebuild = settings.state.on_changelog_loss == "rebuild"
        sources = source_state(self._services.admin, settings, self.source_topics)
        start = stream_start(self.query.id, done, sources, group, rebuild=rebuild)
        return self._know(sources, start)

    def _group_offsets(self) -> dict[Place, int]:
        admin = self._services.admin
        committed = {t: admin.committed(self._group, t) for t in self.source_topics}
        return {(t, p): offset for t, found in committed.items() for p, offset in found.items()}

    def rehearse(self) -> None:
        """Plans an empty batch, so that Spark SQL is warm for the first one.

        Runs in its own thread while `prepare` waits for executors; an error here will recur, and
        be reported, in the first batch.
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
        """Starts the stream of batches from the offsets that `prepare` found."""
        self.failure = None
        self.streaming = self._planned() if self.packed else self._of_spark()

    def _planned(self) -> Stream:
        planner = Planner(self._all)
        topics = self.source_topics

        def plan() -> tuple[OffsetRange, Planned] | None:
            planned = planner.plan(self.done)
            if planned.end.keys() != self.done.keys():  # new topic partitions with an empty range
                self.done = {**planned.end, **self.done}
                planned = planner.plan(self.done)
            begin = self.done
            if begin == planned.end and not self._moves_time(planned):
                return None
            return OffsetRange.over(topics, begin, planned.end, self._ids), planned

        def work(found: tuple[OffsetRange, Planned], stopped: Callable[[], bool]) -> None:
            source, planned = found
            batch = self._batch(self.batch_id, source, planned.watermark_ms)
            self._guarded(None, batch, stopped, planned.reached_ms)

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
            source = offsets_of_batch(
                self._checkpoint, spark_batch_id, self.source_topics, initial, self._ids
            )
            planned = plan_of_batch(self._checkpoint, spark_batch_id)
            if source.start_places() == planned.end and not self._moves_time(planned):
                return
            batch = self._batch(first + spark_batch_id, source, planned.watermark_ms)
            # Spark ends a stream only after its batch: a query on hold has not been restarted.
            self._guarded(batch_frame, batch, self._hold.is_set, planned.reached_ms)

        return SparkStream(
            frame.writeStream.queryName(self.query.id)
            .foreachBatch(on_batch)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=f"{settings.ingest.trigger_interval_ms} milliseconds")
            .start()
        )

    def _moves_time(self, planned: Planned) -> bool:
        """Whether an empty batch emits results that its watermark held back."""
        markers = [report.marker for report in self._known.values() if report.marker is not None]
        return any(marker.held_back_below(planned.watermark_ms) for marker in markers)

    def _batch(self, batch_id: int, source: OffsetRange, watermark_ms: int | None) -> Batch:
        """A batch for all state partitions; either all have a commit marker, or none has."""
        return Batch(
            batch_id,
            source,
            beginners=frozenset() if self._marked else None,
            replaced=self._replaced,
            watermark_ms=watermark_ms,
        )

    def _guarded(
        self,
        frame: DataFrame | None,
        batch: Batch,
        unwanted: Callable[[], bool],
        reached_ms: int | None = None,
    ) -> None:
        # py4j turns an exception into text on its way to Spark; this keeps the first one.
        try:
            self._run(frame, batch, unwanted, reached_ms)
        except BaseException as error:
            if self.failure is None:
                self.failure = error
            raise

    def _run(
        self,
        frame: DataFrame | None,
        batch: Batch,
        unwanted: Callable[[], bool],
        reached_ms: int | None = None,
    ) -> None:
        """Works on a batch.

        Args:
            frame: the records that Spark reads for it, unless it is packed.
            unwanted: whether the batch must not begin any more.
            reached_ms: record time up to which it reads all sources; None: unknown.
        """
        services = self._services
        began = time.perf_counter()
        beat = partial(services.health.beat, self.query.id)
        with services.turn.take(beat, unwanted) as ours, self._in_hand:
            if not ours or unwanted():
                return  # Spark's stream counts it as done; its checkpoint is scratch (ADR 2)
            reports = self._reports(frame, batch)
            self._known |= {r.partition: r for r in reports}
            if batch.state_partitions is None:
                self.done = {**self.done, **batch.source.end_places()}
                self.batch_id = batch.batch_id + 1
                self._marked |= self._marked_by(batch)
                services.cutting.ended(self.query, reached_ms)
            else:
                reports = self._with_others(reports)
        services.health.beat(self.query.id)
        services.on_reports(self.query, batch, reports, time.perf_counter() - began)

    def _marked_by(self, batch: Batch) -> set[Place]:
        """The topic partitions that the commit markers of a batch name."""
        ends = batch.source.end_places()
        if self.stateful:
            return set(ends)
        starts = batch.source.start_places()
        return {place for place, end in ends.items() if starts.get(place, 0) < end}

    def _with_others(self, reports: Sequence[TaskReport]) -> list[TaskReport]:
        """Reports of all state partitions, also of those that were level already."""
        new = {r.partition: r for r in reports}
        return [
            new.get(p) or TaskReport(p, r.where, r.marker, True, False, r.rows, r.bytes, r.position)
            for p, r in sorted(self._known.items())
        ]

    def _reports(self, frame: DataFrame | None, batch: Batch) -> list[TaskReport]:
        cluster = self._services.cluster
        if self._plan is not None and self.packed:
            source = batch.source
            ranges = kafka_ranges(self._all, source.start_places(), source.end_places())
            context = self._services.context
            return run_packed(context, PackedRead(self._all, ranges), self._plan, batch, cluster)
        assert frame is not None
        if self._plan is not None:
            return run_stateful(frame, self._plan, batch, cluster)
        assert self._stream_plan is not None
        return run_project(frame, self._stream_plan, batch, cluster)

    def show_progress(self) -> bool:
        """Commits the group's offsets for lag tools; they decide nothing.

        A topic partition is committed once commit markers name it, so that a start can tell from
        the group whether markers were lost.  Not part of a batch, which would have to wait for it.
        Only one thread may call it.

        Returns:
            Whether the group's offsets now equal those of the last batch.
        """
        marked = self._marked  # read first, because `done` advances
        done = {place: offset for place, offset in self.done.items() if place in marked}
        if done == self._shown:
            return True
        try:
            self._show(done)
        except HoldfastError as error:
            why = f"{error.fact} {error.cause}"
            _LOG.warning("%s: the group's offsets lag behind: %s", self.query.id, why)
            return False
        self._shown = done
        return True

    def _show(self, done: Mapping[Place, int]) -> None:
        for part in OffsetRange.over(self.source_topics, {}, done).parts:
            self._services.admin.commit_group(self._group, part.topic, part.ends())

    def _bounded(self, source: OffsetRange) -> DataFrame:
        options = self._inputs.options(source.start_places(), source.end_places())
        reader = self._services.sql().read.format(DATA_SOURCE)
        return reader.options(**options.to_spark()).load()

    def ended_by(self) -> BaseException | None:
        """The error that ended the stream; None while it runs, or if it was never started."""
        if self.failure is not None or self.streaming is None:
            return self.failure
        return self.streaming.error()

    def between_batches(self, stack: ExitStack) -> bool:
        """Whether no batch is running; if so, none begins while the stack is open."""
        if not self._in_hand.acquire(blocking=False):
            return False
        stack.callback(self._in_hand.release)
        return True

    def level_with(self, ends: Mapping[Place, int]) -> bool:
        """Whether the query is prepared, and has committed everything up to `ends`."""
        return bool(self.done) and self.caught_up(ends)

    @property
    def held_back(self) -> bool:
        """Whether the query's stream time waits for the queries that write its sources."""
        return any(r.marker is not None and r.marker.newest_ms is not None
                   for r in self._known.values())  # fmt: skip

    def caught_up(self, ends: Mapping[Place, int]) -> bool:
        """Whether every topic partition is committed up to `ends`."""
        return all(self.done.get(p, 0) >= end for p, end in ends.items())


def _settings_of(query: Query, services: Services) -> Settings:
    """The settings, without a rebuild from internal topics, which delete records once read."""
    settings = services.settings
    if services.internal_topics.isdisjoint(s.topic for s in query.sources):
        return settings
    return replace(settings, state=replace(settings.state, on_changelog_loss="fail"))
