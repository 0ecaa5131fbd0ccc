"""Reports what a deployment of a job would find and create; only `make_missing` writes.

Conditions that would stop a job after its start are found here before anything is touched: topics
that are missing, state written by another statement, a changelog or source records that are gone,
schemas that a registry would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.config.settings import Settings
from holdfast.deploy.checks.schemas import SchemaFound, find_schemas, register_schemas
from holdfast.ingest.offsets import check_available
from holdfast.runtime.dated_ahead import warn_dated_ahead
from holdfast.runtime.lease import look_before
from holdfast.runtime.queries.sources import source_state
from holdfast.runtime.queries.start import start_point, stream_start
from holdfast.runtime.savepoints.first_start import FirstStart
from holdfast.runtime.topics import Role, TopicPlan, ensure_topics, need_queries, plan_topics
from holdfast.sql import Lineage, lineage
from holdfast.state.changelog import CommitMarker
from holdfast.state.layout import GENERATION_0, Layout
from holdfast.state.markers import last_markers
from holdfast.state.table_store import store_name
from holdfast.state.topics.orders import OrderBook, read_layouts
from holdfast.state.topics.sink_owners import SinkOwners, claims_sink
from holdfast.state.topics.source_progress import Of, SourceProgress, progress_of
from holdfast.tasks.compatibility import check_marker, check_progress
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import Place, consumer_group, state_name
from holdfast.types.statements.topology import Query, Topology

__all__ = ["Made", "Preflight", "QueryFound", "TopicFound", "check", "make_missing"]

_BROKER_S = 30.0


@dataclass(frozen=True)
class TopicFound:
    """A topic of the job; `exists` is false for one that is (or was) still to be created."""

    name: str
    role: str
    partitions: int
    exists: bool


@dataclass(frozen=True)
class QueryFound:
    """A query and its existing state.

    Attributes:
        fingerprint: fingerprint of its state, empty without state.
        committed: state partitions that have a commit marker.
        records: input records in the committed state.
    """

    id: str
    sink: str
    source_topic: str
    stateful: bool
    fingerprint: str
    state_partitions: int
    committed: int
    records: int

    @property
    def new(self) -> bool:
        """Whether it has no state yet."""
        return not self.committed


@dataclass(frozen=True)
class Preflight:
    """The outcome of a check that passed."""

    application_id: str
    bootstrap_servers: str
    queries: tuple[QueryFound, ...]
    topics: tuple[TopicFound, ...]
    schemas: tuple[SchemaFound, ...]
    lineage: tuple[Lineage, ...]

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"ok": True, **asdict(self)}


@dataclass(frozen=True)
class Made:
    """The topics and schemas that a job needs, now that all of them are there.

    Attributes:
        topics: `exists` is true for those that were there before.
        schemas: each with whether it was there before.
    """

    topics: tuple[TopicFound, ...]
    schemas: tuple[tuple[SchemaFound, bool], ...]


def check(topology: Topology, settings: Settings) -> Preflight:
    """Compares a job with the topics and state in Kafka; warns of a sink that may refuse a result.

    Raises:
        Refused: the job would be refused, or would stop, after its start.
        KafkaUnavailable: no broker answered.
        RegistryUnavailable: a schema is to be registered, and no registry answered.
    """
    need_queries(topology)
    schemas = find_schemas(topology, settings)
    admin = _admin(settings)
    orders = _orders(admin, settings)
    orders.refresh()
    look_before(settings, orders)
    layouts = orders.layouts
    plans: dict[str, list[TopicPlan]] = {}
    made: dict[str, int] = {}
    for query in topology.queries:
        plans[query.id] = plan_topics(
            admin, settings, query, made, layouts.get(query.id, GENERATION_0)
        )
        made |= {p.name: p.partitions for p in plans[query.id] if p.role is Role.SINK}
        warn_dated_ahead(admin, query, settings.bootstrap_servers)
    FirstStart(admin, settings, topology, orders).look()
    found = tuple(
        _check_query(admin, settings, q, plans[q.id], layouts.get(q.id, GENERATION_0))
        for q in topology.queries
    )
    topics = _distinct(plan for of_query in plans.values() for plan in of_query)
    servers, facts = settings.bootstrap_servers, lineage(topology)
    return Preflight(settings.application_id, servers, found, topics, schemas, facts)


def make_missing(topology: Topology, settings: Settings) -> Made:
    """Registers the job's schemas, all or none, then creates its missing topics.

    Raises:
        SinkOwned: a sink belongs to another query; nothing is made then.
        Refused: an existing topic or a schema does not fit.
        KafkaUnavailable: no broker answered.
        RegistryUnavailable: a schema is to be registered, and no registry answered.
    """
    need_queries(topology)
    admin = _admin(settings)
    owners = SinkOwners(admin, settings.client())
    owners.check_all(topology.queries, settings.application_id)
    schemas = register_schemas(topology, settings)
    return Made(_make_topics(admin, topology, settings), schemas)


def _make_topics(admin: Admin, topology: Topology, settings: Settings) -> tuple[TopicFound, ...]:
    plans, layouts = [], read_layouts(settings.client(), settings.application_id)
    for query in topology.queries:
        layout = layouts.get(query.id, GENERATION_0)
        plans += plan_topics(admin, settings, query, layout=layout)
        ensure_topics(admin, settings, query, layout)
    return _distinct(plans)


def _orders(admin: Admin, settings: Settings) -> OrderBook:
    return OrderBook(admin, settings.client(), settings.application_id, timeout_s=_BROKER_S)


def _admin(settings: Settings) -> Admin:
    admin = Admin(settings.client())
    admin.wait_ready(_BROKER_S)
    return admin


def _distinct(plans: Iterable[TopicPlan]) -> tuple[TopicFound, ...]:
    found: dict[str, TopicFound] = {}
    for plan in plans:
        exists = plan.existing is not None
        partitions = plan.existing.partitions if plan.existing is not None else plan.partitions
        found.setdefault(plan.name, TopicFound(plan.name, str(plan.role), partitions, exists))
    return tuple(found.values())


def _check_query(
    admin: Admin, settings: Settings, query: Query, plans: list[TopicPlan], layout: Layout
) -> QueryFound:
    stateful = query.stateful
    known = _check_state(admin, settings, query, plans, layout) if stateful else []
    if not stateful:
        _check_stream(admin, settings, query, plans)
    sink = next(plan.existing for plan in plans if plan.role is Role.SINK)
    if sink is not None and claims_sink(query):
        SinkOwners(admin, settings.client()).check(query, sink.topic_id, settings.application_id)
    return QueryFound(
        id=query.id,
        sink=query.sink.name,
        source_topic=query.source.topic,
        stateful=stateful,
        fingerprint=query.fingerprint() if stateful else "",
        state_partitions=layout.of(settings).state.partitions if stateful else 0,
        committed=len(known),
        records=sum(m.records for m in known),
    )


def _check_state(
    admin: Admin, settings: Settings, query: Query, plans: list[TopicPlan], layout: Layout
) -> list[CommitMarker]:
    """The existing commit markers, all of them this statement's."""
    changelog = next(plan for plan in plans if plan.role is Role.CHANGELOG)
    sources = [plan for plan in plans if plan.role is Role.SOURCE]
    # Read the group first: a running job may commit meanwhile, and its markers are never behind.
    progress = _progress(admin, settings, query, sources)
    markers: list[CommitMarker | None] = []
    if changelog.existing is not None:
        markers = last_markers(settings.client(), changelog.name, changelog.partitions)
    name = state_name(query.id, layout.generation)
    for p, marker in enumerate(markers):
        check_marker(
            marker,
            query,
            changelog.partitions,
            owner=store_name(settings.application_id, name, p),
        )
    rebuild = settings.state.on_changelog_loss == "rebuild"
    there = [source.name for source in sources if source.existing is not None]
    now = source_state(admin, settings, there)
    start = start_point(query.id, markers, now, progress, rebuild=rebuild)
    known = [m for m in markers if m is not None]
    if known and settings.ingest.fail_on_data_loss:
        for source in sources:
            ends = {p: at for (topic, p), at in start.offsets.items() if topic == source.name}
            check_available(source.name, ends, _bounds(admin, source))
    return known


def _progress(
    admin: Admin, settings: Settings, query: Query, sources: Iterable[TopicPlan]
) -> dict[Place, int]:
    """The offsets of the query's consumer group."""
    group = consumer_group(settings.application_id, query.id)
    there = [source.name for source in sources if source.existing is not None]
    return {(t, p): offset for t in there for p, offset in admin.committed(group, t).items()}


def _check_stream(admin: Admin, settings: Settings, query: Query, plans: list[TopicPlan]) -> None:
    by_role = {plan.role: plan for plan in plans}
    progress, source = by_role[Role.PROGRESS], by_role[Role.SOURCE]
    group = _progress(admin, settings, query, [source])
    done: dict[Place, SourceProgress] = {}
    if progress.existing is not None:
        place = (settings.client(), progress.name, progress.existing.partitions)
        markers = [progress_of(*place, Of.RECORDS, p) for p in range(source.partitions)]
        for marker in markers:
            check_progress(marker, query)
        done = {(source.name, m.partition): m for m in markers if m is not None}
    if source.existing is None:
        return
    rebuild = settings.state.on_changelog_loss == "rebuild"
    now = source_state(admin, settings, [source.name])
    start = stream_start(query.id, done, now, group, rebuild=rebuild)
    if settings.ingest.fail_on_data_loss:
        offsets = {p: at for (_, p), at in start.offsets.items()}
        check_available(source.name, offsets, _bounds(admin, source))


def _bounds(admin: Admin, source: TopicPlan) -> dict[int, tuple[int, int]]:
    return admin.bounds(source.name) if source.existing is not None else {}
