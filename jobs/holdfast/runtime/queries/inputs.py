"""The read options of a query: topics, columns, offsets and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.config.settings import Settings
from holdfast.ingest.used_columns import used_columns
from holdfast.runtime.queries.services import Services
from holdfast.runtime.topics import QueryTopics, dead_letters
from holdfast.types.ids import consumer_group
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import Query

__all__ = ["Inputs", "inputs_of"]


@dataclass(frozen=True)
class Inputs:
    """A query's sources, read as the settings say.

    Attributes:
        progress_topic: the topic for dead letters' commit markers; empty: none.
        ids: the topic ids of the sources to which offsets belong, by topic.
        cuts: the file of `ingest.cuts`; empty: no query of this job writes a source.
    """

    query: Query
    settings: Settings
    progress_topic: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)
    cuts: str = ""

    @property
    def topics(self) -> tuple[str, ...]:
        """The source topics, each once: a self-join has one topic on both sides."""
        return tuple(dict.fromkeys(source.topic for source in self.query.sources))

    def options(self) -> IngestOptions:
        """The read options of all inputs, read as one; a self-join reads its records once."""
        sides = (0,) if self.query.read_once else range(len(self.query.sources))
        first, *others = map(self._side, sides)
        return replace(first, others=tuple(others))

    def _side(self, side: int) -> IngestOptions:
        settings = self.settings
        ingest, source = settings.ingest, self.query.sources[side]
        return IngestOptions(
            source=source,
            kafka=settings.client(),
            columns=used_columns(self.query, side),
            query=self.query,
            max_offsets_per_trigger=ingest.max_offsets_per_trigger,
            # With an interval the time between two batches is not the duration of one.
            batch_target_ms=0 if ingest.trigger_interval_ms else ingest.batch_target_ms,
            fail_on_data_loss=ingest.fail_on_data_loss,
            on_undecodable=ingest.on_undecodable,
            dead_letter_topic=dead_letters(settings),
            progress_topic=self.progress_topic,
            transactional_id_prefix=consumer_group(settings.application_id, self.query.id),
            side=side,
            topic_id=self.ids.get(source.topic, ""),
            cuts=self.cuts,
            registry=settings.registry.client(),
        )


def inputs_of(services: Services, query: Query, topics: QueryTopics) -> Inputs:
    """The inputs of a running job's query, as its readers get them."""
    progress_topic = topics.progress.name if topics.progress else ""
    return Inputs(query, services.settings, progress_topic, cuts=services.cutting.file_for(query))
