"""Compares a case's expectations of streams and tables (`post.sources`) with the Topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import CreateSource
from holdfast.sql.parse.text import parse
from holdfast.types.statements.topology import Sink, Source, Topology

__all__ = ["wrong_sources"]


def wrong_sources(topology: Topology, expected: Sequence[Mapping[str, Any]]) -> list[str]:
    """The mismatches, one line per stream or table; empty when everything matches."""
    known: dict[str, Source | Sink] = {s.name: s for s in topology.sources}
    known |= {q.sink.name: q.sink for q in topology.queries if not q.sink.internal}
    wrong = (_wrong(known.get(str(node["name"])), node) for node in expected)
    return [line for line in wrong if line]


def _wrong(found: Source | Sink | None, node: Mapping[str, Any]) -> str:
    name = node["name"]
    if found is None:
        return f"There is no {name}."
    kind = str(node.get("type", found.kind)).upper()
    if found.kind != kind:
        return f"{name} is a {found.kind}, a {kind} was expected."
    checks = (
        ("schema", _schema_of(node, found), _schema(found)),
        ("key format", _format_of(node.get("keyFormat"), found.key_format), str(found.key_format)),
        ("value format", str(node.get("valueFormat", found.value_format)), str(found.value_format)),
        ("window", _window_of(node.get("keyFormat")), _window(found)),
    )
    bad = [f"{what} is {have}, not {want}" for what, want, have in checks if want not in ("", have)]
    return f"{name}: {'; '.join(bad)}." if bad else ""


def _schema(of: Source | Sink) -> str:
    keys = [f"{column} KEY" for column in of.key_columns]
    return ", ".join([*keys, *map(str, of.value_columns)])


def _schema_of(node: Mapping[str, Any], found: Source | Sink) -> str:
    """The expected schema in Holdfast's notation: parsed like a statement's columns."""
    text = node.get("schema")
    if text is None:
        return ""
    statement = f"CREATE {found.kind} X ({text}) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON');"
    create = parse(Script(statement))[0]
    if not isinstance(create, CreateSource):
        raise TypeError(f"not the columns of a {found.kind}: {text}")
    keys = [f"{c.name.text} {c.type} KEY" for c in create.columns if c.constraint]
    values = [f"{c.name.text} {c.type}" for c in create.columns if not c.constraint]
    return ", ".join(keys + values)


def _format_of(node: Any, default: str) -> str:
    return str(node.get("format", default)) if isinstance(node, dict) else str(default)


def _window_of(node: Any) -> str:
    """The expected window; empty when none is expected."""
    if not isinstance(node, dict) or not node.get("windowType"):
        return ""
    return f"{node['windowType']} {node.get('windowSize') or 0}"


def _window(of: Source | Sink) -> str:
    return f"{of.window} {of.window_size_ms}" if of.window is not None else "none"
