"""GROUP BY over a table: what a row was is taken back before what it is is added."""

from __future__ import annotations

from dataclasses import replace

from holdfast.sql.plan.context import Context
from holdfast.sql.plan.relation import Relation, read_column
from holdfast.sql.plan.sources.sink import Shape, Target, internal_sink
from holdfast.types.columns.schema import BOOLEAN, Column
from holdfast.types.statements.topology import (
    AggregateCall,
    AggregateStep,
    ChangesStep,
    Expression,
    Input,
    NamedExpression,
    Query,
)

__all__ = ["table_aggregate"]


def table_aggregate(
    context: Context,
    target: Target,
    relation: Relation,
    step: AggregateStep,
    filter_: Expression | None,
) -> tuple[Query, AggregateStep]:
    """The query that finds a table's changes, and the aggregate over what it writes.

    Raises:
        InvalidStatement: an aggregate cannot take values back, or there is a window.
    """
    _check(context, target, step)
    groups = [NamedExpression(f"G{i}", k.expression) for i, k in enumerate(step.keys)]
    arguments = dict.fromkeys(a for call in step.aggregates for a in call.args)
    carried = [NamedExpression(f"C{i}", argument) for i, argument in enumerate(arguments)]
    names = {each.expression: each.name for each in carried}
    changes = _changes(target, relation, groups, carried, filter_)
    keys = tuple(
        NamedExpression(k.name, read_column(g.column))
        for g, k in zip(groups, step.keys, strict=True)
    )
    new = tuple(_over(call, names, "NEW") for call in step.aggregates)
    old = tuple(_over(call, names, "OLD") for call in step.aggregates)
    return changes, replace(step, keys=keys, aggregates=new, undo=old)


def _over(call: AggregateCall, names: dict[Expression, str], side: str) -> AggregateCall:
    columns = (Column(f"{side}_{names[a]}", a.type) for a in call.args)
    return replace(call, args=tuple(map(read_column, columns)))


def _changes(
    target: Target,
    relation: Relation,
    groups: list[NamedExpression],
    carried: list[NamedExpression],
    filter_: Expression | None,
) -> Query:
    columns = tuple(
        Column(f"{side}_{c.column.name}", c.column.type)
        for c in (*groups, *carried)
        for side in ("OLD", "NEW")
    )
    flags = (Column("HAS_OLD", BOOLEAN), Column("HAS_NEW", BOOLEAN))
    keys = tuple(NamedExpression(f"K{i}", f.read) for i, f in enumerate(relation.keys))
    query_id = f"{target.id}_changes"
    step = ChangesStep(Input(relation.source, keys, (*groups, *carried), filter_), len(groups))
    shape = Shape(tuple(g.column for g in groups), (*columns, *flags))
    sink = internal_sink(query_id, "STREAM", shape)
    return Query(query_id, target.text, relation.source, None, step, sink)


def _check(context: Context, target: Target, step: AggregateStep) -> None:
    if step.window is not None:
        raise context.script.invalid(
            target.at,
            "WINDOW clause is only supported for stream sources.",
            cause="a table has one row per key, whenever it changed",
        )
    called = {c.function: context.functions.aggregate(c.function) for c in step.aggregates}
    names = [name for name, found in called.items() if found and not found.undoable]
    refused = sorted(names, key=lambda name: target.text.upper().find(f"{name}("))
    if refused:
        listed = refused[0]
        if len(refused) > 1:
            listed = ", ".join(refused[:-1]) + " and " + refused[-1]
        plural = "functions" if len(refused) > 1 else "function"
        raise context.script.invalid(
            target.at,
            f"The aggregation {plural} {listed} cannot be applied to a table source, only to a "
            "stream source.",
            action="aggregate the STREAM behind the table",
        )
