"""Streams and tables over topics that queries read or write, with their formats."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from holdfast.types.columns.schema import BIGINT, STRING, Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema, SchemaKind

__all__ = [
    "HEADERS",
    "HEADERS_TYPE",
    "META_COLUMNS",
    "OFFSET",
    "PARTITION",
    "SEQUENCE",
    "TIMESTAMP",
    "TOMBSTONE",
    "WINDOW_END",
    "WINDOW_START",
    "Format",
    "HeaderColumn",
    "Nullable",
    "Sink",
    "Source",
    "TimestampSpec",
    "WindowKind",
]

# Columns that ingest adds to every source's own columns.
PARTITION = "__partition"  # INT, topic partition
OFFSET = "__offset"  # BIGINT, record offset
TIMESTAMP = "__timestamp"  # BIGINT, event time in ms since the epoch
TOMBSTONE = "__tombstone"  # BOOLEAN, the record's value was null
META_COLUMNS = (PARTITION, OFFSET, TIMESTAMP, TOMBSTONE)
# Added on request only:
HEADERS = "__headers"  # ARRAY<STRUCT<KEY STRING, VALUE BYTES>>
WINDOW_START = "__window_start"  # BIGINT, ms; for a source with windowed keys
WINDOW_END = "__window_end"  # BIGINT, ms
HEADERS_TYPE = SqlType(
    Base.ARRAY,
    element=SqlType(
        Base.STRUCT, fields=(Column("KEY", STRING), Column("VALUE", SqlType(Base.BYTES)))
    ),
)
# BIGINT, the place of a record in the order in which all sources of a query are read.  Null if the
# processor determines the order (`holdfast.tasks.processors.base.arrival_order`).
SEQUENCE = "__seq"


class Format(StrEnum):
    """Serialization formats of keys and values, by ksqlDB's names."""

    JSON = "JSON"
    KAFKA = "KAFKA"  # Kafka's own primitive serializers: one column, big-endian numbers, UTF-8
    DELIMITED = "DELIMITED"
    NONE = "NONE"  # no key
    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    PROTOBUF_NOSR = "PROTOBUF_NOSR"  # without a registry's id before the message
    JSON_SR = "JSON_SR"

    @property
    def schema_kind(self) -> SchemaKind | None:
        """The language of the schemas in a registry; None: the format uses no registry."""
        return _KINDS.get(self)


_KINDS = {
    Format.AVRO: SchemaKind.AVRO,
    Format.PROTOBUF: SchemaKind.PROTOBUF,
    Format.JSON_SR: SchemaKind.JSON,
}


class Nullable(StrEnum):
    """How NULL of a primitive column is written in Protobuf: …_PROTOBUF_NULLABLE_REPRESENTATION."""

    NONE = ""  # as the type's default value
    BYTES = "BYTES"  # the same, but empty bytes are read as NULL: ksqldb.differences is none
    OPTIONAL = "OPTIONAL"
    WRAPPER = "WRAPPER"


class WindowKind(StrEnum):
    """The kinds of windows."""

    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True)
class TimestampSpec:
    """The value column with event time; `format` is a Java pattern if the column is text.

    `required`: a record without a valid time stops its query.
    """

    column: str
    format: str | None = None
    required: bool = False


@dataclass(frozen=True)
class _Relation:
    """A stream or table over a Kafka topic: its topic, columns and formats."""

    name: str
    kind: str  # "STREAM" or "TABLE"
    topic: str
    key_columns: tuple[Column, ...]
    value_columns: tuple[Column, ...]
    key_format: Format = Format.KAFKA
    value_format: Format = Format.JSON
    timestamp: TimestampSpec | None = None  # the value column with event time
    partitions: int | None = None
    replicas: int | None = None
    window: WindowKind | None = None  # the keys are windowed
    window_size_ms: int = 0  # of TUMBLING and HOPPING; sessions carry both bounds
    wrap_single: bool = True  # WRAP_SINGLE_VALUE: a single value column is inside an object
    delimiter: str = ","  # VALUE_DELIMITER of DELIMITED
    key_delimiter: str = ","  # KEY_DELIMITER of DELIMITED
    history_ms: int | None = None  # how far back a stream may look in a versioned table
    nullable: Nullable = Nullable.NONE  # of Protobuf values
    key_nullable: Nullable = Nullable.NONE  # of Protobuf keys
    broadcast: bool = False  # a small table: streams that join it are not shuffled by key
    key_schema: DataSchema | None = None  # of formats with a registry
    value_schema: DataSchema | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.key_columns + self.value_columns

    def _shared(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(_Relation)}


@dataclass(frozen=True)
class HeaderColumn:
    """A column over record headers: all headers (`key` None), or the last one with a name."""

    column: Column
    key: str | None


@dataclass(frozen=True)
class Source(_Relation):
    """A registered stream or table that queries read."""

    headers: tuple[HeaderColumn, ...] = ()
    read_only: bool = False  # CREATE SOURCE …: no query may write to it

    def as_sink(self) -> Sink:
        """The stream or table as a sink, with the writer's own record times."""
        return Sink(**self._shared() | {"timestamp": None})

    @property
    def readable(self) -> tuple[Column, ...]:
        """All columns that a read can name, including headers and bounds of windowed keys."""
        bounds = (Column(WINDOW_START, BIGINT), Column(WINDOW_END, BIGINT))
        found = self.columns + tuple(h.column for h in self.headers)
        return (*found, *(bounds if self.window else ()), Column(HEADERS, HEADERS_TYPE))


@dataclass(frozen=True)
class Sink(_Relation):
    """The topic a query writes, and the shape of its records."""

    # PARTITION BY several expressions: a record has a key even if every part is null.
    always_keyed: bool = False
    # Between two steps of one statement: not declared by a user, not read by other statements.
    internal: bool = False

    def as_source(self) -> Source:
        """The sink as a source."""
        return Source(**self._shared() | ({"timestamp": None} if self.internal else {}))
