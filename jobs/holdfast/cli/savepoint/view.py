"""Savepoints for people (rich) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.state.snapshots.savepoints import SavedQuery, Savepoint
from holdfast.types.words import human_bytes

__all__ = ["as_json", "listed", "shown"]

_OFFSETS_MAX = 12  # topic partitions of one source


def as_json(savepoint: Savepoint) -> dict[str, Any]:
    """All that is known without opening its stores; offsets by topic and topic partition."""
    return {
        "application_id": savepoint.application_id,
        "name": savepoint.name,
        "taken_ms": savepoint.taken_ms,
        "rows": savepoint.rows,
        "bytes": savepoint.bytes,
        "queries": [_query_json(query) for query in savepoint.queries],
    }


def _query_json(query: SavedQuery) -> dict[str, Any]:
    return {
        "id": query.id,
        "sink": query.sink,
        "topic": query.sink_topic,
        "stateful": query.stateful,
        "state_partitions": query.state_partitions,
        "rows": query.rows,
        "bytes": query.bytes,
        "offsets": {s.topic: {str(p): at for p, at in s.offsets.items()} for s in query.sources},
    }


def listed(savepoints: Sequence[Savepoint]) -> RenderableType:
    """A line per savepoint, the newest first."""
    table = Table("name", "taken (UTC)", box=SIMPLE_HEAD)
    for head in ("tables", "rows", "bytes"):
        table.add_column(head, justify="right")
    for each in sorted(savepoints, key=lambda s: s.taken_ms, reverse=True):
        tables = sum(not query.internal for query in each.queries)
        table.add_row(
            each.name, _time(each.taken_ms), str(tables), f"{each.rows:,}", human_bytes(each.bytes)
        )
    return table


def shown(savepoint: Savepoint) -> RenderableType:
    """One savepoint: its queries, and the offsets of their sources."""
    head = Text(
        f"Savepoint {savepoint.name} of {savepoint.application_id}, taken "
        f"{_time(savepoint.taken_ms)} UTC: {savepoint.rows:,} rows, {human_bytes(savepoint.bytes)}"
    )
    table = Table("query", "table or stream", box=SIMPLE_HEAD)
    for name in ("state partitions", "rows", "bytes"):
        table.add_column(name, justify="right")
    table.add_column("offsets", overflow="fold")
    for query in savepoint.queries:
        counts = (
            (str(query.state_partitions), f"{query.rows:,}", human_bytes(query.bytes))
            if query.stateful
            else ("", "", "")
        )
        table.add_row(query.id, query.sink, *counts, _offsets(query))
    return Group(head, table)


def _offsets(query: SavedQuery) -> str:
    lines = []
    for source in query.sources:
        parts = [f"{p}: {at}" for p, at in sorted(source.offsets.items())]
        more = len(parts) - _OFFSETS_MAX
        rest = [f"{more} more"] if more > 0 else []
        lines.append(f"{source.topic} {', '.join(parts[:_OFFSETS_MAX] + rest)}")
    return "\n".join(lines) or "nothing committed"


def _time(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
