"""Statements → Topology.  Pure: text in, value out, no I/O."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.sql.catalog import Catalog
from holdfast.sql.later import CLAUSES, DONE_BY_PARSER, refused_kind
from holdfast.sql.options import (
    Options,
    check_format,
    check_topic,
    fits_kafka,
    read_options,
    timestamp_of,
)
from holdfast.sql.parse import parse
from holdfast.sql.plan_aggregate import plan_aggregate
from holdfast.sql.plan_project import plan_project
from holdfast.sql.projection import check_column_name
from holdfast.sql.scopes import Functions, source_translator
from holdfast.sql.script import Script
from holdfast.sql.statements import (
    CreateAs,
    CreateSource,
    Select,
    SetProperty,
    Statement,
    UnsetProperty,
)
from holdfast.tasks.aggregates.base import AggregateFunction
from holdfast.types.schema import Base, Column
from holdfast.types.topology import (
    AggregateStep,
    Format,
    ProjectStep,
    Query,
    Sink,
    Source,
    Topology,
    WindowKind,
)

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
            if statement.kind == "TABLE" and statement.read_only:
                later = CLAUSES["SOURCE TABLE"]
                raise self._script.unsupported(statement.at, later.fact, action=later.action)
            source = plan_source(self._script, statement)
            self._catalog.declare(source, statement.name)
            self._sources.append(source)
        else:
            self._add_query(statement)

    def _add_query(self, statement: CreateAs) -> None:
        script, name = self._script, statement.name
        self._refuse_later(statement.select)
        source = self._catalog.source(statement.select.source)
        self._refuse_table(statement, source)
        options = read_options(script, statement.properties, sink=True)
        step = self._step(statement, source)
        sink = plan_sink(script, statement, source, options, step)
        if sink.topic == source.topic:
            raise script.invalid(
                name.at, f"{name.text} would write the topic {sink.topic} that it reads",
                action="give it another KAFKA_TOPIC in its WITH clause",
            )  # fmt: skip
        timestamp = timestamp_of(script, options, sink.value_columns)
        query = Query(
            id=_query_id(script, statement),
            statement=statement.text,
            source=source,
            filter=self._filter(statement, source),
            step=step,
            sink=sink,
            properties=_query_properties(options),
        )
        self._catalog.add_query(query, name, timestamp)
        self._queries.append(query)

    def _refuse_later(self, select: Select) -> None:
        window = select.window
        session = window is not None and window.kind is WindowKind.SESSION
        for there, clause in (
            (select.joins, "JOIN"),
            (session, "SESSION"),
            (select.final, "FINAL"),
        ):
            if there:
                later = CLAUSES[clause]
                at = select.joins[0].at if clause == "JOIN" else select.at
                at = window.at if window is not None and clause == "SESSION" else at
                raise self._script.unsupported(at, later.fact, action=later.action)

    def _refuse_table(self, statement: CreateAs, source: Source) -> None:
        if source.kind == "TABLE":
            grouped = "AGGREGATION" if statement.select.group_by else "PROJECTION"
            later = CLAUSES[f"TABLE {grouped}"]
            at = statement.select.source.at
            raise self._script.unsupported(at, later.fact, action=later.action)

    def _filter(self, statement: CreateAs, source: Source) -> str | None:
        select = statement.select
        if select.where is None:
            return None
        alias = select.source_alias.text if select.source_alias else None
        before = source_translator(self._script, source, alias, self._functions, "WHERE")
        return before.condition(select.where)

    def _step(self, statement: CreateAs, source: Source) -> AggregateStep | ProjectStep:
        script, select = self._script, statement.select
        if select.group_by:
            if select.partition_by is not None:
                raise script.invalid(select.at, "PARTITION BY and GROUP BY exclude each other")
            if statement.kind == "STREAM":
                raise script.invalid(
                    statement.at,
                    "this SELECT has a GROUP BY and so makes a TABLE",
                    action="write CREATE TABLE ... AS SELECT",
                )
            return plan_aggregate(script, select, source, self._functions)
        for clause, word in ((select.window, "WINDOW"), (select.having, "HAVING")):
            if clause is not None:
                raise script.invalid(select.at, f"{word} requires a GROUP BY clause")
        step = plan_project(script, select, source, self._functions)
        if statement.kind == "TABLE":
            raise script.invalid(
                statement.at,
                "this SELECT over a stream has no GROUP BY and so makes a STREAM",
                action="write CREATE STREAM ... AS SELECT, or group by a key",
            )
        return step


def _query_id(script: Script, statement: CreateAs) -> str:
    name = statement.name
    # The id is part of topics' and transactional ids' names.
    check_topic(script, name.at, name.text)
    return f"c{statement.kind[0].lower()}as_{name.text.lower()}"


def _query_properties(options: Options) -> tuple[tuple[str, str], ...]:
    """What the Sink has no field for, by the names of the WITH clause."""
    pairs = (
        ("RETENTION_MS", options.retention_ms),
        ("TIMESTAMP", options.timestamp.value if options.timestamp else None),
        (
            "TIMESTAMP_FORMAT",
            options.timestamp_format.value if options.timestamp_format else None,
        ),
    )
    return tuple((key, str(value)) for key, value in pairs if value is not None)


def plan_source(script: Script, statement: CreateSource) -> Source:
    """A declared stream or table; VALUE_FORMAT defaults to JSON, KEY_FORMAT to KAFKA."""
    name = statement.name
    _check_columns(script, statement)
    options = read_options(script, statement.properties, sink=False)
    if options.topic is None:
        raise script.invalid(
            name.at,
            f"{name.text} needs the property KAFKA_TOPIC",
            action="WITH (KAFKA_TOPIC='...', VALUE_FORMAT='JSON')",
        )
    keys = tuple(Column(c.name.text, c.type) for c in statement.columns if c.constraint)
    values = tuple(Column(c.name.text, c.type) for c in statement.columns if not c.constraint)
    key_format = options.key_format or Format.KAFKA
    value_format = options.value_format or Format.JSON
    check_format(script, name.at, "key", keys, key_format)
    check_format(script, name.at, "value", values, value_format)
    return Source(
        name=name.text,
        kind=statement.kind,
        topic=options.topic,
        key_columns=keys,
        value_columns=values,
        key_format=key_format,
        value_format=value_format,
        timestamp=timestamp_of(script, options, values),
        partitions=options.partitions,
        replicas=options.replicas,
    )


def _check_columns(script: Script, statement: CreateSource) -> None:
    wanted = "PRIMARY KEY" if statement.kind == "TABLE" else "KEY"
    seen: set[str] = set()
    for column in statement.columns:
        name, at = column.name.text, column.name.at
        check_column_name(script, at, name)
        if name in seen:
            raise script.invalid(at, f"the column {name} is declared twice")
        seen.add(name)
        if column.constraint and column.constraint != wanted:
            raise script.invalid(
                at, f"{name}: a {statement.kind} has {wanted} columns, not {column.constraint}"
            )
        if column.constraint and column.type.base is Base.MAP:
            raise script.invalid(at, f"{name}: a MAP cannot be a key")
    name_at = statement.name.at
    if not statement.columns:
        raise script.unsupported(
            name_at,
            f"{statement.name.text} declares no columns",
            cause="ksqlDB would ask the Schema Registry, which comes later in holdfast.ingest",
            action="list the columns: (name TYPE, ...)",
        )
    if statement.kind == "TABLE" and not any(c.constraint for c in statement.columns):
        raise script.invalid(
            name_at, "a TABLE needs a PRIMARY KEY column", action="write (id TYPE PRIMARY KEY, ...)"
        )


def plan_sink(
    script: Script,
    statement: CreateAs,
    source: Source,
    options: Options,
    step: AggregateStep | ProjectStep,
) -> Sink:
    """The sink: formats, partitions and replicas are the source's unless WITH says otherwise.

    Where no key format is given and the inherited one cannot hold the key (KAFKA holds one
    column of a primitive type), JSON is chosen; ksqlDB would refuse the statement.  A key of one
    column is the bare JSON value, of several an object.
    """
    name = statement.name
    keys = tuple(k.column for k in step.keys)
    values = tuple(o.column for o in step.outputs)
    key_format = options.key_format or _inherited_key_format(source, keys)
    value_format = options.value_format or source.value_format
    check_format(script, name.at, "key", keys, key_format)
    check_format(script, name.at, "value", values, value_format)
    topic = options.topic or name.text
    check_topic(script, name.at, topic)
    return Sink(
        name=name.text,
        kind=statement.kind,
        topic=topic,
        key_columns=keys,
        value_columns=values,
        key_format=key_format,
        value_format=value_format,
        partitions=options.partitions or source.partitions,
        replicas=options.replicas or source.replicas,
    )


def _inherited_key_format(source: Source, keys: tuple[Column, ...]) -> Format:
    inherited = Format.KAFKA if source.key_format is Format.NONE else source.key_format
    if inherited is Format.KAFKA and not fits_kafka(keys):
        return Format.JSON
    return inherited
