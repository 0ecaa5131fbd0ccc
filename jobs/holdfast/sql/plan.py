"""Statements → Topology.  Pure: text in, value out, no I/O."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from holdfast.sql.catalog import Catalog
from holdfast.sql.context import Context
from holdfast.sql.later import DONE_BY_PARSER, refused_kind
from holdfast.sql.options import check_topic, read_options
from holdfast.sql.parse import parse
from holdfast.sql.plan_select import plan_select
from holdfast.sql.plan_sink import Target
from holdfast.sql.plan_source import plan_source
from holdfast.sql.scopes import Functions
from holdfast.sql.script import Script
from holdfast.sql.statements import (
    CreateAs,
    CreateSource,
    SetProperty,
    Statement,
    UnsetProperty,
)
from holdfast.tasks.aggregates.base import AggregateFunction
from holdfast.types.topology import Emit, Query, Source, Topology

__all__ = ["compile_text"]

_NO_EXTRA: Mapping[str, AggregateFunction] = {}


def compile_text(
    text: str, *, extra_aggregates: Mapping[str, AggregateFunction] = _NO_EXTRA
) -> Topology:
    """The meaning of a file of statements.

    Args:
        text: CREATE STREAM / TABLE, CREATE … AS SELECT, SET and UNSET statements.
        extra_aggregates: user-defined aggregates by SQL name, beside the registered ones.

    Returns:
        The queries in the file's order, the declared sources, and the SET properties (last
        value wins; their keys are not looked at here).

    Raises:
        InvalidStatement: the SQL is wrong; the message has line, column and the nearest name.
        Unsupported: ksqlDB has it, Holdfast does not yet; the message says where it will come.
    """
    return _Planner(Script(text), Functions(extra_aggregates)).plan()


class _Planner:
    def __init__(self, script: Script, functions: Functions) -> None:
        self._script = script
        self._functions = functions
        self._catalog = Catalog(script)
        self._sources: list[Source] = []
        self._queries: list[Query] = []
        self._properties: dict[str, str] = {}

    def plan(self) -> Topology:
        for statement in parse(self._script):
            self._add(statement)
        return Topology(tuple(self._queries), tuple(self._sources), tuple(self._properties.items()))

    def _add(self, statement: Statement) -> None:
        if isinstance(statement, SetProperty):
            self._properties[statement.key] = statement.value
        elif isinstance(statement, UnsetProperty):
            self._properties.pop(statement.key, None)
        elif isinstance(statement, CreateSource | CreateAs):
            self._create(statement)
        elif not isinstance(statement, DONE_BY_PARSER):
            later = refused_kind(statement)
            raise self._script.unsupported(statement.at, later.fact, action=later.action)

    def _create(self, statement: CreateSource | CreateAs) -> None:
        if statement.if_not_exists and statement.name.text in self._catalog:
            return
        if isinstance(statement, CreateSource):
            self._refuse_replacing(statement)
            source = plan_source(self._script, statement, self._properties)
            self._catalog.declare(source, statement)
            self._sources = [s for s in self._sources if s.name != source.name]
            self._sources.append(source)
        else:
            self._add_query(statement)

    def _refuse_replacing(self, statement: CreateSource) -> None:
        known = self._catalog.get(statement.name.text)
        if statement.or_replace and (statement.read_only or (known and known.read_only)):
            kind, name = statement.kind.lower(), statement.name
            raise self._script.invalid(
                name.at,
                f"Cannot add {kind} '{name.text}': CREATE OR REPLACE is not supported on source "
                f"{kind}s.",
            )

    def _add_query(self, statement: CreateAs) -> None:
        script, name = self._script, statement.name
        options = read_options(script, statement.properties, sink=True)
        partition_by = statement.select.partition_by or ()
        target = Target(
            id=_query_id(script, statement),
            kind=statement.kind,
            name=name.text,
            at=name.at,
            text=statement.text,
            options=options,
            properties=self._properties,
            partitioned=bool(partition_by),
            partition_by_null=any(isinstance(n, exp.Null) for n in partition_by),
        )
        planner = self._properties.get("ksql.new.query.planner.enabled", "false")
        context = Context(
            script, self._functions, name.text, self._emit(), planner.lower() == "true"
        )
        queries = plan_select(context, self._catalog, target, statement.select)
        for source in {s.name: s for q in queries for s in q.sources}.values():
            if queries[-1].sink.topic == source.topic:
                raise script.invalid(
                    name.at, f"{name.text} would write the topic {source.topic} that it reads",
                    action="give it another KAFKA_TOPIC in its WITH clause",
                )  # fmt: skip
        self._catalog.add_query(queries[-1], statement)
        self._queries = [q for q in self._queries if not _replaces(queries[-1], q)]
        self._queries += queries

    def _emit(self) -> Emit:
        return Emit.RECORD if self._properties.get("emit", "").lower() == "record" else Emit.BATCH


def _replaces(new: Query, old: Query) -> bool:
    return old.id == new.id or (old.id.startswith(f"{new.id}_") and old.sink.internal)


def _query_id(script: Script, statement: CreateAs) -> str:
    name = statement.name
    # The id is part of topics' and transactional ids' names.
    check_topic(script, name.at, name.text)
    return f"c{statement.kind[0].lower()}as_{name.text.lower()}"
