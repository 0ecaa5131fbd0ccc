"""Makes or checks the topics a job needs, before anything else happens."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from holdfast.config.settings import Settings
from holdfast.errors import IncompatibleStatement, TopicMissing
from holdfast.state.changelog import changelog_config
from holdfast.transport.admin import Admin, TopicInfo
from holdfast.types.ids import changelog_topic, dead_letter_topic
from holdfast.types.topology import AggregateStep, Query, Source

__all__ = ["QueryTopics", "dead_letters", "ensure_topics"]

_LOG = logging.getLogger(__name__)
# A table's sink keeps the last value of each key for as long as anybody may read it.
_TABLE_SINK = {"cleanup.policy": "compact"}


@dataclass(frozen=True)
class QueryTopics:
    """The topics of one query as the broker has them; `changelog` is None without state."""

    source: TopicInfo
    sink: TopicInfo
    changelog: TopicInfo | None


def dead_letters(settings: Settings) -> str:
    """The job's dead-letter topic."""
    return settings.ingest.dead_letter_topic or dead_letter_topic(settings.application_id)


def ensure_topics(admin: Admin, settings: Settings, query: Query) -> QueryTopics:
    """Creates what is missing.

    Raises:
        TopicMissing: the source topic does not exist and its statement gives no PARTITIONS.
        IncompatibleStatement: the changelog has another number of partitions.
    """
    source = _source(admin, query.source)
    sink = admin.ensure_topic(
        query.sink.topic,
        query.sink.partitions or source.partitions,
        query.sink.replicas or -1,
        _TABLE_SINK if query.sink.kind == "TABLE" else {},
    )
    if settings.ingest.on_undecodable == "dead-letter":
        admin.ensure_topic(dead_letters(settings), 1, -1, {})
    changelog = None
    if isinstance(query.step, AggregateStep):
        changelog = _changelog(admin, settings, query)
    return QueryTopics(source, sink, changelog)


def _source(admin: Admin, source: Source) -> TopicInfo:
    found = admin.describe(source.topic)
    if found is not None:
        return found
    if source.partitions is None:
        raise TopicMissing(
            f"The topic {source.topic} of {source.name} does not exist.",
            cause="its producer has not run yet, or the name in KAFKA_TOPIC is wrong",
            action=f"create the topic, or give PARTITIONS in CREATE {source.kind} "
            f"{source.name} WITH (...) so that Holdfast creates it",
        )
    _LOG.info("Creating topic %s with %d partitions", source.topic, source.partitions)
    return admin.ensure_topic(source.topic, source.partitions, source.replicas or -1, {})


def _changelog(admin: Admin, settings: Settings, query: Query) -> TopicInfo:
    name = changelog_topic(settings.application_id, query.id)
    wanted = settings.state.partitions
    found = admin.ensure_topic(
        name, wanted, settings.state.changelog_replicas, changelog_config(settings.state)
    )
    if found.partitions != wanted:
        raise IncompatibleStatement(
            f"The changelog {name} has {found.partitions} partitions, "
            f"state.partitions is {wanted}.",
            cause="state.partitions changed under a table that has state",
            action=f"set state.partitions={found.partitions}, or start under a new application.id",
        )
    return found
