"""CREATE STREAM and CREATE TABLE over a topic."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import ColumnDefinition, CreateSource
from holdfast.sql.plan.keys import check_key_type
from holdfast.sql.plan.projection import check_column_name
from holdfast.sql.plan.relation import RESERVED_NAMES
from holdfast.sql.plan.sources.options import (
    Options,
    broadcast_of,
    check_format,
    delimiter_of,
    history_of,
    nullable_of,
    read_options,
)
from holdfast.sql.plan.sources.sink import KEY_FORMAT, VALUE_FORMAT, event_time
from holdfast.types.schema import Column
from holdfast.types.sources import Format, HeaderColumn, Nullable, Source, WindowKind

__all__ = ["plan_source"]


def plan_source(script: Script, statement: CreateSource, properties: Mapping[str, str]) -> Source:
    """A declared stream or table; VALUE_FORMAT defaults to JSON, KEY_FORMAT to KAFKA.

    Raises:
        InvalidStatement: a column, its place or a property of the WITH clause is wrong.
        Unsupported: no columns are declared.
    """
    name = statement.name
    _check_columns(script, statement)
    options = read_options(script, statement.properties, sink=False)
    if options.topic is None:
        raise script.invalid(
            name.at,
            f"{name.text} needs the property KAFKA_TOPIC",
            action="WITH (KAFKA_TOPIC='...', VALUE_FORMAT='JSON')",
        )
    keys = _columns(statement, ("KEY", "PRIMARY KEY"))
    values = _columns(statement, ("",))
    key_format = options.key_format or _default(properties, KEY_FORMAT, Format.KAFKA)
    value_format = options.value_format or _default(properties, VALUE_FORMAT, Format.JSON)
    _check_window(script, statement, options, keys)
    delimiter = delimiter_of(script, options.value_delimiter, value_format, ",")
    key_delimiter = delimiter_of(script, options.key_delimiter, key_format, ",")
    if not statement.columns:
        raise script.unsupported(
            name.at,
            f"No columns supplied. {name.text} declares no columns",
            cause="ksqlDB would ask the Schema Registry, which comes later in holdfast.ingest",
            action="list the columns: (name TYPE, ...)",
        )
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
        timestamp=event_time(script, options, (*keys, *values), properties),
        partitions=options.partitions,
        replicas=options.replicas,
        headers=_headers(script, statement),
        window=options.window,
        window_size_ms=options.window_size_ms or 0,
        wrap_single=options.wraps(script, value_format, values, properties),
        delimiter=delimiter,
        key_delimiter=key_delimiter,
        nullable=nullable_of(script, options.nullable, value_format, Nullable.NONE),
        key_nullable=nullable_of(script, options.key_nullable, key_format, Nullable.NONE),
        read_only=statement.read_only,
        history_ms=history_of(script, name.at, statement.kind, options),
        broadcast=broadcast_of(script, name.at, statement.kind, options),
    )


def _columns(statement: CreateSource, constraints: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(
        Column(c.name.text, c.type) for c in statement.columns if c.constraint in constraints
    )


def _default(properties: Mapping[str, str], key: str, otherwise: Format) -> Format:
    name = properties.get(key, otherwise).upper()
    return Format(name) if name in Format.__members__ else otherwise


def _headers(script: Script, statement: CreateSource) -> tuple[HeaderColumn, ...]:
    found: list[HeaderColumn] = []
    for column in statement.columns:
        if column.constraint not in ("HEADER", "HEADERS"):
            continue
        key = getattr(column, "header", None)
        taken = [h.key for h in found]
        if None in taken or key in taken:
            what = "HEADERS" if None in taken else f"HEADER('{key}')"
            raise script.invalid(column.name.at, f"Schema already contains a {what} column.")
        found.append(HeaderColumn(Column(column.name.text, column.type), key))
    return tuple(found)


def _check_window(
    script: Script, statement: CreateSource, options: Options, keys: tuple[Column, ...]
) -> None:
    if options.window is None:
        return
    at = statement.name.at
    if not keys:
        raise script.invalid(at, "Windowed sources require a key column.")
    sized = options.window_size_ms is not None
    if options.window is WindowKind.SESSION and sized:
        raise script.invalid(at, "'WINDOW_SIZE' should not be set for SESSION windows.")
    if options.window is not WindowKind.SESSION and not sized:
        raise script.invalid(
            at, f"'WINDOW_SIZE' should be set for {options.window} windows.",
            action="WINDOW_SIZE='1 HOUR', for example",
        )  # fmt: skip


def _check_columns(script: Script, statement: CreateSource) -> None:
    seen: set[str] = set()
    for column in statement.columns:
        _check_column(script, statement.kind, column)
        if column.name.text in seen:
            raise script.invalid(
                column.name.at, f"Duplicate column names: {column.name.text} is declared twice"
            )
        seen.add(column.name.text)
    name_at = statement.name.at
    if (
        statement.kind == "TABLE"
        and statement.columns
        and not any("KEY" in c.constraint for c in statement.columns)
    ):
        raise script.invalid(
            name_at, "Tables require a PRIMARY KEY. Please define the PRIMARY KEY.",
            action="write (id TYPE PRIMARY KEY, ...)",
        )  # fmt: skip


def _check_column(script: Script, kind: str, column: ColumnDefinition) -> None:
    name, at = column.name.text, column.name.at
    check_column_name(script, at, name)
    if name.upper() in RESERVED_NAMES:
        raise script.invalid(
            at,
            f"'{name}' is a reserved column name. You cannot use it as a name for a column.",
        )
    wanted, other = ("PRIMARY KEY", "KEY") if kind == "TABLE" else ("KEY", "PRIMARY KEY")
    if column.constraint == other:
        line, place = script.place(at)
        raise script.invalid(
            at,
            f"Line: {line}, Col: {place}: Column `{name}` is a '{other}' column: please use "
            f"'{wanted}' for {kind.lower()}s.",
        )
    if column.constraint == wanted:
        check_key_type(script, at, name, column.type)
