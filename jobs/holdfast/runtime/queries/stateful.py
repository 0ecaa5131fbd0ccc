"""A query with state: the changelog of each state partition holds its commit markers."""

from __future__ import annotations

import logging

from holdfast.runtime.queries.feeds import Feed, Read
from holdfast.runtime.queries.inputs import inputs_of
from holdfast.runtime.queries.levelling import pieces
from holdfast.runtime.queries.query_run import Frozen, QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.shuffled_batch import run_shuffled
from holdfast.runtime.queries.start import Level, StartPoint, start_point
from holdfast.runtime.queries.stores import bring_in_stores, copy_stores, open_stores
from holdfast.runtime.topics import QueryTopics
from holdfast.tasks.bringing_in import Origin
from holdfast.tasks.plan import Batch, QueryPlan, TaskReport
from holdfast.types.ids import OffsetRange, Place, stands_at
from holdfast.types.ingest import Planned
from holdfast.types.topology import Query

__all__ = ["StatefulQuery"]

_LOG = logging.getLogger(__name__)


class StatefulQuery(QueryRun):
    """Owns the last report of each state partition of one query."""

    def __init__(self, services: Services, query: Query, topics: QueryTopics) -> None:
        changelog = topics.changelog
        assert changelog is not None, "`ensure_topics` makes it"
        self._plan = QueryPlan(
            services.settings_of(query),
            query,
            changelog.name,
            changelog.topic_id,
            topics.sink.partitions,
            services.state_dir,
        )
        interval_ms = services.settings.ingest.trigger_interval_ms
        feed = Feed(inputs_of(services, query, topics), self._process, interval_ms)
        super().__init__(services, query, topics, feed)
        self._known: dict[int, TaskReport] = {}

    def _process(self, read: Read, batch: Batch) -> list[TaskReport]:
        services = self._services
        return run_shuffled(services.context, read, self._plan, batch, services.cluster)

    @property
    def held_back(self) -> bool:
        return any(r.marker is not None and r.marker.newest_ms is not None
                   for r in self._known.values())  # fmt: skip

    def moves_time(self, planned: Planned) -> bool:
        markers = [report.marker for report in self._known.values() if report.marker is not None]
        return any(marker.held_back_below(planned.watermark_ms) for marker in markers)

    def _find_start(self) -> StartPoint:
        plan, services = self._plan, self._services
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
        plan, services = self._plan, self._services
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
            bring_in_stores(self._plan, origin, services.cluster, services.context)

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


def _idle(last: TaskReport) -> TaskReport:
    """The report of a state partition that did nothing since its last one."""
    return TaskReport(
        last.partition, last.where, last.marker, skipped=True, rows=last.rows, bytes=last.bytes,
        position=last.position, snapshot=last.snapshot,
    )  # fmt: skip
