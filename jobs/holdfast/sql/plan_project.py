"""CREATE STREAM AS SELECT without GROUP BY: filter, project and re-key, no state."""

from __future__ import annotations

from sqlglot import exp

from holdfast.sql.projection import Item, expand
from holdfast.sql.scopes import Functions, could_be_key, source_translator
from holdfast.sql.script import Script, start_of
from holdfast.sql.statements import Select
from holdfast.sql.typed import Typed
from holdfast.types.schema import Base, Column
from holdfast.types.topology import KeyExpression, ProjectStep, Source

__all__ = ["plan_project"]


def plan_project(
    script: Script, select: Select, source: Source, functions: Functions
) -> ProjectStep:
    """The step of a stateless SELECT.

    The key is the source's, or PARTITION BY's expressions; either must be selected, and is
    named as the SELECT names it.  PARTITION BY NULL leaves the key empty.

    Raises:
        InvalidStatement: a key column is not selected or selected twice, nothing is left for
            the value, an aggregate stands without GROUP BY.
    """
    alias = select.source_alias.text if select.source_alias else None
    before = source_translator(script, source, alias, functions, "a SELECT without GROUP BY")
    for item in select.items:
        if item.expression is not None:
            _refuse_aggregates(script, functions, item.expression)
    items, names = expand(script, select, source, before)
    wanted = _wanted(select, source)
    typed = [(i, before.translate(i.expression)) for i in items]
    keys: list[KeyExpression] = []
    used: list[Item] = []
    for node in wanted:
        key = before.translate(node)
        found = [i for i, t in typed if t.sql == key.sql and could_be_key(i.expression, functions)]
        if not found and select.partition_by is not None and _has_star(select):
            found = [Item(node, names.unique(), start_of(node))]
        keys.append(_key(script, select, key, found, node))
        used += found
    values = tuple(_value(script, i, t) for i, t in typed if i not in used)
    if not values:
        raise script.invalid(
            select.at,
            "the projection contains no value columns",
            action="select another column, or AS_VALUE(key) to copy the key into the value",
        )
    return ProjectStep(tuple(keys), values)


def _wanted(select: Select, source: Source) -> list[exp.Expr]:
    """The expressions that make the key."""
    if select.partition_by is not None:
        return [n for n in select.partition_by if not isinstance(n, exp.Null)]
    wanted: list[exp.Expr] = []
    for column in source.key_columns:
        identifier = exp.Identifier(this=column.name, quoted=True)
        identifier.meta["start"] = select.at
        wanted.append(exp.Column(this=identifier))
    return wanted


def _has_star(select: Select) -> bool:
    return any(i.expression is None for i in select.items)


def _refuse_aggregates(script: Script, functions: Functions, node: exp.Expr) -> None:
    calls = functions.aggregates_in(node)
    if calls:
        name = str(calls[0].this).upper()
        raise script.invalid(
            calls[0].meta.get("start", 0),
            f"the aggregate {name} requires a GROUP BY clause",
            action="add GROUP BY, and write CREATE TABLE ... AS SELECT",
        )


def _key(
    script: Script, select: Select, key: Typed, found: list[Item], node: exp.Expr
) -> KeyExpression:
    what = "key column" if select.partition_by is None else "partitioning expression"
    at = start_of(node) or select.at
    if key.type is None or key.constant:
        raise script.invalid(at, "a key cannot be a constant")
    if not found:
        raise script.invalid(
            at,
            f"Key missing from projection: the SELECT must include the {what} "
            f"{script.excerpt(node)}",
            action="add it to the SELECT; PARTITION BY chooses another key, PARTITION BY NULL none",
        )
    if len(found) > 1:
        raise script.invalid(
            found[1].at,
            "the projection contains a key column more than once, as "
            + " and ".join(i.name for i in found),
            action="AS_VALUE(column) copies a key column into the value",
        )
    if key.type.base is Base.MAP:
        raise script.invalid(at, "a MAP cannot be a key")
    return KeyExpression(key.sql, Column(found[0].name, key.type))


def _value(script: Script, item: Item, typed: Typed) -> KeyExpression:
    if typed.type is None:
        raise script.invalid(
            item.at, f"{item.name} is NULL and has no type", action="use CAST(NULL AS ...)"
        )
    return KeyExpression(typed.sql, Column(item.name, typed.type))
