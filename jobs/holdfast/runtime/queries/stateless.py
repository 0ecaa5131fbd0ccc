"""A query without state: its progress topic holds the commit markers of its source topic."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

from holdfast.runtime.queries.batches.unshuffled import run_unshuffled
from holdfast.runtime.queries.feeds import Feed, Read
from holdfast.runtime.queries.inputs import inputs_of
from holdfast.runtime.queries.query_run import Frozen, QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.start import SourceState, StartPoint, stream_start
from holdfast.runtime.topics import QueryTopics
from holdfast.state.topics.source_progress import (
    Of,
    SourceProgress,
    home_partition,
    progress_of,
)
from holdfast.tasks.bringing_in import Origin
from holdfast.tasks.compatibility import check_progress
from holdfast.tasks.plan import Batch, StreamPlan, TaskReport
from holdfast.transport.producer import TransactionalProducer
from holdfast.types.ids import OffsetRange, Place, stream_transactional_id
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.topology import Query

__all__ = ["StatelessQuery"]

_AT_ONCE = 8  # topic partitions whose markers are read


class StatelessQuery(QueryRun):
    """Owns the plan of one query's tasks; each task reads one source topic partition."""

    def __init__(self, services: Services, query: Query, topics: QueryTopics) -> None:
        progress = topics.progress
        assert progress is not None, "`ensure_topics` makes it"
        self._plan = StreamPlan(
            services.settings_of(query),
            query,
            topics.sink.partitions,
            progress.name,
            progress.partitions,
        )
        interval_ms = services.settings.ingest.trigger_interval_ms
        feed = Feed(inputs_of(services, query, topics), self._process, interval_ms)
        super().__init__(services, query, topics, feed)

    def _process(self, read: Read, batch: Batch) -> list[TaskReport]:
        services = self._services
        return run_unshuffled(services.context, read, self._plan, batch, services.cluster)

    def _find_start(self) -> StartPoint:
        group = self._group_offsets()  # before the markers, as `StatefulQuery` does
        done: dict[Place, SourceProgress] = {}
        topic = self.query.source.topic
        # The topic may have new partitions since the job began.
        for partition in self._services.admin.bounds(topic):
            marker = self._last_marker(topic, partition)
            if marker is not None:
                done[topic, partition] = marker
        rebuild = self._settings.state.on_changelog_loss == "rebuild"
        sources = self._sources()
        start = stream_start(self.query.id, done, sources, group, rebuild=rebuild)
        self._know(sources, start)
        return start

    def freeze(self, folder: str) -> Frozen | None:
        """Nothing is copied: the offsets are all there is.

        A topic partition without a commit stands where the query began to read it.
        """
        topic = self.query.source.topic
        found = self._services.admin.look(topic)
        topic_id, partitions = found.topic_id, list(found.bounds)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            markers = zip(partitions, pool.map(self._marker_of, partitions), strict=True)
            known = {p: m for p, m in markers if m is not None and not m.of_other(topic_id)}
        if not known:
            return Frozen()
        begun = {p: at for (_, p), at in self.done.items()}
        ends = begun | {p: marker.offset for p, marker in known.items()}
        facts = next(iter(known.values())).facts
        return Frozen(OffsetRange.of(topic, ends, ends, topic_id), facts=facts)

    def bring_in(self, origin: Origin) -> None:
        for (topic, partition), offset in origin.source.ends().items():
            with closing(self._producer(topic, partition)) as producer:
                if self._marker_of(partition) is None:
                    self._bring_in(producer, topic, partition, offset, origin)

    def _bring_in(
        self,
        producer: TransactionalProducer,
        topic: str,
        partition: int,
        offset: int,
        origin: Origin,
    ) -> None:
        plan = self._plan
        marker = SourceProgress(
            topic,
            partition,
            offset,
            facts=statement_facts(self.query),
            topic_id=origin.source.ids.get(topic, ""),
        )
        home = home_partition(partition, plan.progress_partitions)
        producer.begin()
        producer.send_marker(plan.progress, home, Of.RECORDS.key(partition), marker.to_bytes())
        producer.commit()

    def _last_marker(self, topic: str, partition: int) -> SourceProgress | None:
        self._producer(topic, partition).close()
        marker = self._marker_of(partition)
        check_progress(marker, self.query)
        return marker

    def _producer(self, topic: str, partition: int) -> TransactionalProducer:
        """Fences executors of a driver that died, so that the marker read next is final."""
        settings = self._settings
        producer = TransactionalProducer(
            settings.client(),
            stream_transactional_id(settings.application_id, self.query.id, topic, partition),
            settings.transaction_timeout_ms,
        )
        producer.init()
        return producer

    def _marker_of(self, partition: int) -> SourceProgress | None:
        plan, client = self._plan, self._settings.client()
        return progress_of(client, plan.progress, plan.progress_partitions, Of.RECORDS, partition)

    def _know(self, sources: SourceState, start: StartPoint) -> None:
        topic_id = sources.ids.get(self.query.source.topic, "")
        self._plan = replace(self._plan, source_id=topic_id, replaced=start.replaced)
        super()._know(sources, start)

    def _marked_by(self, source: OffsetRange) -> set[Place]:
        return {place for place, span in source.items() if (span.start or 0) < span.end}
