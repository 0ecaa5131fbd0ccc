"""A `JobView` for people (rich) and for programs (JSON)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.cli.json_values import json_of
from holdfast.cli.look.facts import JobView, TableRows, TableView
from holdfast.types.snapshots import SnapshotState
from holdfast.types.status import PartitionStatus, QueryState, StandbyStatus
from holdfast.types.words import counted, human_bytes, human_seconds, iso_time

__all__ = ["as_json", "console", "render", "rows_table"]

_FILE_WIDTH = 120  # width in columns without a terminal

_WINDOW_START = "window start"
_HIDDEN = "stored rows include groups that HAVING leaves out of the table"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")


def console() -> Console:
    """Standard output; wide enough for a table if it is not a terminal."""
    found = Console()
    return found if found.is_terminal else Console(width=_FILE_WIDTH)


def as_json(job: JobView) -> str:
    """The whole view; window starts in ms, restore times in seconds."""
    document = {
        "application_id": job.application_id,
        "running": job.running,
        "state": job.status.state if job.status else None,
        "updated_ms": job.status.updated_ms if job.status else None,
        "metrics_url": job.status.metrics_url if job.status else None,
        "notes": job.notes,
        "tables": [_table_json(view) for view in job.tables],
    }
    return json_of(document, orjson.OPT_INDENT_2)


def _table_json(view: TableView) -> dict[str, Any]:
    rows = view.rows
    return {
        "name": view.name,
        "query": view.query_id,
        "topic": view.status.sink_topic,
        "changelog": view.status.changelog,
        "state": view.status.state,
        "batch_id": view.status.batch_id,
        "records_total": view.status.records_total,
        "dropped_late": view.status.dropped_late,
        "dropped_null_key": view.status.dropped_null_key,
        "dead_letters": view.status.dead_letters,
        "input_records": view.status.input_records,
        "warnings": view.status.warnings,
        "rows_total": rows.total if rows else None,
        "rows": [dict(zip(rows.keys, k, strict=True)) | v for k, v in rows.rows] if rows else [],
        "state_partitions": [
            _partition_json(p) | {"lag": view.lag_of(p)} for p in view.status.state_partitions
        ],
    }


def _partition_json(partition: PartitionStatus) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "owner": partition.owner,
        "volume": partition.volume,
        "rows": partition.rows,
        "bytes": partition.bytes,
        "position": partition.position,
        "changelog_end": partition.changelog_end,
        "restore_records": partition.restore_records,
        "restore_bytes": partition.restore_bytes,
        "restore_seconds": partition.restore_seconds,
        "standbys": [asdict(standby) for standby in partition.standbys],
        "snapshot": asdict(partition.snapshot) if partition.snapshot else None,
    }


def render(job: JobView, *, details: bool) -> RenderableType:
    """Everything for a terminal; `details` shows rows and state partitions of each table."""
    parts: list[RenderableType] = [_headline(job)]
    if details:
        for view in job.tables:
            parts += _details(view)
    else:
        parts.append(_summary(job.tables))
    warnings = [f"{view.name}: {text}" for view in job.tables for text in view.status.warnings]
    parts += [Text(f"warning: {text}", style="yellow") for text in warnings]
    parts += [Text(f"note: {note}", style="yellow") for note in job.notes]
    return Group(*parts)


def _headline(job: JobView) -> Text:
    if job.status is None:
        return Text(
            f"{job.application_id}: no status file; the job does not run here. "
            "What follows is from Kafka alone.",
            style="yellow",
        )
    seen = f"last change {human_seconds(job.status.age_seconds())} ago"
    if job.running:
        executors = counted(len(job.status.executors), "executor")
        text = f"{job.application_id}: {job.status.state}, {executors}, {seen}"
        return Text(f"{text}, metrics at {job.status.metrics_url}", style="bold")
    return Text(
        f"{job.application_id}: the driver is not running ({seen}). "
        "Rows are from Kafka, state partitions from its last status.",
        style="yellow",
    )


def _summary(tables: tuple[TableView, ...]) -> Table:
    table = _grid(
        "table", "*rows", "*records", "*late", "*null keys", "*dead letters", "*state bytes", "*lag"
    )
    table.columns[0].no_wrap = True
    for view in tables:
        status = view.status
        held = "" if status.state is QueryState.RUNNING else f" ({status.state})"
        table.add_row(
            f"{view.name}{held}",
            f"{view.rows.total:,}" if view.rows else "?",
            f"{status.records_total:,}",
            f"{status.dropped_late:,}",
            f"{status.dropped_null_key:,}",
            f"{status.dead_letters:,}",
            human_bytes(sum(p.bytes for p in status.state_partitions)),
            f"{view.lag:,}",
        )
    return table


def _details(view: TableView) -> Iterator[RenderableType]:
    if view.status.left_out.total:
        yield Text(f"not in {view.name}: {view.status.left_out}")
    if view.rows is not None:
        yield rows_table(view.name, view.rows)
        left = view.rows.total - len(view.rows.rows)
        if left:
            yield Text(f"… and {left:,} more rows (--limit shows more)", style="dim")
    if view.status.state_partitions:
        yield _partitions(view)
        if view.hides_rows:
            yield Text(_HIDDEN, style="dim")


def rows_table(title: str, rows: TableRows) -> Table:
    """A table's rows, key columns first."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    values = list(dict.fromkeys(name for _, row in rows.rows for name in row))
    for name in rows.keys:
        table.add_column(name, style="cyan", no_wrap=True)
    for name in values:
        numeric = all(isinstance(r.get(name), int | float | None) for _, r in rows.rows)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric)
    for key, row in rows.rows:
        cells = [_key_cell(n, k) for n, k in zip(rows.keys, key, strict=False)]
        cells += [""] * (len(rows.keys) - len(cells))
        table.add_row(*cells, *(_cell(row.get(name)) for name in values))
    return table


def _key_cell(name: str, value: Any) -> str:
    if name == _WINDOW_START and isinstance(value, int):
        return iso_time(value, "auto")
    return _cell(value)


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    return str(value)


def _partitions(view: TableView) -> Table:
    heads = ("*partition", "owner", "volume", "*stored rows", "*bytes", "*position", "*end", "*lag")
    with_standbys = any(p.standbys for p in view.status.state_partitions)
    with_snapshots = any(p.snapshot for p in view.status.state_partitions)
    more = ["standbys"] * with_standbys + ["snapshot"] * with_snapshots
    table = _grid(*heads, *more, "restored")
    table.title = f"state partitions, changelog {view.status.changelog}"
    table.title_justify = "left"
    for p in view.status.state_partitions:
        table.add_row(
            str(p.partition),
            p.owner or "-",
            p.volume or "-",
            f"{p.rows:,}",
            human_bytes(p.bytes),
            f"{p.position:,}",
            f"{p.changelog_end:,}",
            f"{view.lag_of(p):,}",
            *(["\n".join(map(_standby, p.standbys)) or "-"] if with_standbys else []),
            *([_snapshot(p.snapshot, p.position)] if with_snapshots else []),
            _restored(p),
        )
    return table


def _standby(standby: StandbyStatus) -> str:
    """Its volume, and how far it is."""
    if standby.error:
        state = "stopped"
    elif standby.lag < 0:
        state = "restoring"
    else:
        state = f"{standby.lag:,} behind" if standby.lag else "level"
    return f"volume {standby.volume}: {state}"


def _snapshot(snapshot: SnapshotState | None, position: int) -> Text:
    """Its age, its size, how many changelog offsets it lacks, and why there is no newer one."""
    if snapshot is None:
        return Text("-")
    lines = []
    if snapshot.offset >= 0:
        behind = max(0, position - snapshot.offset)
        age = human_seconds(snapshot.age_seconds())
        state = f"{behind:,} behind" if behind else "level"
        lines.append(f"{age} ago, {human_bytes(snapshot.bytes)}, {state}")
    if snapshot.error:
        sentence = _SENTENCE_END.split(snapshot.error, maxsplit=1)[0]
        lines.append(f"failing: {sentence}")
    return Text("\n".join(lines) or "none yet")


def _restored(partition: PartitionStatus) -> str:
    if not partition.restore_seconds:
        return "-"
    size = human_bytes(partition.restore_bytes)
    return f"{partition.restore_records:,} records, {size} in {partition.restore_seconds:.2f} s"


def _grid(*heads: str) -> Table:
    """A table; columns with a leading `*` in their names hold numbers."""
    table = Table(box=SIMPLE_HEAD)
    for head in heads:
        right = head.startswith("*")
        table.add_column(head.removeprefix("*"), justify="right" if right else "left")
    return table
