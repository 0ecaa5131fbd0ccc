"""A query with state: the changelog of each state partition holds its commit markers."""

from __future__ import annotations

import logging
from dataclasses import replace

from holdfast.errors import ChangelogLost, Moved
from holdfast.runtime.queries.batches.levelling import pieces
from holdfast.runtime.queries.batches.shuffled import run_shuffled
from holdfast.runtime.queries.feeds import Feed, Read
from holdfast.runtime.queries.inputs import inputs_of
from holdfast.runtime.queries.query_run import Frozen, QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.start import Level, StartPoint, start_point
from holdfast.runtime.queries.stores import bring_in_stores, copy_stores, open_stores
from holdfast.runtime.topics import QueryTopics
from holdfast.state.layout import Layout
from holdfast.tasks.bringing_in import Origin
from holdfast.tasks.plan import Batch, QueryPlan, TaskReport
from holdfast.tasks.rescaling.switch import settled
from holdfast.transport.cluster.admin import TopicInfo
from holdfast.types.ids import OffsetRange, Place, changelog_topic, stands_at
from holdfast.types.ingest import Planned
from holdfast.types.statements.topology import Query

__all__ = ["StatefulQuery"]

_LOG = logging.getLogger(__name__)


class StatefulQuery(QueryRun):
    """Owns the last report of each state partition of one query."""

    def __init__(self, services: Services, query: Query, topics: QueryTopics) -> None:
        changelog = topics.changelog
        assert changelog is not None, "`ensure_topics` makes it"
        self.plan = QueryPlan(
            services.settings_of(query),
            query,
            changelog.name,
            changelog.topic_id,
            topics.sink.partitions,
            services.state_dir,
            services.layouts.of(query.id).generation,
        )
        interval_ms = services.settings.ingest.trigger_interval_ms
        feed = Feed(inputs_of(services, query, topics), self._process, interval_ms)
        super().__init__(services, query, topics, feed)
        self._known: dict[int, TaskReport] = {}

    def _process(self, read: Read, batch: Batch) -> list[TaskReport]:
        context, tracer = self._services.context, self._services.tracer
        times = None if tracer is None else tracer.reading(context, self.query)
        return run_shuffled(context, read, self.plan, batch, self._services.cluster, times)

    @property
    def held_back(self) -> bool:
        return any(r.marker is not None and r.marker.newest_ms is not None
                   for r in self._known.values())  # fmt: skip

    def moves_time(self, planned: Planned) -> bool:
        markers = [report.marker for report in self._known.values() if report.marker is not None]
        return any(marker.held_back_below(planned.watermark_ms) for marker in markers)

    def stream_times(self) -> list[int]:
        """The stream time of each state partition after the last batch; empty before the first."""
        reports = [report for _, report in sorted(dict(self._known).items())]
        times = [r.marker.stream_time_ms for r in reports if r.marker is not None]
        return times if len(times) == self.plan.state_partitions else []

    def plan_of(self, layout: Layout, changelog: TopicInfo) -> QueryPlan:
        """The plan for the query's state in another generation."""
        return replace(
            self.plan,
            settings=layout.of(self.plan.settings),
            changelog=changelog.name,
            changelog_topic_id=changelog.topic_id,
            generation=layout.generation,
        )

    def _find_start(self) -> StartPoint:
        self._follow()
        try:
            return self._started()
        except Moved:
            self._settle()
            raise

    def _settle(self) -> None:
        """Finds out whether the state has moved to another generation."""
        moved = settled(self.plan)
        if moved is not None:
            self._services.layouts.found(self.query.id, moved)

    def _follow(self) -> None:
        """Goes on in the generation that counts.

        Raises:
            ChangelogLost: it has no changelog.
        """
        services, layout = self._services, self._services.layouts.of(self.query.id)
        if layout.generation == self.plan.generation:
            return
        name = changelog_topic(services.settings.application_id, self.query.id, layout.generation)
        changelog = services.admin.describe(name)
        if changelog is None:
            raise _no_changelog(self.query.id, name, layout)
        _LOG.info(
            "%s goes on in generation %d, with %d state partitions",
            self.query.id, layout.generation, layout.state_partitions,
        )  # fmt: skip
        services.cluster.forget(self.plan)
        self.plan = self.plan_of(layout, changelog)
        self._known = {}

    def _started(self) -> StartPoint:
        plan, services = self.plan, self._services
        # The group before the markers: another driver may commit meanwhile, and no marker is ever
        # behind what the group showed before it was read.
        group = self._group_offsets()
        reports = open_stores(plan, services.cluster, services.context)
        sources = self._sources()
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

    def freeze(self, folder: str) -> Frozen | None:
        plan, services = self.plan, self._services
        reports = copy_stores(plan, services.cluster, services.context, folder)
        markers = [r.marker for r in reports if r.marker is not None]
        if not markers:
            return Frozen()
        ends = markers[0].source.ends()
        if len(markers) < len(reports) or any(m.source.ends() != ends for m in markers):
            return None
        return Frozen(stands_at(markers[0].source), tuple(reports), markers[0].facts)

    def bring_in(self, origin: Origin) -> None:
        if origin.stores:
            services = self._services
            bring_in_stores(self.plan, origin, services.cluster, services.context)

    def _level(self, level: Level, batch_id: int) -> None:
        """Brings some state partitions level with the furthest one."""
        which = ", ".join(map(str, sorted(level.state_partitions)))
        _LOG.info("%s: bringing state partitions %s level", self.query.id, which)
        beginners = level.beginners
        for source, watermark_ms in pieces(level, self._feed.planner()):
            batch = Batch(
                batch_id,
                source,
                level.state_partitions,
                beginners,
                self._replaced,
                watermark_ms,
            )
            self._do(batch, self._with_others, self._hold.is_set)
            beginners = frozenset()

    def _work(self, batch: Batch) -> list[TaskReport]:
        reports = super()._work(batch)
        self._known |= {r.partition: r for r in reports}
        return reports

    def _with_others(self, batch: Batch) -> list[TaskReport]:
        """Adds the reports of the state partitions that were level already and did nothing."""
        new = {r.partition: r for r in self._work(batch)}
        return [new.get(p) or _idle(r) for p, r in sorted(self._known.items())]

    def _marked_by(self, source: OffsetRange) -> set[Place]:
        return set(source)


def _no_changelog(query_id: str, name: str, layout: Layout) -> ChangelogLost:
    return ChangelogLost(
        f"The state of {query_id} is in generation {layout.generation}, and its changelog {name} "
        "does not exist.",
        cause="the topic was deleted",
        action="restore the topic; the changelog of a former generation, if it is there, has the "
        "state as it was before the rescale",
    )


def _idle(last: TaskReport) -> TaskReport:
    """The report of a state partition that did nothing since its last one."""
    return TaskReport(
        last.partition, last.where, last.marker, skipped=True, rows=last.rows, bytes=last.bytes,
        position=last.position, snapshot=last.snapshot,
    )  # fmt: skip
