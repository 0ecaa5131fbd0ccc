"""Makes or checks the topics a job needs, before anything else happens."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.config.settings import Settings
from holdfast.errors import IncompatibleStatement, Refused, TopicMissing
from holdfast.state.changelog import changelog_config
from holdfast.state.topics.source_progress import PROGRESS_CONFIG
from holdfast.transport.cluster.admin import Admin, TopicInfo
from holdfast.transport.sizes import TOPIC_LIMIT
from holdfast.types.ids import changelog_topic, dead_letter_topic, progress_topic
from holdfast.types.topology import Query, Sink, Source

__all__ = [
    "QueryTopics",
    "Role",
    "TopicPlan",
    "dead_letters",
    "ensure_source",
    "ensure_topics",
    "plan_topics",
]

_LOG = logging.getLogger(__name__)
# A table's sink keeps the last value of each key for as long as anybody may read it.
_TABLE_SINK = {"cleanup.policy": "compact"}
# Between two steps of one statement.  Its records carry event time, which may be years back: by
# it they would be deleted before the next step has read them.
_INTERNAL_SINK = {"cleanup.policy": "delete", "retention.ms": "-1"}
_SEGMENT_BYTES = "segment.bytes"
_HEADERS_BYTES = 4_096  # at most, of a dead letter
# Brokers refuse records that are dated an hour ahead, and one of them would stop the query that
# writes it: a sink has event times, and takes what its sources hold.
_DATED_AHEAD = "message.timestamp.after.max.ms"
_FOREVER_MS = str((1 << 63) - 1)


class Role(StrEnum):
    """What a topic is to a query."""

    SOURCE = "source"
    SINK = "sink"
    DEAD_LETTERS = "dead letters"
    CHANGELOG = "changelog"
    PROGRESS = "progress"


@dataclass(frozen=True)
class TopicPlan:
    """A topic a query needs; `existing` is None when it is still to be created as planned.

    `replicas` -1 is the broker's default.
    """

    role: Role
    name: str
    partitions: int
    replicas: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
    existing: TopicInfo | None = None


@dataclass(frozen=True)
class QueryTopics:
    """The topics of one query as the broker has them; `source` is the first of its sources.

    `changelog` is None without state, `progress` where state partitions tell all progress.
    """

    source: TopicInfo
    sink: TopicInfo
    changelog: TopicInfo | None
    progress: TopicInfo | None


def dead_letters(settings: Settings) -> str:
    """The job's dead-letter topic."""
    return settings.ingest.dead_letter_topic or dead_letter_topic(settings.application_id)


def plan_topics(
    admin: Admin, settings: Settings, query: Query, made: Mapping[str, int] | None = None
) -> list[TopicPlan]:
    """The topics of a query, existing ones checked; nothing is created.

    What a source topic takes fits those that are created: where it takes larger records than the
    cluster's other topics do, so do they.

    Args:
        made: partitions of topics that queries before it would create.

    Raises:
        TopicMissing: a source topic does not exist and its statement gives no PARTITIONS.
        IncompatibleStatement: the changelog has another number of partitions, or forgets rows.
    """
    read = {source.topic: source for source in query.sources}
    sources = [_source(admin, source, made or {}) for source in read.values()]
    sink, source = query.sink, sources[0]
    largest = _largest(admin, sources)
    ahead = {_DATED_AHEAD: _FOREVER_MS} if _knows(admin, sources, _DATED_AHEAD) else {}
    plans = [
        *sources,
        TopicPlan(
            Role.SINK,
            sink.topic,
            sink.partitions or source.partitions,
            sink.replicas or -1,
            _taking(largest, {**_sink_config(sink), **ahead}),
            admin.describe(sink.topic),
        ),
    ]
    if settings.ingest.on_undecodable == "dead-letter":
        name = dead_letters(settings)
        config = _taking(largest and largest + _HEADERS_BYTES, {})
        found = admin.describe(name)
        plans.append(TopicPlan(Role.DEAD_LETTERS, name, 1, config=config, existing=found))
    if query.stateful:
        plans.append(_changelog(admin, settings, query, largest))
    if not query.stateful or settings.ingest.on_undecodable == "dead-letter":
        plans.append(_progress(admin, settings, query, source.partitions))
    return plans


def ensure_topics(admin: Admin, settings: Settings, query: Query) -> QueryTopics:
    """Creates what is missing.

    Raises:
        TopicMissing, IncompatibleStatement: see `plan_topics`.
    """
    found: dict[Role, TopicInfo] = {}
    for plan in plan_topics(admin, settings, query):
        found.setdefault(plan.role, _ensure(admin, plan))
    changelog = found.get(Role.CHANGELOG)
    if changelog is not None:
        _check_partitions(changelog, settings)
    return QueryTopics(found[Role.SOURCE], found[Role.SINK], changelog, found.get(Role.PROGRESS))


def ensure_source(admin: Admin, source: Source) -> TopicInfo:
    """The topic of a declared stream or table.

    Raises:
        TopicMissing: see `plan_topics`.
    """
    return _ensure(admin, _source(admin, source, {}))


def _ensure(admin: Admin, plan: TopicPlan) -> TopicInfo:
    if plan.existing is not None:
        return plan.existing
    _LOG.info("Creating topic %s (%s), partitions: %d", plan.name, plan.role, plan.partitions)
    return admin.ensure_topic(plan.name, plan.partitions, plan.replicas, plan.config)


def _sink_config(sink: Sink) -> Mapping[str, str]:
    if sink.internal and sink.kind != "TABLE":
        return _INTERNAL_SINK
    return _TABLE_SINK if sink.kind == "TABLE" else {}


def _source(admin: Admin, source: Source, made: Mapping[str, int]) -> TopicPlan:
    found = admin.describe(source.topic)
    planned = made.get(source.topic, source.partitions)
    partitions = found.partitions if found is not None else planned
    if partitions is None:
        raise TopicMissing(
            f"The topic {source.topic} of {source.name} does not exist.",
            cause="its producer has not run yet, or the name in KAFKA_TOPIC is wrong",
            action=f"create the topic, or give PARTITIONS in CREATE {source.kind} "
            f"{source.name} WITH (...) so that Holdfast creates it",
        )
    return TopicPlan(Role.SOURCE, source.topic, partitions, source.replicas or -1, existing=found)


def _largest(admin: Admin, sources: Iterable[TopicPlan]) -> int | None:
    """The largest own limit of the sources that is above the cluster's; None: there is none."""
    limits: list[int] = []
    for plan in sources:
        if plan.existing is None:
            continue
        try:
            raised = admin.raised(plan.name, TOPIC_LIMIT)
        except Refused as error:  # who may read a topic may not always ask for its settings
            _LOG.warning("Taking the default of %s for %s: %s", TOPIC_LIMIT, plan.name, error)
            raised = None
        limits += [] if raised is None else [raised]
    return max(limits, default=None)


def _knows(admin: Admin, sources: Iterable[TopicPlan], setting: str) -> bool:
    """Whether the brokers know a setting of topics: those before Kafka 3.6 lack some."""
    for plan in sources:
        if plan.existing is not None:
            with suppress(Refused):
                return setting in admin.config(plan.name)
    return False


def _taking(largest: int | None, config: Mapping[str, str]) -> Mapping[str, str]:
    """Settings of a topic that takes records as large as those of the sources."""
    if largest is None:
        return config
    wider = {**config, TOPIC_LIMIT: str(largest)}
    if _SEGMENT_BYTES in config:  # a batch has to fit a segment as well
        wider[_SEGMENT_BYTES] = str(max(largest, int(config[_SEGMENT_BYTES])))
    return wider


def _changelog(admin: Admin, settings: Settings, query: Query, largest: int | None) -> TopicPlan:
    name = changelog_topic(settings.application_id, query.id)
    found = admin.describe(name)
    if found is not None:
        _check_partitions(found, settings)
        _check_compacted(admin, name)
    state = settings.state
    replicas, config = state.changelog_replicas, _taking(largest, changelog_config(state))
    return TopicPlan(Role.CHANGELOG, name, state.partitions, replicas, config, found)


def _progress(admin: Admin, settings: Settings, query: Query, partitions: int) -> TopicPlan:
    name = progress_topic(settings.application_id, query.id)
    found = admin.describe(name)
    if found is not None:
        _check_compacted(admin, name)
    replicas = settings.state.changelog_replicas
    return TopicPlan(Role.PROGRESS, name, partitions, replicas, PROGRESS_CONFIG, found)


def _check_partitions(changelog: TopicInfo, settings: Settings) -> None:
    wanted = settings.state.partitions
    if changelog.partitions != wanted:
        raise IncompatibleStatement(
            f"The changelog {changelog.name} has {changelog.partitions} partitions, "
            f"state.partitions is {wanted}.",
            cause="state.partitions changed under a table that has state",
            action=f"set state.partitions={changelog.partitions}, "
            "or start under a new application.id",
        )


def _check_compacted(admin: Admin, name: str) -> None:
    policy = admin.config(name).get("cleanup.policy", "")
    if policy != "compact":
        raise IncompatibleStatement(
            f"The topic {name} has cleanup.policy={policy}, not compact: what it keeps, progress "
            "or rows, would be lost.",
            cause="the topic was made, or altered, by something other than Holdfast",
            action=f"set cleanup.policy=compact on the topic {name}",
        )
