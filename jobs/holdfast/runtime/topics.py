"""Creates or checks the topics of a job before anything else happens."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.config.settings import Settings
from holdfast.errors import IncompatibleStatement, InvalidStatement, Refused, TopicMissing
from holdfast.runtime.dated_ahead import any_time, warn_dated_ahead
from holdfast.state.changelog import changelog_config
from holdfast.state.layout import GENERATION_0, Layout
from holdfast.state.topics.source_progress import PROGRESS_CONFIG
from holdfast.transport.cluster.admin import Admin, TopicInfo
from holdfast.transport.sizes import TOPIC_LIMIT
from holdfast.types.ids import changelog_topic, dead_letter_topic, progress_topic
from holdfast.types.statements.differences import DIFFERENCES, not_copartitioned
from holdfast.types.statements.topology import JoinStep, Query, Sink, Source, Topology
from holdfast.types.words import nearest

__all__ = [
    "QueryTopics",
    "Role",
    "TopicPlan",
    "dead_letters",
    "ensure_source",
    "ensure_topics",
    "need_queries",
    "plan_topics",
]

_LOG = logging.getLogger(__name__)
# A table's sink keeps the last value of each key for ever.
_TABLE_SINK = {"cleanup.policy": "compact"}
# Between two steps of one statement.  Records carry event time, which may be years back, so that
# time-based retention would delete them before the next step has read them.
_INTERNAL_SINK = {"cleanup.policy": "delete", "retention.ms": "-1"}
_SEGMENT_BYTES = "segment.bytes"
_HEADERS_BYTES = 4_096  # the most that a dead letter's headers take


class Role(StrEnum):
    """The role of a topic in a query."""

    SOURCE = "source"
    SINK = "sink"
    DEAD_LETTERS = "dead letters"
    CHANGELOG = "changelog"
    PROGRESS = "progress"


@dataclass(frozen=True)
class TopicPlan:
    """A topic that a query needs; `existing` is None if it is still to be created.

    `replicas` of -1 means the broker's default.
    """

    role: Role
    name: str
    partitions: int
    replicas: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
    existing: TopicInfo | None = None


@dataclass(frozen=True)
class QueryTopics:
    """The topics of one query on the broker; `source` is the first of its sources.

    `changelog` is None without state, `progress` if state partitions record all progress.
    """

    source: TopicInfo
    sink: TopicInfo
    changelog: TopicInfo | None
    progress: TopicInfo | None


def need_queries(topology: Topology) -> None:
    """Raises `InvalidStatement`: the job has no query, and so nothing to do."""
    if not topology.queries:
        raise InvalidStatement(
            "There is no CREATE TABLE … AS SELECT or CREATE STREAM … AS SELECT.",
            action="add one; a job without a query has nothing to do",
        )


def dead_letters(settings: Settings) -> str:
    """The job's dead-letter topic."""
    return settings.ingest.dead_letter_topic or dead_letter_topic(settings.application_id)


def plan_topics(
    admin: Admin,
    settings: Settings,
    query: Query,
    made: Mapping[str, int] | None = None,
    layout: Layout = GENERATION_0,
) -> list[TopicPlan]:
    """Plans the topics of a query and checks existing ones; creates nothing.

    If a source topic accepts larger records than the cluster's default, so do created topics.

    Args:
        made: partitions of topics that earlier queries would create.
        layout: of the query's state.

    Raises:
        TopicMissing: a source topic does not exist and its statement gives no PARTITIONS.
        IncompatibleStatement: the changelog has another number of partitions, or is not compacted.
        InvalidStatement: a join is to be ksqlDB's, and its topics are not partitioned alike.
    """
    read = {source.topic: source for source in query.sources}
    sources = [_source(admin, source, made or {}) for source in read.values()]
    _check_copartitioned(query, sources)
    sink, source = query.sink, sources[0]
    largest = _largest(admin, sources)
    ahead = any_time(admin, (plan.name for plan in sources if plan.existing is not None))
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
        plans.append(_changelog(admin, layout.of(settings), query, largest, layout.generation))
    if not query.stateful or settings.ingest.on_undecodable == "dead-letter":
        plans.append(_progress(admin, settings, query, source.partitions))
    return plans


def ensure_topics(
    admin: Admin, settings: Settings, query: Query, layout: Layout = GENERATION_0
) -> QueryTopics:
    """Creates what is missing; warns of a sink that may refuse a result.

    Raises:
        TopicMissing, IncompatibleStatement: see `plan_topics`.
    """
    warn_dated_ahead(admin, query, settings.bootstrap_servers)
    plans = plan_topics(admin, settings, query, layout=layout)
    missing = [plan for plan in plans if plan.role is Role.SOURCE and plan.existing is None]
    for plan in missing:
        _ensure(admin, plan)
    if missing:  # the sink's settings follow from those of the sources
        plans = plan_topics(admin, settings, query, layout=layout)
    found: dict[Role, TopicInfo] = {}
    for plan in plans:
        found.setdefault(plan.role, _ensure(admin, plan))
    changelog = found.get(Role.CHANGELOG)
    if changelog is not None:
        _check_partitions(changelog, layout.of(settings))
    return QueryTopics(found[Role.SOURCE], found[Role.SINK], changelog, found.get(Role.PROGRESS))


def ensure_source(admin: Admin, source: Source) -> TopicInfo:
    """Checks or creates the topic of a declared stream or table.

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
        near = nearest(source.topic, admin.names())
        hint = f"did you mean {near}? Else " if near else ""
        raise TopicMissing(
            f"The topic {source.topic} of {source.name} does not exist.",
            cause="its producer has not run yet, or the name in KAFKA_TOPIC is wrong",
            action=f"{hint}create the topic, or give PARTITIONS in CREATE {source.kind} "
            f"{source.name} WITH (...) so that Holdfast creates it",
        )
    return TopicPlan(Role.SOURCE, source.topic, partitions, source.replicas or -1, existing=found)


def _check_copartitioned(query: Query, sources: Sequence[TopicPlan]) -> None:
    if not isinstance(query.step, JoinStep) or not query.step.copartitioned:
        return
    of = {plan.name: plan.partitions for plan in sources}
    left, right = ((s.name, of[s.topic]) for s in query.sources)
    if left[1] != right[1]:
        topics = " and ".join(s.topic for s in query.sources)
        raise InvalidStatement(
            not_copartitioned(left, right),
            cause=f"{DIFFERENCES} is 'none' for {query.id}, and its topics are {topics}",
            action=f"SET '{DIFFERENCES}'='kept' before the statement, or give both topics as many "
            "partitions",
        )


def _largest(admin: Admin, sources: Iterable[TopicPlan]) -> int | None:
    """The sources' largest record size limit above the cluster's default; None: none is."""
    limits: list[int] = []
    for plan in sources:
        if plan.existing is None:
            continue
        try:
            raised = admin.raised(plan.name, TOPIC_LIMIT)
        except Refused as error:  # a principal may read a topic but not its settings
            _LOG.warning("Taking the default of %s for %s: %s", TOPIC_LIMIT, plan.name, error)
            raised = None
        limits += [] if raised is None else [raised]
    return max(limits, default=None)


def _taking(largest: int | None, config: Mapping[str, str]) -> Mapping[str, str]:
    """Topic settings that accept records as large as the sources'."""
    if largest is None:
        return config
    wider = {**config, TOPIC_LIMIT: str(largest)}
    if _SEGMENT_BYTES in config:  # a batch has to fit into a segment, too
        wider[_SEGMENT_BYTES] = str(max(largest, int(config[_SEGMENT_BYTES])))
    return wider


def _changelog(
    admin: Admin, settings: Settings, query: Query, largest: int | None, generation: int
) -> TopicPlan:
    name = changelog_topic(settings.application_id, query.id, generation)
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
            action=f"set state.partitions={changelog.partitions}, and `holdfast rescale` the "
            "running query to another number; or start under a new application.id",
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
