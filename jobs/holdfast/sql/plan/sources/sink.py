"""The topic a query writes: name, formats, and the shape of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.sql.parse.script import Script
from holdfast.sql.plan.sources.options import (
    Options,
    broadcast_of,
    check_format,
    check_topic,
    delimiter_of,
    history_of,
    nullable_of,
    timestamp_of,
)
from holdfast.sql.plan.sources.schemas import SchemaPart
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.sources import Format, Sink, Source, TimestampSpec, WindowKind
from holdfast.types.statements.topology import Window

__all__ = [
    "Shape",
    "Target",
    "event_time",
    "internal_sink",
    "make_sink",
]

KEY_FORMAT = "ksql.persistence.default.format.key"
VALUE_FORMAT = "ksql.persistence.default.format.value"
TOPIC_PREFIX = "ksql.output.topic.name.prefix"
REQUIRED_TIME = "ksql.timestamp.throw.on.invalid"


@dataclass(frozen=True)
class Shape:
    """The result of a SELECT: its columns, and the windows of its keys."""

    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    window: WindowKind | None = None
    window_size_ms: int = 0

    @staticmethod
    def of_groups(keys: Sequence[Column], values: Sequence[Column], window: Window | None) -> Shape:
        """The shape of an aggregate: its keys have the windows of its own WINDOW clause, if any."""
        if window is None:
            return Shape(tuple(keys), tuple(values))
        size = 0 if window.kind is WindowKind.SESSION else window.size_ms
        return Shape(tuple(keys), tuple(values), window.kind, size)

    @staticmethod
    def of_rows(keys: Sequence[Column], values: Sequence[Column], source: Source) -> Shape:
        """The shape of a query that keeps its source's rows, and so the windows of their keys."""
        return Shape(tuple(keys), tuple(values), source.window, source.window_size_ms)


@dataclass(frozen=True)
class Target:
    """Where a statement writes.

    Attributes:
        id: the query's id.
        at: where messages about it point to.
        partition_by_null: the key was taken away.
        partitioned: PARTITION BY made the key.
        existing: of INSERT INTO, what is written to.
        schemas: the registry; None: there is none.
    """

    id: str
    kind: str
    name: str
    at: int
    text: str
    options: Options
    properties: Mapping[str, str]
    partition_by_null: bool = False
    partitioned: bool = False
    existing: Source | None = None
    schemas: Schemas | None = None


def make_sink(script: Script, target: Target, kind: str, shape: Shape, source: Source) -> Sink:
    """The sink: formats, partitions and replicas are the source's unless WITH says otherwise.

    Raises:
        InvalidStatement: a format cannot hold the columns, a topic's name is impossible.
    """
    options, at = target.options, target.at
    key_format = _key_format(script, target, shape, source)
    value_format = options.value_format or source.value_format
    check_format(script, at, "key", shape.keys, key_format)
    check_format(script, at, "value", shape.values, value_format)
    topic = options.topic or target.properties.get(TOPIC_PREFIX, "") + target.name
    check_topic(script, at, topic)
    inherited = source.delimiter if source.value_format is value_format else ","
    wrap = options.wraps(script, value_format, shape.values, target.properties)
    key_inherited = source.key_delimiter if source.key_format is key_format else ","
    keys = SchemaPart(
        script, at, topic, key_format, options, target.schemas,
        nullable=nullable_of(script, options.key_nullable, key_format, target.properties),
        inherited=source.key_schema if source.key_format is key_format else None,
    )  # fmt: skip
    values = replace(
        keys,
        form=value_format,
        key=False,
        unwrapped=not wrap,
        nullable=nullable_of(script, options.nullable, value_format, target.properties),
        inherited=source.value_schema if source.value_format is value_format else None,
    )
    return Sink(
        name=target.name,
        kind=kind,
        topic=topic,
        key_columns=shape.keys,
        value_columns=shape.values,
        key_format=key_format,
        value_format=value_format,
        partitions=options.partitions or source.partitions,
        replicas=options.replicas or source.replicas,
        window=shape.window,
        window_size_ms=shape.window_size_ms,
        wrap_single=wrap,
        key_schema=keys.schema_for(shape.keys, of_sink=True),
        value_schema=values.schema_for(shape.values, of_sink=True),
        delimiter=delimiter_of(script, options.value_delimiter, value_format, inherited),
        key_delimiter=delimiter_of(script, options.key_delimiter, key_format, key_inherited),
        nullable=values.nullable,
        key_nullable=keys.nullable,
        timestamp=event_time(script, options, (*shape.keys, *shape.values), target.properties),
        always_keyed=target.partitioned,
        history_ms=history_of(script, at, kind, options),
        broadcast=broadcast_of(script, at, kind, options),
    )


def event_time(
    script: Script, options: Options, columns: Sequence[Column], properties: Mapping[str, str]
) -> TimestampSpec | None:
    """Which column carries event time, and whether every record must have it.

    Raises:
        InvalidStatement: there is no such column, or it holds no time.
    """
    found = timestamp_of(script, options, columns)
    required = properties.get(REQUIRED_TIME, "").lower() == "true"
    return replace(found, required=True) if found is not None and required else found


def _key_format(script: Script, target: Target, shape: Shape, source: Source) -> Format:
    given = target.options.key_format
    if target.partition_by_null:
        if given not in (None, Format.NONE):
            raise script.invalid(
                target.at,
                "Key format specified for stream without key columns.",
                cause=f"PARTITION BY NULL leaves none for KEY_FORMAT='{given}'",
                action="remove KEY_FORMAT",
            )
        return Format.NONE
    chosen = given or source.key_format
    if given is None and chosen is Format.NONE and shape.keys:
        return Format(target.properties.get(KEY_FORMAT, Format.KAFKA).upper())
    return chosen


def internal_sink(query_id: str, kind: str, shape: Shape) -> Sink:
    """A topic between two queries of one statement."""
    return Sink(
        name=query_id.upper(),
        kind=kind,
        topic=f"{query_id}-rows",
        key_columns=shape.keys,
        value_columns=shape.values,
        key_format=Format.JSON if shape.keys else Format.NONE,
        value_format=Format.JSON,
        window=shape.window,
        window_size_ms=shape.window_size_ms,
        internal=True,
    )
