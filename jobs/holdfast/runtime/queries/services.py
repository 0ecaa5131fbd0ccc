"""Services that all queries of a job share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark import SparkContext

from holdfast.config.settings import Settings
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.queries.batches.cutting import Cutting
from holdfast.runtime.queries.batches.lock import Turn
from holdfast.runtime.queries.layouts import Layouts
from holdfast.runtime.watching.health import Health
from holdfast.runtime.watching.tracing import Tracer
from holdfast.state.topics.sink_owners import SinkOwners
from holdfast.tasks.plan import Batch, TaskReport
from holdfast.transport.cluster.admin import Admin
from holdfast.types.statements.topology import Query

__all__ = ["OnReports", "Services"]

OnReports = Callable[[Query, Batch, list[TaskReport], float], None]
"""Takes a query, a batch, the reports of its tasks, and its seconds."""


@dataclass
class Services:
    """The job's connections and settings, and the receiver of its batches' reports.

    Attributes:
        not_whole: topics from which a table cannot be computed again: internal ones lose the
            records that they have delivered, and if a job began with a savepoint, its own sinks
            lack what came before.
    """

    context: SparkContext
    settings: Settings
    admin: Admin
    cluster: Cluster
    state_dir: str
    on_reports: OnReports
    health: Health
    cutting: Cutting
    turn: Turn = field(default_factory=Turn)
    internal_topics: frozenset[str] = frozenset()
    not_whole: frozenset[str] = frozenset()
    owners: SinkOwners | None = None
    layouts: Layouts = field(default_factory=Layouts)
    tracer: Tracer | None = None

    def settings_of(self, query: Query) -> Settings:
        """The settings of one query: a lost changelog is only rebuilt from whole topics.

        A query that was rescaled has the number of state partitions that it was rescaled to.
        """
        settings = self.layouts.of(query.id).of(self.settings)
        if self.not_whole.isdisjoint(s.topic for s in query.sources):
            return settings
        return replace(settings, state=replace(settings.state, on_changelog_loss="fail"))
