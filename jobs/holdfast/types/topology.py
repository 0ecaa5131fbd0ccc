"""The Topology: what a file of statements means, as one immutable value.

`holdfast.sql` makes it (pure), `holdfast.runtime` runs it, `explain` prints it.
It is the only thing those layers know of each other.  Expressions are text in the dialect of
the engine that evaluates them: Spark SQL before the shuffle, DuckDB SQL after the merge.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.types.schema import Column, SqlType

__all__ = [
    "META_COLUMNS",
    "OFFSET",
    "PARTITION",
    "TIMESTAMP",
    "TOMBSTONE",
    "AggregateCall",
    "AggregateStep",
    "Format",
    "KeyExpression",
    "OutputColumn",
    "ProjectStep",
    "Query",
    "Sink",
    "Source",
    "TimestampSpec",
    "Topology",
    "Window",
    "WindowKind",
]

# Columns that ingest adds to every source's own columns.
PARTITION = "__partition"  # INT, topic partition
OFFSET = "__offset"  # BIGINT, record offset
TIMESTAMP = "__timestamp"  # BIGINT, event time in ms since the epoch
TOMBSTONE = "__tombstone"  # BOOLEAN, the record's value was null
META_COLUMNS = (PARTITION, OFFSET, TIMESTAMP, TOMBSTONE)


class Format(StrEnum):
    """Serialization formats of keys and values, by ksqlDB's names."""

    JSON = "JSON"
    KAFKA = "KAFKA"  # Kafka's own primitive serializers: one column, big-endian numbers, UTF-8
    DELIMITED = "DELIMITED"
    NONE = "NONE"  # no key


class WindowKind(StrEnum):
    """How windows follow each other."""

    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"


@dataclass(frozen=True)
class TimestampSpec:
    """Which value column carries event time; `format` is a Java pattern when it is text."""

    column: str
    format: str | None = None


@dataclass(frozen=True)
class Source:
    """A registered stream or table over a Kafka topic."""

    name: str
    kind: str  # "STREAM" or "TABLE"
    topic: str
    key_columns: tuple[Column, ...]
    value_columns: tuple[Column, ...]
    key_format: Format = Format.KAFKA
    value_format: Format = Format.JSON
    timestamp: TimestampSpec | None = None
    partitions: int | None = None
    replicas: int | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.key_columns + self.value_columns


@dataclass(frozen=True)
class Sink:
    """The topic a query writes, and the shape of its records."""

    name: str
    kind: str  # "STREAM" or "TABLE"
    topic: str
    key_columns: tuple[Column, ...]
    value_columns: tuple[Column, ...]
    key_format: Format = Format.KAFKA
    value_format: Format = Format.JSON
    partitions: int | None = None
    replicas: int | None = None


@dataclass(frozen=True)
class Window:
    """A time window; all lengths in ms.  TUMBLING has `advance_ms == size_ms`."""

    kind: WindowKind
    size_ms: int
    advance_ms: int
    grace_ms: int
    retention_ms: int


@dataclass(frozen=True)
class KeyExpression:
    """One GROUP BY expression: Spark SQL over the source's columns, and the column it makes."""

    spark: str
    column: Column


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of a SELECT or HAVING.

    `name` is the internal column (`__a0`, `__a1` …) that `OutputColumn.duckdb` refers to;
    `args` is Spark SQL over the source's columns; `literals` are constant arguments (TOPK's k).
    """

    name: str
    function: str
    args: tuple[str, ...]
    arg_types: tuple[SqlType, ...]
    literals: tuple[str | int | float | bool | None, ...]
    type: SqlType


@dataclass(frozen=True)
class OutputColumn:
    """A value column of an aggregate's result.

    `ref` names an aggregate (`__a0`), a key column or WINDOWSTART / WINDOWEND when the
    expression is nothing more (no evaluation needed); else it is None and `duckdb` is
    evaluated over the key columns, the aggregates and the window bounds.
    """

    column: Column
    ref: str | None
    duckdb: str


@dataclass(frozen=True)
class AggregateStep:
    """GROUP BY: one row of state per key (and window)."""

    keys: tuple[KeyExpression, ...]
    window: Window | None
    aggregates: tuple[AggregateCall, ...]
    outputs: tuple[OutputColumn, ...]
    having: str | None = None  # DuckDB SQL, boolean

    def fingerprint_parts(self) -> dict[str, object]:
        """What the stored rows depend on; outputs and HAVING may change freely."""
        window = self.window
        return {
            "keys": [[k.spark, str(k.column.type)] for k in self.keys],
            "window": [window.kind, window.size_ms, window.advance_ms] if window else None,
            "aggregates": [
                [a.function, list(a.args), list(a.literals), str(a.type)] for a in self.aggregates
            ],
        }


@dataclass(frozen=True)
class ProjectStep:
    """A statement without state: key and value columns as Spark SQL over the source's columns.

    `key` is one Spark expression per sink key column; `outputs` one per sink value column.
    """

    keys: tuple[KeyExpression, ...]
    outputs: tuple[KeyExpression, ...]


@dataclass(frozen=True)
class Query:
    """One `CREATE … AS SELECT`: one stateful (or no stateful) step, restartable by itself.

    `id` is stable under reordering of a file: `ctas_<name>` or `csas_<name>`, lower-case.
    `filter` is the WHERE clause in Spark SQL.
    """

    id: str
    statement: str
    source: Source
    filter: str | None
    step: AggregateStep | ProjectStep
    sink: Sink
    properties: tuple[tuple[str, str], ...] = ()

    def canonical(self) -> str:
        """The text whose change makes stored state unusable (kept in the commit marker)."""
        parts: dict[str, object] = {"source": self.source.name, "topic": self.source.topic}
        parts["filter"] = self.filter
        if isinstance(self.step, AggregateStep):
            parts.update(self.step.fingerprint_parts())
        return json.dumps(parts, sort_keys=True, default=str)

    def fingerprint(self) -> str:
        """16 hex digits of SHA-256 over `canonical()`."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Topology:
    """All queries of one job, with every stream and table its statements declared."""

    queries: tuple[Query, ...]
    sources: tuple[Source, ...] = ()
    properties: tuple[tuple[str, str], ...] = field(default=())

    def query(self, name: str) -> Query | None:
        """The query that writes the table or stream `name` (resolved name), if any."""
        return next((q for q in self.queries if q.sink.name == name), None)
