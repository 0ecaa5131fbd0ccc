"""CREATE STREAM and CREATE TABLE over a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import ColumnDefinition, CreateSource, Name
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
from holdfast.sql.plan.sources.schemas import SchemaPart
from holdfast.sql.plan.sources.sink import KEY_FORMAT, VALUE_FORMAT, event_time
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import DataSchema, Schemas
from holdfast.types.statements.differences import DIFFERENCES, as_ksqldb
from holdfast.types.statements.sources import Format, HeaderColumn, Source, WindowKind

__all__ = ["plan_source"]

_REQUIRED = "required"  # instead of a format: each statement gives one


def plan_source(
    script: Script,
    statement: CreateSource,
    properties: Mapping[str, str],
    schemas: Schemas | None = None,
) -> Source:
    """A declared stream or table; VALUE_FORMAT defaults to JSON, KEY_FORMAT to KAFKA.

    Raises:
        InvalidStatement: a column, its place or a property of the WITH clause is wrong.
        RegistryUnavailable: columns are to be inferred, and the registry does not answer.
    """
    name = statement.name
    _check_columns(script, statement)
    options = read_options(script, statement.properties, sink=False)
    topic = _topic(script, name, options)
    keys = _columns(statement, ("KEY", "PRIMARY KEY"))
    values = _columns(statement, ("",))
    key_format = options.key_format or _default(properties, KEY_FORMAT, Format.KAFKA)
    value_format = options.value_format or _default_value(script, name, properties)
    keys_of = SchemaPart(
        script, name.at, topic, key_format, options, schemas,
        nullable=nullable_of(script, options.key_nullable, key_format, properties),
    )  # fmt: skip
    values_of = _values_of(keys_of, value_format, properties)
    keys, of_keys = keys_of.inferred(keys)
    values, of_values = values_of.inferred(values)
    _check_any(script, statement, inferred=bool(of_keys or of_values))
    _check_table(script, statement, keys)
    _check_window(script, statement, options, keys)
    delimiter = delimiter_of(script, options.value_delimiter, value_format, ",")
    key_delimiter = delimiter_of(script, options.key_delimiter, key_format, ",")
    wrap = options.wraps(script, value_format, values, properties)
    check_format(script, name.at, "key", keys, key_format)
    check_format(script, name.at, "value", values, value_format)
    return Source(
        name=name.text,
        kind=statement.kind,
        topic=topic,
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
        wrap_single=wrap,
        key_schema=of_keys or _schema_of(keys_of, keys),
        value_schema=of_values or _schema_of(replace(values_of, unwrapped=not wrap), values),
        delimiter=delimiter,
        key_delimiter=key_delimiter,
        nullable=values_of.nullable,
        key_nullable=keys_of.nullable,
        read_only=statement.read_only,
        history_ms=history_of(script, name.at, statement.kind, options),
        broadcast=broadcast_of(script, name.at, statement.kind, options),
    )


def _values_of(keys: SchemaPart, form: Format, properties: Mapping[str, str]) -> SchemaPart:
    options = keys.options
    return replace(
        keys,
        form=form,
        key=False,
        unwrapped=not _may_wrap(options),
        nullable=nullable_of(keys.script, options.nullable, form, properties),
    )


def _schema_of(part: SchemaPart, columns: tuple[Column, ...]) -> DataSchema | None:
    return part.schema_for(columns, of_sink=False)


def _columns(statement: CreateSource, constraints: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(
        Column(c.name.text, c.type) for c in statement.columns if c.constraint in constraints
    )


def _default(properties: Mapping[str, str], key: str, otherwise: Format) -> Format:
    name = properties.get(key, otherwise).upper()
    return Format(name) if name in Format.__members__ else otherwise


def _default_value(script: Script, name: Name, properties: Mapping[str, str]) -> Format:
    by_difference = as_ksqldb(properties) and VALUE_FORMAT not in properties
    if by_difference or properties.get(VALUE_FORMAT, "").lower() == _REQUIRED:
        why = f"{DIFFERENCES} is 'none'" if by_difference else f"{VALUE_FORMAT} is '{_REQUIRED}'"
        raise script.invalid(
            name.at,
            "Statement is missing the 'VALUE_FORMAT' property from the WITH clause. Either provide "
            f"one or set a default via the '{VALUE_FORMAT}' config.",
            cause=why,
            action="WITH (VALUE_FORMAT='JSON', ...)",
        )
    return _default(properties, VALUE_FORMAT, Format.JSON)


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


def _topic(script: Script, name: Name, options: Options) -> str:
    if options.topic is None:
        raise script.invalid(
            name.at,
            f"{name.text} needs the property KAFKA_TOPIC",
            action="WITH (KAFKA_TOPIC='...', VALUE_FORMAT='JSON')",
        )
    return options.topic


def _check_any(script: Script, statement: CreateSource, *, inferred: bool) -> None:
    if not statement.columns and not inferred:
        raise script.invalid(
            statement.name.at,
            f"No columns supplied. {statement.name.text} declares no columns",
            cause="only formats with a schema registry say what columns there are",
            action="list the columns: (name TYPE, ...)",
        )


def _may_wrap(options: Options) -> bool:
    """Whether inferred values are a record with a field for each column."""
    item = options.wrap_single
    return item is None or str(item.value).lower() == "true"


def _check_table(script: Script, statement: CreateSource, keys: tuple[Column, ...]) -> None:
    if statement.kind == "TABLE" and not keys:
        raise script.invalid(
            statement.name.at, "Tables require a PRIMARY KEY. Please define the PRIMARY KEY.",
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
