"""A SELECT as queries: one step with one state each, joined by internal topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.sql.expressions.clause_errors import naming
from holdfast.sql.expressions.determinism import check_determined
from holdfast.sql.expressions.names import relation_translator
from holdfast.sql.parse.statements import Select
from holdfast.sql.plan.aggregate import plan_aggregate
from holdfast.sql.plan.catalog import Catalog
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.explode import has_table_functions
from holdfast.sql.plan.joins.join import join_sources
from holdfast.sql.plan.own_scale import in_json
from holdfast.sql.plan.project import plan_project, refuse_aggregates
from holdfast.sql.plan.relation import Relation, relation_of
from holdfast.sql.plan.sources.insert import fitted, widened
from holdfast.sql.plan.sources.options import DEDUPLICATE
from holdfast.sql.plan.sources.sink import Shape, Target, make_sink
from holdfast.sql.plan.table_aggregate import table_aggregate
from holdfast.types.columns.schema import Column
from holdfast.types.statements.topology import (
    WINDOW_END,
    WINDOW_START,
    AggregateStep,
    DeduplicateStep,
    Expression,
    Format,
    Input,
    ProjectStep,
    Query,
    Sink,
    Source,
    Step,
    TableStep,
)

__all__ = ["plain_keys", "plan_select"]


def plan_select(
    context: Context, catalog: Catalog, target: Target, select: Select
) -> tuple[Query, ...]:
    """The queries of a statement; the last one writes its sink and has its id.

    Raises:
        InvalidStatement: ksqlDB refuses the SELECT, too; the message says why.
    """
    _check_clauses(context, select)
    source = catalog.source(select.source)
    others = [catalog.source(j.source) for j in select.joins]
    _check_sources(context, select, [source, *others])
    _check_deduplication(context, target, select, source)
    planner = _Planner(context, target, select, source)
    alias = select.source_alias.text if select.source_alias else None
    queries = planner.joined(others) if select.joins else planner.over(relation_of(source, alias))
    return queries if target.existing is None else (*queries[:-1], widened(queries[-1]))


def plain_keys(columns: Sequence[Column]) -> tuple[Column, ...]:
    """A step's key columns without the window bounds."""
    return tuple(c for c in columns if c.name not in (WINDOW_START, WINDOW_END))


def _check_clauses(context: Context, select: Select) -> None:
    script = context.script
    if select.group_by and select.partition_by is not None:
        raise script.invalid(select.at, "PARTITION BY and GROUP BY exclude each other")
    if not select.group_by and not _aggregates(context, select):
        for clause, word in ((select.window, "WINDOW"), (select.having, "HAVING")):
            if clause is not None:
                raise script.invalid(select.at, f"{word} clause requires a GROUP BY clause.")
    windowed = select.window is not None and (select.group_by or _aggregates(context, select))
    if select.final and not windowed:
        raise script.invalid(
            select.at,
            "EMIT FINAL is only supported for windowed aggregations.",
            action="add WINDOW and GROUP BY, or write EMIT CHANGES",
        )


def _aggregates(context: Context, select: Select) -> bool:
    nodes = [i.expression for i in select.items if i.expression is not None]
    return any(context.functions.aggregates_in(n) for n in nodes)


def _check_sources(context: Context, select: Select, sources: Sequence[Source]) -> None:
    for source in sources:
        if source.kind == "TABLE" and source.window is not None:
            raise context.script.invalid(
                select.source.at,
                "KSQL does not support persistent queries on windowed tables.",
                cause=f"{source.name} is {source.window} windowed",
                action=f"declare a STREAM over the topic {source.topic}",
            )
    kafka = [s.name for s in sources if s.value_format is Format.KAFKA]
    clause = "JOIN" if select.joins else "GROUP BY" if select.group_by else ""
    if kafka and clause:
        raise context.script.invalid(
            select.source.at,
            f"Source(s) {', '.join(kafka)} are using the 'KAFKA' value format. "
            f"This format does not yet support {clause}.",
            action="write the source as JSON first: CREATE STREAM ... WITH "
            "(VALUE_FORMAT='JSON') AS SELECT ...",
        )


def _check_deduplication(context: Context, target: Target, select: Select, source: Source) -> None:
    if target.options.deduplicate_ms is None:
        return
    if source.kind != "STREAM" or select.joins or select.group_by or has_table_functions(select):
        raise context.script.invalid(
            target.at,
            f"{DEDUPLICATE} is for the records of one STREAM, without JOIN, GROUP BY or table "
            "functions",
            action=f"write their result to a stream of its own, and {DEDUPLICATE} over that",
        )


class _Planner:
    """One SELECT; `source` is the one after FROM, whose formats the sink inherits."""

    def __init__(self, context: Context, target: Target, select: Select, source: Source) -> None:
        self._context = context
        self._target = target
        self._select = select
        self._source = source
        self._count = 0

    def joined(self, others: Sequence[Source]) -> tuple[Query, ...]:
        """Over a join: in its last step, or after it through an internal topic."""
        before, last = join_sources(
            self._context, self._target, self._select, [self._source, *others], self._numbered
        )
        if not self._select.group_by:
            refuse_aggregates(self._context, self._select, last.relation)
        simple = not self._select.group_by and self._select.partition_by is None
        if simple and not has_table_functions(self._select):
            queries = last.finish(self._joined_sink, self._numbered)
            if queries is not None:
                return (*before, *queries)
        queries, relation = last.materialized(self._numbered)
        return (*before, *queries, *self.over(relation))

    def _numbered(self) -> str:
        self._count += 1
        return f"{self._target.id}_{self._count}"

    def _joined_sink(
        self, kind: str, keys: Sequence[Column], values: Sequence[Column], relation: Relation
    ) -> Sink:
        return self._sink(kind, Shape.of_rows(keys, values, relation.source))

    def over(self, relation: Relation) -> tuple[Query, ...]:
        """Over the rows of one topic."""
        if self._select.group_by:
            return self._aggregate(relation)
        return (self._project(relation),)

    def _aggregate(self, relation: Relation) -> tuple[Query, ...]:
        step = plan_aggregate(self._context, self._select, relation)
        filter_ = self._filter(relation)
        keys, values = [k.column for k in step.keys], [o.column for o in step.outputs]
        sink = self._sink("TABLE", Shape.of_groups(keys, values, step.window))
        if relation.source.kind == "STREAM":
            return (self._query(relation.source, filter_, step, sink),)
        changes, step = table_aggregate(self._context, self._target, relation, step, filter_)
        return changes, self._query(changes.sink.as_source(), None, step, sink)

    def _project(self, relation: Relation) -> Query:
        step = plan_project(self._context, self._select, relation)
        filter_ = self._filter(relation)
        kind = relation.source.kind
        self._check_table(kind, step)
        keys = plain_keys([k.column for k in step.keys])
        values = [o.column for o in step.outputs]
        sink = self._sink(kind, Shape.of_rows(keys, values, relation.source))
        rows = Input(relation.source, step.keys, step.outputs, filter_)
        if self._target.options.deduplicate_ms is not None:
            return self._query(relation.source, None, self._deduplicated(rows), sink)
        if kind == "TABLE" and filter_ is not None:
            return self._query(relation.source, None, TableStep(rows), sink)
        return self._query(relation.source, filter_, step, sink)

    def _deduplicated(self, rows: Input) -> DeduplicateStep:
        within_ms = self._target.options.deduplicate_ms
        if not rows.keys or not within_ms:
            raise self._context.script.invalid(
                self._target.at,
                f"{DEDUPLICATE} needs a key and a time above zero",
                action="name the columns that tell duplicates in PARTITION BY",
            )
        for node, key in zip(self._select.partition_by or (), rows.keys, strict=False):
            check_determined(self._context.script, key.expression, node, "PARTITION BY")
        return DeduplicateStep(rows, within_ms)

    def _check_table(self, kind: str, step: ProjectStep) -> None:
        if kind != "TABLE":
            return
        script, at = self._context.script, self._select.at
        if self._select.partition_by is not None:
            raise script.invalid(at, "PARTITION BY is not supported for tables.")
        if step.explode:
            raise script.invalid(at, "Table source is not supported with table functions")

    def _filter(self, relation: Relation) -> Expression | None:
        if self._select.where is None:
            return None
        windowed = self._select.window is not None
        before = relation_translator(
            self._context.script, relation, self._context.functions, "WHERE", windowed=windowed
        )
        with naming("WHERE"):
            return before.condition(self._select.where)

    def _sink(self, kind: str, shape: Shape) -> Sink:
        self._check_kind(kind)
        target = self._target
        if target.existing is not None:
            return fitted(
                self._context.script, target.at, target.existing, shape.keys, shape.values
            )
        return make_sink(self._context.script, target, kind, shape, self._source)

    def _check_kind(self, kind: str) -> None:
        if kind != self._target.kind:
            raise self._context.script.invalid(
                self._target.at,
                f"Invalid result type. Your SELECT query produces a {kind}. "
                f"Please use CREATE {kind} AS SELECT statement instead.",
            )

    def _query(self, source: Source, filter_: Expression | None, step: Step, sink: Sink) -> Query:
        target = self._target
        if isinstance(step, ProjectStep | AggregateStep):
            step = replace(step, outputs=in_json(step.outputs, sink))
        return Query(
            id=target.id,
            statement=target.text,
            source=source,
            filter=filter_,
            step=step,
            sink=sink,
            properties=query_properties(target),
        )


def query_properties(target: Target) -> tuple[tuple[str, str], ...]:
    """Options of the WITH clause that `Sink` has no field for."""
    options = target.options
    pairs = (
        ("RETENTION_MS", options.retention_ms),
        ("TIMESTAMP", options.timestamp.value if options.timestamp else None),
        (
            "TIMESTAMP_FORMAT",
            options.timestamp_format.value if options.timestamp_format else None,
        ),
    )
    return tuple((key, str(value)) for key, value in pairs if value is not None)
