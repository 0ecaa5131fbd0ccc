"""A join by equal keys as one step, or as rows of an internal topic for what follows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.errors import Unsupported
from holdfast.sql.expressions.clause_errors import naming
from holdfast.sql.expressions.determinism import check_determined
from holdfast.sql.expressions.engines import DUCKDB
from holdfast.sql.expressions.names import relation_translator
from holdfast.sql.expressions.translator import Translator
from holdfast.sql.parse.statements import JoinClause, Select, Within
from holdfast.sql.plan.aggregate import evaluated, tried
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.joins.tree import JOIN_KEY, Equal, in_projection, mentioned, stored
from holdfast.sql.plan.keys import Wanted, missing_key, split
from holdfast.sql.plan.own_scale import in_json
from holdfast.sql.plan.project import is_field, value_of, window_keys
from holdfast.sql.plan.projection import Item, expand
from holdfast.sql.plan.relation import Field, Relation
from holdfast.sql.plan.sources.sink import Shape, Target, internal_sink
from holdfast.types.columns.schema import Column, SqlType
from holdfast.types.statements.topology import (
    WINDOW_END,
    Expression,
    Input,
    JoinForm,
    JoinStep,
    JoinWindow,
    NamedExpression,
    Query,
    Sink,
    Source,
)

__all__ = ["MakeSink", "PlainJoin", "Projection", "Side", "carried", "project", "references"]

# Makes a statement's sink from its kind, key columns, value columns and the relation.
MakeSink = Callable[[str, Sequence[Column], Sequence[Column], Relation], Sink]


@dataclass(frozen=True)
class Side:
    """A side of a join: its rows, and its expression of the condition."""

    relation: Relation
    key: Expression

    def input(self, key: str, columns: Sequence[Field], size_ms: int = 0) -> Input:
        """The side up to the shuffle by its one join key, which is called `key`.

        Args:
            key: the name of the join key.
            columns: what is carried into the state task.
            size_ms: the windows' size on the other side, which its own windows get; 0: none.
        """
        windows = window_keys(self.relation)
        if size_ms not in (0, self.relation.source.window_size_ms):
            start, _ = windows
            windows = (start, _end_after(start, size_ms))
        keys = (NamedExpression(key, self.key), *windows)
        return Input(self.relation.source, keys, carried(self.relation, columns))


def _end_after(start: NamedExpression, size_ms: int) -> NamedExpression:
    """The end of a window of a size: windows that start together then have the same key."""
    end = start.expression.mapped(lambda sql: f"({sql} + {size_ms}::BIGINT)")
    return NamedExpression(WINDOW_END, end)


@dataclass(frozen=True)
class Projection:
    """A SELECT over a join, in DuckDB: the items of the key fields, the values, and WHERE."""

    keys: tuple[Item | None, ...]
    outputs: tuple[NamedExpression, ...]
    filter: Expression | None


def carried(relation: Relation, columns: Sequence[Field]) -> tuple[NamedExpression, ...]:
    """The columns of one side among `columns`, which are those of the whole join."""
    wanted = {(f.owner, f.name) for f in columns}
    return tuple(
        NamedExpression(f.column.name, f.read)
        for f in relation.fields
        if (f.owner, f.name) in wanted and f.owner
    )


def references(columns: Sequence[Field]) -> tuple[NamedExpression, ...]:
    """Columns of a join as they are."""
    return tuple(DUCKDB.named(f.column) for f in columns if f.owner)


def project(context: Context, select: Select, relation: Relation) -> Projection:
    """The SELECT list and WHERE over the rows of a join.

    Raises:
        InvalidStatement: a name or a type is wrong, or nothing is left for the value.
        Unsupported: DuckDB cannot evaluate it, or could not in the first release: such a statement
            has its state in two queries, and keeps them.
    """
    script, functions = context.script, context.functions
    before = relation_translator(script, relation, functions, "SELECT", joined=True)
    items, _ = expand(script, select, relation, before)
    keys, values = split(
        script, items, [Wanted(f.column.name, is_field(relation, f)) for f in relation.keys]
    )
    if not values:
        raise script.invalid(select.at, "The projection contains no value columns.")
    wanted = [*(i.expression for i in values), *([] if select.where is None else [select.where])]
    if any(map(before.was_unsupported, wanted)):
        raise script.unsupported(select.at, "the first release evaluated this after the join")
    with naming("SELECT"):
        outputs = tuple(_output(context, before, item) for item in values)
    condition = None
    if select.where is not None:
        where = relation_translator(script, relation, functions, "WHERE", joined=True)
        with naming("WHERE"):
            condition = tried(where.condition(select.where))
    return Projection(tuple(keys), outputs, condition)


def _output(context: Context, before: Translator, item: Item) -> NamedExpression:
    found = value_of(context, before, item)
    return NamedExpression(found.name, evaluated(found.expression))


@dataclass(frozen=True)
class PlainJoin:
    """A join of rows with equal keys; `relation` is its result, `equal` what has its key."""

    context: Context
    target: Target
    select: Select
    clause: JoinClause
    form: JoinForm
    sides: tuple[Side, Side]
    relation: Relation
    equal: Equal

    @property
    def _key_type(self) -> SqlType:
        """Both sides' keys are of this type."""
        return self.sides[0].key.type

    @property
    def kind(self) -> str:
        """STREAM or TABLE: the kind of the result."""
        return "TABLE" if self.form is JoinForm.TABLE_TABLE else "STREAM"

    def finish(self, make_sink: MakeSink, numbered: Callable[[], str]) -> tuple[Query, ...] | None:
        """The query that makes the statement's result; None: DuckDB cannot evaluate it."""
        try:
            made = project(self.context, self.select, self.relation)
        except Unsupported:
            return None
        self.check_key()
        where = self.select.where
        if where is not None and made.filter is not None and self.form is JoinForm.TABLE_TABLE:
            script = self.context.script
            check_determined(script, made.filter, where, "WHERE over tables", key=False)
        item = made.keys[0]
        assert item is not None
        key = Column(item.name, self._key_type)
        sink = make_sink(self.kind, [key], [o.column for o in made.outputs], self.relation)
        outputs = in_json(made.outputs, sink)
        return (self._query(self.target.id, sink, key, outputs, made.filter),)

    def materialized(self, numbered: Callable[[], str]) -> tuple[tuple[Query, ...], Relation]:
        """The query that writes the joined rows, and what they are."""
        fields = mentioned(self.select, self.relation)
        key = Column(JOIN_KEY, self._key_type)
        outputs = references(fields)
        query_id = numbered()
        shape = Shape.of_rows([key], [o.column for o in outputs], self.relation.source)
        sink = internal_sink(query_id, self.kind, shape)
        same = dict.fromkeys((*self.equal.viable, *self.relation.keys), JOIN_KEY)
        relation = stored(self.relation, sink.as_source(), same)
        return (self._query(query_id, sink, key, outputs, None),), relation

    def _query(
        self,
        query_id: str,
        sink: Sink,
        key: Column,
        outputs: tuple[NamedExpression, ...],
        filter_: Expression | None,
    ) -> Query:
        left, right = self.sides
        fields = _used(mentioned(self.select, self.relation), outputs, filter_)
        bounds = [k.column for k in window_keys(left.relation)]
        join_key = DUCKDB.column(Column(JOIN_KEY, key.type))
        keys = [NamedExpression(key.name, join_key), *map(DUCKDB.named, bounds)]
        table = self._looked_up()
        step = JoinStep(
            form=self.form,
            kind=self.clause.kind,
            left=left.input(JOIN_KEY, fields),
            right=right.input(JOIN_KEY, fields, left.relation.source.window_size_ms),
            keys=tuple(keys),
            outputs=outputs,
            window=_window(self.clause.within),
            filter=filter_,
            history_ms=table.history_ms if table else None,
            broadcast=table is not None and table.broadcast,
            emit=self.context.emit,
            copartitioned=self.context.as_ksqldb,
        )
        source = left.relation.source
        return Query(query_id, self.target.text, source, None, step, sink)

    def _looked_up(self) -> Source | None:
        """The table that a stream's records look into."""
        return self.sides[1].relation.source if self.form is JoinForm.STREAM_TABLE else None

    def check_key(self) -> None:
        """Refuse a projection without the key of the join."""
        relation, script = self.relation, self.context.script
        field = relation.keys[0]
        if in_projection(self.select, relation, field):
            return
        written = [f"{f.owner}.{f.name}" for f in self.equal.viable] or [field.name]
        raise missing_key(
            script, self.select.at, self.context.sink, "join expression", written, every=False,
            synthetic=not field.owner,
        )  # fmt: skip


def _used(
    fields: Sequence[Field], outputs: Sequence[NamedExpression], filter_: Expression | None
) -> list[Field]:
    """The fields that are asked for after the join: what only its key is made of stays behind."""
    made = [o.expression for o in outputs] + ([] if filter_ is None else [filter_])
    named = {name for each in made for name in each.columns}
    return [f for f in fields if f.column.name in named]


def _window(within: Within | None) -> JoinWindow | None:
    if within is None:
        return None
    return JoinWindow(within.before_ms, within.after_ms, within.grace_ms)
