"""A SELECT without GROUP BY over one source: filter, project and re-key."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from holdfast.sql.expressions.clause_errors import naming
from holdfast.sql.expressions.engines import DUCKDB, SPARK
from holdfast.sql.expressions.formatted import formatted
from holdfast.sql.expressions.names import could_be_key, relation_translator
from holdfast.sql.expressions.translator import Translator, call_name
from holdfast.sql.parse.script import resolve_identifier, start_of
from holdfast.sql.parse.statements import Select
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.explode import Exploded, explode
from holdfast.sql.plan.keys import Wanted, check_key_type, missing_key, split
from holdfast.sql.plan.own_scale import with_digits
from holdfast.sql.plan.projection import ColumnNames, Item, expand, plain_column
from holdfast.sql.plan.relation import Field, Relation, read_named
from holdfast.types.columns.schema import BIGINT, Column
from holdfast.types.statements.topology import (
    TOMBSTONE,
    WINDOW_END,
    WINDOW_START,
    Expression,
    NamedExpression,
    ProjectStep,
)

__all__ = [
    "is_field",
    "not_grouped",
    "plan_project",
    "refuse_aggregates",
    "value_of",
    "window_keys",
]


def plan_project(context: Context, select: Select, relation: Relation) -> ProjectStep:
    """The step of a stateless SELECT.

    The key is the source's, or PARTITION BY's expressions; either must be selected, and is
    named as the SELECT names it.  PARTITION BY NULL leaves the key empty.

    Raises:
        InvalidStatement: a key column is not selected or selected twice, nothing is left for
            the value, an aggregate stands without GROUP BY.
    """
    return _Planner(context, select, relation).plan()


class _Planner:
    def __init__(self, context: Context, select: Select, relation: Relation) -> None:
        self._context = context
        self._script = context.script
        self._select = select
        self._relation = relation
        self._before = relation_translator(context.script, relation, context.functions, "SELECT")
        # A key that is not selected is told of last: what is wrong with a column says more.
        self._missing: list[Exception] = []

    def plan(self) -> ProjectStep:
        refuse_aggregates(self._context, self._select, self._relation)
        exploded = explode(self._context, self._select, self._relation)
        self._before = exploded.translator(self._context)
        items, names = expand(self._script, self._select, exploded.relation, self._before)
        items = exploded.rewritten(items)
        if self._select.partition_by is None:
            keys, values = self._source_keys(items)
        else:
            keys, values = self._partition_keys(items, names, exploded)
        if not values and not self._missing:
            raise self._script.invalid(
                self._select.at,
                "The projection contains no value columns.",
                action="select another column, or AS_VALUE(key) to copy the key into the value",
            )
        with naming("SELECT"):
            outputs = tuple(self._value(i) for i in values)
        if self._missing:
            raise self._missing[0]
        return ProjectStep((*keys, *window_keys(self._relation)), outputs, exploded.arrays)

    def _source_keys(self, items: list[Item]) -> tuple[list[NamedExpression], list[Item]]:
        fields = self._selected() if self._context.new_planner else self._relation.keys
        wanted = [Wanted(f.name, is_field(self._relation, f)) for f in fields]
        found, values = split(self._script, items, wanted)
        keys: list[NamedExpression] = []
        for field, item in zip(fields, found, strict=True):
            if item is None:
                names = [f.name for f in fields]
                self._missing.append(
                    missing_key(
                        self._script, self._select.at, self._context.sink, "key column", names
                    )
                )
                continue
            keys.append(NamedExpression(item.name, field.read))
        return keys, values

    def _selected(self) -> tuple[Field, ...]:
        """The key columns that are selected, in the SELECT's order."""
        relation, select = self._relation, self._select
        if self._has_star() or relation.source.kind == "TABLE":
            return relation.keys
        order = [
            f
            for i in select.items
            for f in relation.keys
            if i.expression is not None and is_field(relation, f)(Item(i.expression, "", i.at))
        ]
        return tuple(dict.fromkeys(order))

    def _partition_keys(
        self, items: list[Item], names: ColumnNames, exploded: Exploded
    ) -> tuple[list[NamedExpression], list[Item]]:
        nodes = self._select.partition_by or ()
        if not nodes:
            raise self._script.invalid(
                self._select.at, "PARTITION BY requires at least one expression",
                action="PARTITION BY NULL leaves no key",
            )  # fmt: skip
        if any(isinstance(n, exp.Null) for n in nodes):
            if len(nodes) > 1:
                raise self._script.invalid(
                    self._select.at, "Cannot PARTITION BY multiple columns including NULL"
                )
            return [], items
        before = relation_translator(
            self._script, self._relation, self._context.functions, "PARTITION BY"
        )
        made = [before.expression(n) for n in nodes]
        texts = [before.translate(n).sql for n in nodes]
        wanted = [
            Wanted(
                self._script.excerpt(n),
                same_text(self._context, self._before, text, copy=call_name(n) == "AS_VALUE"),
            )
            for n, text in zip(nodes, texts, strict=True)
        ]
        found, values = split(self._script, items, wanted)
        if self._has_star():
            found = [f or Item(n, self._name(n, names), start_of(n))
                     for f, n in zip(found, nodes, strict=True)]  # fmt: skip
        if any(f is None for f in found):
            self._missing.append(
                missing_key(
                    self._script,
                    start_of(nodes[0]),
                    self._context.sink,
                    "partitioning expression",
                    [formatted(self._script, n, self._relation) for n in nodes],
                )
            )
        return [self._key(e, f) for e, f in zip(made, found, strict=True) if f], values

    def _name(self, node: exp.Expr, names: ColumnNames) -> str:
        column = plain_column(node)
        return names.of(node) if column is None else resolve_identifier(column.this)

    def _has_star(self) -> bool:
        return any(i.expression is None for i in self._select.items)

    def _key(self, made: Expression | None, item: Item) -> NamedExpression:
        if made is None:
            raise self._script.invalid(item.at, "a key cannot be NULL", action="use a column")
        check_key_type(self._script, item.at, item.name, made.type)
        return NamedExpression(item.name, self._null_of_nothing(made, item))

    def _null_of_nothing(self, made: Expression, item: Item) -> Expression:
        """A key that is no part of the old one is null where the record has no value."""
        names = {resolve_identifier(c.this) for c in item.expression.find_all(exp.Column)
                 if isinstance(c.this, exp.Identifier)}  # fmt: skip
        if made.ref in [c.name for c in self._relation.source.value_columns]:
            return made
        if names <= {f.name for f in self._relation.keys}:
            return made
        return made.mapped(
            lambda sql: f"CASE WHEN NOT {DUCKDB.quote(TOMBSTONE)} THEN {sql} END",
            reads=[TOMBSTONE],
            released=lambda sql: f"CASE WHEN NOT {SPARK.quote(TOMBSTONE)} THEN {sql} END",
        )

    def _value(self, item: Item) -> NamedExpression:
        return value_of(self._context, self._before, item)


def same_text(
    context: Context, before: Translator, wanted: str, *, copy: bool
) -> Callable[[Item], bool]:
    """Whether an item is the expression whose text is `wanted`; `copy`: of AS_VALUE."""

    def matches(item: Item) -> bool:
        node = item.expression
        while isinstance(node, exp.Paren):
            node = node.this
        literal = isinstance(node, exp.Literal | exp.Boolean)
        copied = call_name(node) == "AS_VALUE"
        if copied is not copy or not (
            copied or literal or could_be_key(node, context.functions, windowed=False)
        ):
            return False
        return before.translate(node).sql == wanted

    return matches


def is_field(relation: Relation, field: Field) -> Callable[[Item], bool]:
    """Whether an item is nothing more than a column of the relation."""

    def matches(item: Item) -> bool:
        column = plain_column(item.expression)
        if column is None:
            return False
        table = column.args.get("table")
        qualifier = resolve_identifier(table) if table else None
        return relation.find(resolve_identifier(column.this), qualifier) == [field]

    return matches


def value_of(context: Context, translator: Translator, item: Item) -> NamedExpression:
    """The value column an item makes.

    Raises:
        InvalidStatement: it is NULL, so it has no type.
    """
    made = translator.expression(item.expression)
    if made is None:
        raise context.script.invalid(
            item.at,
            "Can't infer a type of null. Please explicitly cast it to a required type, "
            f"e.g. CAST(null AS VARCHAR). {item.name} is NULL",
        )
    if context.as_ksqldb:
        made = with_digits(translator, item.expression, made)
    return NamedExpression(item.name, made)


def window_keys(relation: Relation) -> tuple[NamedExpression, ...]:
    """The window bounds of a source whose keys are windowed, which stay part of the key."""
    if relation.source.window is None:
        return ()
    names = (WINDOW_START, WINDOW_END)
    return tuple(read_named(Column(name, BIGINT)) for name in names)


def refuse_aggregates(context: Context, select: Select, relation: Relation) -> None:
    """Refuse aggregates without GROUP BY."""
    nodes = [i.expression for i in select.items if i.expression is not None]
    calls = [c for n in nodes for c in context.functions.aggregates_in(n)]
    if not calls:
        return
    plain = [n for n in nodes if not context.functions.aggregates_in(n)]
    at = calls[0].meta.get("start", 0)
    if plain:
        raise not_grouped(context, relation, plain)
    called = ", ".join(formatted(context.script, c, relation) for c in calls)
    raise context.script.invalid(
        at,
        "CREATE TABLE AS SELECT statement does not support aggregate function "
        f"[{called}] without a GROUP BY clause.",
        action="add GROUP BY, and write CREATE TABLE ... AS SELECT",
    )


def not_grouped(context: Context, relation: Relation, nodes: Sequence[exp.Expr]) -> Exception:
    """The error of columns that are neither grouped nor aggregated."""
    shown = ", ".join(formatted(context.script, n, relation, qualified=False) for n in nodes)
    return context.script.invalid(
        start_of(nodes[0]),
        f"Non-aggregate SELECT expression(s) not part of GROUP BY: {shown}\n"
        "Either add the column(s) to the GROUP BY or remove them from the SELECT.",
        action="or aggregate them, for example by LATEST_BY_OFFSET",
    )
