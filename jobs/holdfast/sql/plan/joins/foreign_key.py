"""A join of two tables by a foreign key, as three queries: see `SubscribeStep`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.errors import Unsupported
from holdfast.sql.expressions.engines import DUCKDB
from holdfast.sql.parse.statements import JoinClause, Select
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.joins.joined import MakeSink, Side, carried, project, references
from holdfast.sql.plan.joins.tree import in_projection, mentioned, stored
from holdfast.sql.plan.relation import Relation, read_named
from holdfast.sql.plan.sources.sink import Shape, Target, internal_sink
from holdfast.types.columns.schema import Column
from holdfast.types.statements.topology import (
    GONE,
    INSTRUCTION,
    LEFT_KEY,
    VERSION,
    Expression,
    Input,
    JoinForm,
    JoinStep,
    NamedExpression,
    Query,
    ResolveStep,
    Sink,
    SubscribeStep,
)

__all__ = ["ForeignJoin"]

_FOREIGN = "__FOREIGN_KEY"


@dataclass(frozen=True)
class ForeignJoin:
    """`relation` is the result, which has the left table's primary key."""

    context: Context
    target: Target
    select: Select
    clause: JoinClause
    sides: tuple[Side, Side]
    relation: Relation

    def finish(self, make_sink: MakeSink, numbered: Callable[[], str]) -> tuple[Query, ...] | None:
        """The queries that make the statement's result; None: DuckDB cannot evaluate it."""
        try:
            made = project(self.context, self.select, self.relation)
        except Unsupported:
            return None
        self._check_keys()
        keys = [
            Column(item.name, f.column.type)
            for f, item in zip(self.relation.keys, made.keys, strict=True)
            if item is not None
        ]
        sink = make_sink("TABLE", keys, [o.column for o in made.outputs], self.relation)
        ids = (numbered(), numbered(), self.target.id)
        return self._queries(ids, sink, made.outputs, made.filter)

    def materialized(self, numbered: Callable[[], str]) -> tuple[tuple[Query, ...], Relation]:
        """The queries that write the joined rows, and what they are."""
        outputs = references(mentioned(self.select, self.relation))
        ids = (numbered(), numbered(), numbered())
        keys = {f: f"__KEY_{i}" for i, f in enumerate(self.relation.keys)}
        shape = Shape(
            tuple(Column(name, f.column.type) for f, name in keys.items()),
            tuple(o.column for o in outputs),
        )
        sink = internal_sink(ids[2], "TABLE", shape)
        queries = self._queries(ids, sink, outputs, None)
        return queries, stored(self.relation, sink.as_source(), keys)

    def _queries(
        self,
        ids: tuple[str, str, str],
        sink: Sink,
        outputs: tuple[NamedExpression, ...],
        filter_: Expression | None,
    ) -> tuple[Query, ...]:
        subscribe = self._subscribe(ids[0])
        join = self._join(ids[1], subscribe.sink, sink.key_columns, outputs, filter_)
        rows = join.sink.as_source()
        keys, columns = _all(rows.key_columns), _all(rows.value_columns)
        resolve = ResolveStep(Input(rows, keys, columns), filter_ is not None)
        last = Query(ids[2], self.target.text, rows, None, resolve, sink)
        return subscribe, join, last

    def _subscribe(self, query_id: str) -> Query:
        left = self.sides[0]
        relation, foreign = left.relation, NamedExpression(_FOREIGN, left.key)
        fields = (*mentioned(self.select, self.relation), *relation.keys)
        columns = carried(relation, fields)
        keys = tuple(NamedExpression(f.column.name, f.read) for f in relation.keys)
        step = SubscribeStep(
            Input(relation.source, keys, (foreign, *columns)),
            self.clause.kind,
        )
        values = (*(c.column for c in columns), LEFT_KEY, VERSION, INSTRUCTION)
        sink = internal_sink(query_id, "STREAM", Shape((foreign.column,), values))
        return Query(query_id, self.target.text, relation.source, None, step, sink)

    def _join(
        self,
        query_id: str,
        subscriptions: Sink,
        keys: tuple[Column, ...],
        outputs: tuple[NamedExpression, ...],
        filter_: Expression | None,
    ) -> Query:
        rows, right = subscriptions.as_source(), self.sides[1]
        key = subscriptions.key_columns[0]
        left = Input(rows, _all((key,)), _all(rows.value_columns))
        step = JoinStep(
            form=JoinForm.FOREIGN_KEY,
            kind=self.clause.kind,
            left=left,
            right=right.input(key.name, mentioned(self.select, self.relation)),
            keys=tuple(
                NamedExpression(c.name, DUCKDB.column(f.column))
                for c, f in zip(keys, self.relation.keys, strict=True)
            ),
            outputs=outputs,
            filter=filter_,
            emit=self.context.emit,
        )
        values = (*(o.column for o in outputs), VERSION, GONE)
        sink = internal_sink(query_id, "STREAM", Shape(keys, values))
        return Query(query_id, self.target.text, rows, None, step, sink)

    def _check_keys(self) -> None:
        missing = [
            f for f in self.relation.keys if not in_projection(self.select, self.relation, f)
        ]
        if missing:
            plural = "s" if len(missing) > 1 else ""
            left = self.relation.owners[0]
            raise self.context.script.invalid(
                self.select.at,
                f"Primary key column{plural} missing in projection. For foreign-key table-table "
                "joins, the projection must include all primary key columns from the left input "
                f"table (`{left}`). Missing column{plural}: "
                f"{', '.join(f'`{f.name}`' for f in missing)}.",
            )


def _all(columns: Sequence[Column]) -> tuple[NamedExpression, ...]:
    return tuple(map(read_named, columns))
