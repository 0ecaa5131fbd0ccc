"""Facts of a statement on which a sink's rows depend, beside the state.

Every commit marker keeps them, and a start compares them.  A statement's fingerprint covers what
its stored rows depend on.  The facts may change without affecting the state, but then the sink has
rows of two meanings, because rows that no later record changes stay as they were.
"""

from __future__ import annotations

import json
from typing import Any

from holdfast.types.columns.schema import Column
from holdfast.types.statements.expressions import NamedExpression, canonical
from holdfast.types.statements.topology import (
    AggregateStep,
    Emit,
    JoinStep,
    ProjectStep,
    Query,
    Sink,
    Source,
)

__all__ = ["source_facts", "statement_facts"]


def statement_facts(query: Query) -> str:
    """The facts of one query as JSON; the same statement gives the same text."""
    facts = {
        "sink": _written(query.sink),
        "keys": _columns(query.sink.key_columns),
        "columns": _columns(query.sink.value_columns),
        "results": _results(query),
        "windows": _windows(query),
        "sources": [_read(source) for source in query.sources],
    }
    return json.dumps(facts, sort_keys=True, default=str)


def source_facts(source: Source) -> str:
    """The facts by which a source's records are read, as JSON."""
    facts = {**_read(source), "keys": _columns(source.key_columns)}
    return json.dumps(facts, sort_keys=True, default=str)


def _written(sink: Sink) -> dict[str, Any]:
    return {
        "topic": sink.topic,
        "kind": sink.kind,
        **_formats(sink),
        "window": [sink.window, sink.window_size_ms],
        "always_keyed": sink.always_keyed,
        **_key_schema(sink),
    }


def _key_schema(sink: Sink) -> dict[str, Any]:
    """The keys' schema where the statement gives it: with other bytes a key is another one."""
    schema = sink.key_schema
    if schema is None or not (schema.full_name or schema.fixed):
        return {}
    return {"key_schema": [schema.full_name, schema.id if schema.fixed else None]}


def _read(source: Source) -> dict[str, Any]:
    """The facts of a source; only `columns` may grow."""
    return {
        "topic": source.topic,
        "kind": source.kind,
        **_formats(source),
        "window": [source.window, source.window_size_ms],
        "headers": [[h.column.name, str(h.column.type), h.key] for h in source.headers],
        "columns": _columns(source.columns),
    }


def _formats(relation: Source | Sink) -> dict[str, Any]:
    spec = relation.timestamp
    nullable = [relation.key_nullable, relation.nullable]
    formats = [relation.key_format, relation.value_format, relation.wrap_single]
    return {
        "formats": [*formats, *(nullable if any(nullable) else ())],
        "delimiters": [relation.key_delimiter, relation.delimiter],
        "timestamp": None if spec is None else [spec.column, spec.format, spec.required],
    }


def _columns(columns: tuple[Column, ...]) -> list[list[str]]:
    return [[c.name, str(c.type)] for c in columns]


def _results(query: Query) -> dict[str, Any]:
    """The expressions that make a sink row from the state, or from a record without state."""
    step = query.step
    if isinstance(step, AggregateStep):
        return {"outputs": _texts(step.outputs), "having": canonical(step.having)}
    if isinstance(step, JoinStep):
        return {"outputs": _texts((*step.keys, *step.outputs)), "where": canonical(step.filter)}
    if isinstance(step, ProjectStep):
        made = (*step.keys, *step.outputs, *step.explode)
        return {"outputs": _texts(made), "where": canonical(query.filter)}
    return {}  # the state covers everything


def _texts(made: tuple[NamedExpression, ...]) -> list[str]:
    return [each.expression.canonical for each in made]


def _windows(query: Query) -> dict[str, Any]:
    """The facts that decide which records are late for a window, and when it is emitted."""
    step = query.step
    if not isinstance(step, AggregateStep) or step.window is None:
        return {}
    window = step.window
    facts = {"grace_ms": window.grace_ms, "final": step.emit is Emit.FINAL}
    if step.emit is not Emit.FINAL:
        return facts  # a longer retention only serves lookups
    told = {"retention_ms": window.retention_ms}
    return facts | told | ({"within_retention": True} if window.final_within_retention else {})
