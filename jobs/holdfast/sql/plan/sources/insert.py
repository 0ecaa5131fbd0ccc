"""INSERT INTO: another query for a stream, or one record for a topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from holdfast.sql.expressions.engines import DUCKDB, SPARK, Engine
from holdfast.sql.expressions.names import relation_translator
from holdfast.sql.expressions.type_rules import converts_to
from holdfast.sql.expressions.typed import describe
from holdfast.sql.parse.script import Script, did_you_mean, start_of
from holdfast.sql.parse.statements import InsertSelect, InsertValues, Name
from holdfast.sql.plan.catalog import Catalog
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.relation import Relation
from holdfast.types.columns.schema import BIGINT, Base, Column, SqlType
from holdfast.types.statements.topology import (
    Expression,
    Insertion,
    JoinStep,
    NamedExpression,
    ProjectStep,
    Query,
    Sink,
    Source,
)

__all__ = ["constants", "fitted", "insertion", "target_of", "widened"]


def target_of(script: Script, catalog: Catalog, statement: InsertSelect) -> Source:
    """The stream that INSERT INTO ... SELECT writes to.

    Raises:
        InvalidStatement: there is none, or nothing may be inserted into it.
    """
    name = statement.target
    found = catalog.get(name.text)
    if found is None:
        line, column = script.place(name.at)
        raise script.invalid(
            name.at,
            f"Line: {line}, Col: {column}: Source `{name.text}` does not exist.",
            action=did_you_mean(name.text, catalog.names()),
        )
    if found.kind != "STREAM":
        raise script.invalid(
            name.at, "INSERT INTO can only be used to insert into a stream. "
            f"{found.name} is a table.",
        )  # fmt: skip
    if found.headers:
        raise script.invalid(
            name.at, f"Cannot insert into {found.name} because it has header columns"
        )
    if found.read_only:
        raise script.invalid(name.at, f"Cannot insert into read-only stream: {found.name}")
    return found


def fitted(
    script: Script, at: int, existing: Source, keys: Sequence[Column], values: Sequence[Column]
) -> Sink:
    """The sink of a SELECT whose columns fit a stream's: by name, in order, without a CAST.

    Raises:
        InvalidStatement: they do not.
    """
    fits = _all_fit(keys, existing.key_columns, converts_to)
    if not (fits and _all_fit(values, existing.value_columns, _value_fits)):
        raise script.invalid(
            at,
            "Incompatible schema between results and sink.\n"
            f"Result schema is {_schema(keys, values)}\n"
            f"Sink schema is {_schema(existing.key_columns, existing.value_columns)}",
        )
    return existing.as_sink()


def _all_fit(
    given: Sequence[Column], wanted: Sequence[Column], fits: Callable[[SqlType, SqlType], bool]
) -> bool:
    return len(given) == len(wanted) and all(
        a.name == b.name and fits(a.type, b.type) for a, b in zip(given, wanted, strict=True)
    )


def _value_fits(given: SqlType, wanted: SqlType) -> bool:
    """As in ksqlDB, whole numbers fit any DECIMAL; one that is too large for it becomes NULL."""
    whole = given.base in (Base.INTEGER, Base.BIGINT)
    return (whole and wanted.base is Base.DECIMAL) or converts_to(given, wanted)


def _schema(keys: Sequence[Column], values: Sequence[Column]) -> str:
    shown = [f"`{c.name}` {c.type} KEY" for c in keys] + [f"`{c.name}` {c.type}" for c in values]
    return ", ".join(shown)


def widened(query: Query) -> Query:
    """The query with its columns cast to the types of its sink."""
    step, sink = query.step, query.sink
    if isinstance(step, ProjectStep):
        count = len(sink.key_columns)
        keys = (*map(_cast, step.keys, sink.key_columns), *step.keys[count:])
        outputs = tuple(map(_cast, step.outputs, sink.value_columns))
        return replace(query, step=replace(step, keys=keys, outputs=outputs))
    if isinstance(step, JoinStep):
        made = tuple(map(_cast_output, step.outputs, sink.value_columns))
        return replace(query, step=replace(step, outputs=made))
    return query


def _cast(item: NamedExpression, wanted: Column) -> NamedExpression:
    return _in_type(item, wanted, released=SPARK)


def _cast_output(item: NamedExpression, wanted: Column) -> NamedExpression:
    return _in_type(item, wanted, released=DUCKDB)


def _in_type(item: NamedExpression, wanted: Column, released: Engine) -> NamedExpression:
    if item.column.type == wanted.type:
        return item
    texts = {
        DUCKDB: f"TRY(CAST({{}} AS {DUCKDB.type_name(wanted.type)}))",
        SPARK: f"CAST({{}} AS {SPARK.type_name(wanted.type)})",
    }
    made = item.expression.mapped(
        lambda sql: texts[DUCKDB].replace("{}", sql),
        wanted.type,
        released=lambda sql: texts[released].replace("{}", sql),
    )
    return NamedExpression(wanted.name, made)


def insertion(context: Context, catalog: Catalog, statement: InsertValues) -> Insertion:
    """The record of INSERT INTO ... VALUES.

    Raises:
        InvalidStatement: there is no such stream or table, or the values do not fit it.
    """
    script, name = context.script, statement.target
    source = catalog.get(name.text)
    if source is None:
        raise script.invalid(
            name.at,
            f"Cannot insert values into an unknown stream/table: `{name.text}`\n"
            f"{_other_case(name, catalog)}",
        )
    kind = source.kind.lower()
    if source.read_only:
        raise script.invalid(name.at, f"Cannot insert values into read-only {kind}: {source.name}")
    if source.window is not None:
        raise script.invalid(name.at, f"Cannot insert values into windowed {kind}: {source.name}")
    given, timestamp = constants(context, source, statement.columns, statement.values, name.at)
    by_name = {k.name: k for k in given}
    if source.kind == "TABLE" and not all(c.name in by_name for c in source.key_columns):
        keys = ", ".join(f"`{c.name}`" for c in source.key_columns)
        raise script.invalid(
            name.at, f"Failed to insert values into '{source.name}'. Value for primary key "
            f"column(s) {keys} is required for tables",
        )  # fmt: skip
    values = tuple(
        by_name.get(c.name) or NamedExpression(c.name, _null(c.type)) for c in source.columns
    )
    return Insertion(source, values, timestamp)


def _null(sql_type: SqlType) -> Expression:
    now, before = (f"CAST(NULL AS {each.type_name(sql_type)})" for each in (DUCKDB, SPARK))
    return Expression(now, sql_type, released="" if before == now else before)


def _other_case(name: Name, catalog: Catalog) -> str:
    near = next((n for n in catalog.names() if n.upper() == name.text.upper()), None)
    if near is None:
        return did_you_mean(name.text, catalog.names())
    if near == near.upper():
        return f"Did you mean {near}? Hint: try removing double quotes from the source name."
    return (
        f'Did you mean "{near}"? Hint: wrap the source name in double quotes to make it '
        "case-sensitive."
    )


def _fits(given: SqlType | None, wanted: SqlType) -> bool:
    """Whether a constant becomes a column's type by itself: wider numbers, times from text."""
    if converts_to(given, wanted):
        return True
    assert given is not None
    nested = (Base.ARRAY, Base.MAP, Base.STRUCT)
    if given.base is Base.STRING:
        return wanted.base in (Base.DATE, Base.TIME, Base.TIMESTAMP, Base.BYTES)
    if given.base in nested:
        return given.base is wanted.base
    return given.numeric and wanted.base is Base.DECIMAL


def constants(
    context: Context,
    source: Source,
    columns: Sequence[Name],
    values: Sequence[exp.Expr],
    at: int,
) -> tuple[list[NamedExpression], Expression | None]:
    """The values of VALUES by column, and that of ROWTIME.

    Raises:
        InvalidStatement: their number or a column's name is wrong, or a type does not convert.
    """
    script = context.script
    names = [c.text for c in columns] or [c.name for c in source.columns]
    if not columns and len(values) == len(names) + len(source.headers):
        names += [h.column.name for h in source.headers]
    if len(names) != len(values):
        raise script.invalid(
            at,
            f"Expected a value for each column. Expected Columns: {names}. Got {len(values)} "
            "values.",
        )
    known = {c.name: c for c in source.columns}
    headers = [h.column.name for h in source.headers if h.column.name in names]
    if headers:
        raise script.invalid(at, f"Cannot insert into HEADER columns: {', '.join(headers)}")
    translator = relation_translator(
        script, Relation(source, (), (source.name,), ()), context.functions, "VALUES"
    )
    made: list[NamedExpression] = []
    timestamp: Expression | None = None
    for name, node in zip(names, values, strict=True):
        column = Column(name, BIGINT) if name == "ROWTIME" else known.get(name)
        if column is None:
            raise script.invalid(
                at, f"Column name `{name}` does not exist.", action=did_you_mean(name, known)
            )
        typed = translator.translate(node)
        if not _fits(typed.type, column.type):
            raise script.invalid(
                start_of(node) or at,
                f"Expected type {column.type} for field `{name}` but got "
                f"{describe(typed.type)}({script.excerpt(node)})",
                action="use CAST",
            )
        value = translator.coerced(node, column.type)
        if name == "ROWTIME" and name not in known:
            timestamp = value
        else:
            made.append(NamedExpression(name, value))
    return made, timestamp
