"""Statements → Topology.  Text in, value out; only inference asks, if there is a registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from holdfast.config.sql_properties import refused_in_sql
from holdfast.sql.expressions.names import Functions
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import (
    AlterSource,
    AssertSource,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    CreateAs,
    CreateSource,
    DropSource,
    InsertSelect,
    InsertValues,
    Name,
    SetProperty,
    Statement,
    Steer,
    UnsetProperty,
)
from holdfast.sql.parse.text import Place, parse
from holdfast.sql.parse.unsupported import DONE_BY_PARSER, refused_kind
from holdfast.sql.plan.catalog import Catalog
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.select import plan_select
from holdfast.sql.plan.sources import upgrades
from holdfast.sql.plan.sources.changes import (
    altered,
    check_source,
    check_topic_there,
    dropped,
    expectation,
    terminated,
)
from holdfast.sql.plan.sources.insert import insertion, target_of
from holdfast.sql.plan.sources.options import check_topic, read_options
from holdfast.sql.plan.sources.sink import Target
from holdfast.sql.plan.sources.source import plan_source
from holdfast.tasks.aggregates.base import AggregateFunction
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.differences import as_ksqldb
from holdfast.types.statements.topology import (
    Emit,
    Expectation,
    Insertion,
    Query,
    Topology,
    statements,
)

__all__ = ["compile_text"]

_NO_EXTRA: Mapping[str, AggregateFunction] = {}
_NOTHING = Topology(())


def compile_text(
    text: str,
    *,
    extra_aggregates: Mapping[str, AggregateFunction] = _NO_EXTRA,
    place: Place = Place.FILE,
    after: Topology = _NOTHING,
    schemas: Schemas | None = None,
) -> Topology:
    """The meaning of a file of statements.

    Args:
        text: CREATE STREAM / TABLE, CREATE … AS SELECT, SET and UNSET statements.
        extra_aggregates: user-defined aggregates by SQL name, beside the registered ones.
        place: what the text is; tests may hold more than files.
        schemas: the registry that columns are inferred from; None: there is none.
        after: what statements before the text have made; the result begins with it.

    Returns:
        The queries in the file's order, the declared sources, and the SET properties (last
        value wins; their keys are not looked at here).

    Raises:
        InvalidStatement: the SQL is wrong; the message has line, column and the nearest name.
        Unsupported: ksqlDB has it, Holdfast does not yet; the message says where it will come.
    """
    script = Script(text)
    try:
        return _Planner(script, Functions(extra_aggregates), after, schemas).plan(place)
    except RecursionError:
        raise script.too_large() from None


class _Planner:
    def __init__(
        self, script: Script, functions: Functions, after: Topology, schemas: Schemas | None
    ) -> None:
        self._script = script
        self._schemas = schemas
        self._functions = functions
        self._catalog = Catalog(script, after)
        self._sources = list(after.sources)
        self._queries = list(after.queries)
        self._properties = dict(after.properties)
        self._insertions: list[Insertion] = []
        self._expectations: list[Expectation] = []

    def plan(self, place: Place) -> Topology:
        for statement in parse(self._script, place=place):
            self._add(statement)
        return Topology(
            queries=tuple(self._queries),
            sources=tuple(self._sources),
            properties=tuple(self._properties.items()),
            insertions=tuple(self._insertions),
            expectations=tuple(self._expectations),
            text=self._script.text,
        )

    def _add(self, statement: Statement) -> None:
        if isinstance(statement, SetProperty):
            self._set(statement)
        elif isinstance(statement, UnsetProperty):
            self._properties.pop(statement.key, None)
        elif isinstance(statement, CreateSource | CreateAs):
            self._create(statement)
        elif isinstance(statement, InsertSelect):
            self._insert(statement)
        elif isinstance(statement, InsertValues):
            made = insertion(self._context(statement.target), self._catalog, statement)
            self._insertions.append(made)
        elif isinstance(statement, DropSource | AlterSource | Steer):
            self._change(statement)
        elif isinstance(statement, AssertSource | AssertTopic | AssertValues | AssertTombstone):
            self._assert(statement)
        elif not isinstance(statement, DONE_BY_PARSER):
            later = refused_kind(statement)
            raise self._script.unsupported(statement.at, later.fact, action=later.action)

    def _set(self, statement: SetProperty) -> None:
        if why := refused_in_sql(statement.key):
            raise self._script.invalid(statement.at, f"SET '{statement.key}': {why}.")
        self._properties[statement.key] = statement.value

    def _change(self, statement: DropSource | AlterSource | Steer) -> None:
        if isinstance(statement, Steer):
            self._queries = terminated(self._script, statement, self._queries)
        elif isinstance(statement, AlterSource):
            source = altered(self._script, self._catalog, statement)
            self._catalog.replace(source)
            self._sources = [source if s.name == source.name else s for s in self._sources]
        else:
            gone = dropped(self._script, self._catalog, statement, self._queries)
            if gone is not None:
                self._catalog.remove(gone.name)
                self._sources = [s for s in self._sources if s.name != gone.name]
                self._remove_queries(gone.name)

    def _remove_queries(self, name: str) -> None:
        written = [
            query
            for of_statement in statements(self._queries).values()
            if of_statement[-1].sink.name == name
            for query in of_statement
        ]
        self._queries = [q for q in self._queries if q not in written]

    def _assert(
        self, statement: AssertSource | AssertTopic | AssertValues | AssertTombstone
    ) -> None:
        if isinstance(statement, AssertSource):
            check_source(self._script, self._catalog, statement)
        elif isinstance(statement, AssertTopic):
            check_topic_there(self._script, self._catalog.topics(), statement)
        else:
            context = self._context(statement.target)
            self._expectations.append(expectation(context, self._catalog, statement))

    def _create(self, statement: CreateSource | CreateAs) -> None:
        if statement.if_not_exists and statement.name.text in self._catalog:
            return
        if isinstance(statement, CreateAs):
            self._add_query(statement)
            return
        self._refuse_replacing(statement)
        source = plan_source(self._script, statement, self._properties, self._schemas)
        known = self._catalog.get(source.name)
        if statement.or_replace and known is not None:
            upgrades.check_source(self._script, statement.name.at, known, source)
        self._catalog.declare(source, statement)
        self._sources = [s for s in self._sources if s.name != source.name]
        self._sources.append(source)

    def _refuse_replacing(self, statement: CreateSource) -> None:
        known = self._catalog.get(statement.name.text)
        if statement.or_replace and (statement.read_only or (known and known.read_only)):
            kind, name = statement.kind.lower(), statement.name
            raise self._script.invalid(
                name.at,
                f"Cannot add {kind} '{name.text}': CREATE OR REPLACE is not supported on source "
                f"{kind}s.",
            )

    def _context(self, name: Name) -> Context:
        planner = self._properties.get("ksql.new.query.planner.enabled", "false")
        record = self._properties.get("emit", "").lower() == "record"
        jump = "retained" if as_ksqldb(self._properties) else "every"
        return Context(
            self._script,
            self._functions.under(self._properties),
            name.text,
            Emit.RECORD if record else Emit.BATCH,
            planner.lower() == "true",
            self._properties.get("emit.final.after.jump", jump).lower() == "retained",
            as_ksqldb(self._properties),
        )

    def _target(
        self, statement: CreateAs | InsertSelect, name: Name, query_id: str, kind: str
    ) -> Target:
        partition_by = statement.select.partition_by or ()
        return Target(
            id=query_id,
            kind=kind,
            name=name.text,
            at=name.at,
            text=statement.text,
            options=read_options(self._script, statement.properties, sink=True),
            properties=self._properties,
            partitioned=bool(partition_by),
            schemas=self._schemas,
            partition_by_null=any(isinstance(n, exp.Null) for n in partition_by),
        )

    def _add_query(self, statement: CreateAs) -> None:
        script, name = self._script, statement.name
        query_id = _query_id(script, statement)
        target = self._target(statement, name, query_id, statement.kind)
        queries = plan_select(self._context(name), self._catalog, target, statement.select)
        for source in {s.name: s for q in queries for s in q.sources}.values():
            if queries[-1].sink.topic == source.topic:
                raise script.invalid(
                    name.at, f"{name.text} would write the topic {source.topic} that it reads",
                    action="give it another KAFKA_TOPIC in its WITH clause",
                )  # fmt: skip
        known = self._catalog.get(name.text)
        if statement.or_replace and known is not None:
            upgrades.check_source(script, name.at, known, queries[-1].sink.as_source())
            before = statements(self._queries).get(query_id, ())
            upgrades.check_query(script, name.at, before, queries)
        self._catalog.add_query(queries[-1], statement)
        self._replace_queries(queries)

    def _replace_queries(self, queries: Sequence[Query]) -> None:
        """Put them where the same statement's queries were, or at the end; readers come after."""
        old = statements(self._queries).get(queries[-1].id, ())
        at = self._queries.index(old[0]) if old else len(self._queries)
        left = [q for q in self._queries if q not in old]
        self._queries = [*left[:at], *queries, *left[at:]]

    def _insert(self, statement: InsertSelect) -> None:
        name = statement.target
        existing = target_of(self._script, self._catalog, statement)
        stem = f"insert_{name.text.lower()}"
        count = sum(q.id.startswith(f"{stem}-") and not q.sink.internal for q in self._queries)
        target = self._target(statement, name, f"{stem}-{count + 1}", "STREAM")
        target = replace(target, existing=existing)
        self._queries += plan_select(self._context(name), self._catalog, target, statement.select)


def _query_id(script: Script, statement: CreateAs) -> str:
    name = statement.name
    # The id is part of topics' and transactional ids' names.
    check_topic(script, name.at, name.text)
    return f"c{statement.kind[0].lower()}as_{name.text.lower()}"
