"""The JSON entities of ksqlDB's /ksql: streams, tables and queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.statements.topology import Query, Sink, Source, Topology

__all__ = ["field_of", "query_description", "running_query", "source_description", "source_info"]

_RUNNING = "RUNNING"


def _schema(kind: SqlType) -> dict[str, Any]:
    fields = [field_of(f.name, f.type) for f in kind.fields] if kind.base is Base.STRUCT else None
    found: dict[str, Any] = {
        "type": kind.base.value,
        "fields": fields,
        "memberSchema": _schema(kind.element) if kind.element is not None else None,
    }
    if kind.base is Base.DECIMAL:
        found["parameters"] = {"precision": kind.precision, "scale": kind.scale}
    return found


def field_of(name: str, kind: SqlType, role: str = "") -> dict[str, Any]:
    """A column; `role` is KEY or empty."""
    return {"name": name, "schema": _schema(kind), **({"type": role} if role else {})}


def _fields(keys: Sequence[Column], values: Sequence[Column]) -> list[dict[str, Any]]:
    return [field_of(c.name, c.type, "KEY") for c in keys] + [
        field_of(c.name, c.type) for c in values
    ]


def source_info(of: Source | Sink) -> dict[str, Any]:
    """One line of SHOW STREAMS or SHOW TABLES."""
    found = {
        "type": of.kind,
        "name": of.name,
        "topic": of.topic,
        "keyFormat": str(of.key_format),
        "valueFormat": str(of.value_format),
        "isWindowed": of.window is not None,
    }
    return found if of.kind == "STREAM" else {**found, "format": str(of.value_format)}


def running_query(query: Query) -> dict[str, Any]:
    """One line of SHOW QUERIES."""
    return {
        "queryString": query.statement,
        "sinks": [query.sink.name],
        "sinkKafkaTopics": [query.sink.topic],
        "id": query.id.upper(),
        "statusCount": {_RUNNING: 1},
        "queryType": "PERSISTENT",
        "state": _RUNNING,
    }


def source_description(of: Source | Sink, topology: Topology, *, extended: bool) -> dict[str, Any]:
    """DESCRIBE of a stream or table."""
    queries = [q for q in topology.queries if not q.sink.internal]
    writers = [q for q in queries if q.sink.name == of.name]
    readers = [q for q in topology.queries if of.name in [s.name for s in q.sources]]
    return {
        "name": of.name,
        "windowType": of.window.value if of.window else None,
        "readQueries": [running_query(q) for q in readers],
        "writeQueries": [running_query(q) for q in writers],
        "fields": _fields(of.key_columns, of.value_columns),
        "type": of.kind,
        "timestamp": of.timestamp.column if of.timestamp else "",
        "statistics": "",
        "errorStats": "",
        "statisticsMap": {},
        "errorStatsMap": {},
        "extended": extended,
        "keyFormat": str(of.key_format),
        "valueFormat": str(of.value_format),
        "topic": of.topic,
        "partitions": of.partitions or 0,
        "replication": of.replicas or 0,
        "statement": writers[0].statement if writers else "",
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
    }


def query_description(queries: Sequence[Query], plan: str, properties: Mapping[str, str]) -> Any:
    """EXPLAIN of a persistent query; the last of `queries` writes the statement's sink."""
    last = queries[-1]
    return {
        "id": last.id.upper(),
        "statementText": last.statement,
        "windowType": last.sink.window.value if last.sink.window else None,
        "fields": _fields(last.sink.key_columns, last.sink.value_columns),
        "sources": _names(s.name for q in queries for s in q.sources),
        "sinks": [last.sink.name],
        "topology": plan,
        "executionPlan": plan,
        "overriddenProperties": dict(properties),
        "ksqlHostQueryStatus": {},
        "queryType": "PERSISTENT",
        "queryErrors": [],
        "tasksMetadata": [],
        "state": _RUNNING,
    }


def _names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
