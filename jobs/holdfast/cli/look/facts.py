"""Data for `holdfast inspect`, from Kafka and from the driver's last status."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from holdfast.errors import HoldfastError, InvalidStatement, Refused
from holdfast.ingest.formats.as_json import AsJson
from holdfast.judge.read.decode import SinkDecoder
from holdfast.judge.read.observe import Observer
from holdfast.local.processes import is_running
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.topology import AggregateStep, Query, WindowKind
from holdfast.types.status import JobStatus, PartitionStatus, QueryStatus
from holdfast.types.words import nearest

__all__ = [
    "JobView",
    "TableRows",
    "TableView",
    "find_status",
    "gather",
    "read_rows",
    "read_values",
    "table_views",
    "the_table",
]

_NEWEST_MS = 4_102_444_800_000  # the year 2100: a guessed window start lies before it
_COUNTED_MAX = 1_000  # offsets of lag
_ALL = 2**63 - 1
_WINDOW = struct.Struct(">q")


@dataclass(frozen=True)
class TableRows:
    """The rows of a table, from its sink topic.

    Attributes:
        keys: names of the key columns, then `window start` for a windowed table.
        rows: (key, value columns by name), sorted by key, at most `limit`.
        total: number of live keys.
    """

    keys: tuple[str, ...]
    rows: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]
    total: int


@dataclass(frozen=True)
class TableView:
    """One table or stream; `query` is None when no SQL file was given.

    `schemas`: the registry of formats that have one.
    """

    name: str
    query_id: str
    status: QueryStatus
    query: Query | None = None
    rows: TableRows | None = None
    lags: Mapping[int, int] = field(default_factory=dict)
    schemas: Schemas | None = field(default=None, repr=False, compare=False)

    def lag_of(self, partition: PartitionStatus) -> int:
        """The store's lag in changelog records if they were counted, else in offsets."""
        return self.lags.get(partition.partition, partition.lag)

    @property
    def lag(self) -> int:
        """The lag summed over all state partitions."""
        return sum(map(self.lag_of, self.status.state_partitions))

    @property
    def hides_rows(self) -> bool:
        """Whether HAVING keeps groups out of the table whose rows are stored."""
        step = self.query.step if self.query else None
        return isinstance(step, AggregateStep) and step.having is not None


@dataclass(frozen=True)
class JobView:
    """A job: its last status, whether its driver runs, and why further data is missing."""

    application_id: str
    status: JobStatus | None
    running: bool
    tables: tuple[TableView, ...]
    notes: tuple[str, ...] = ()


def find_status(home: Path, application_id: str | None) -> JobStatus | None:
    """The status of the job; without an id of the one that wrote last, running ones first."""
    if application_id is not None:
        return JobStatus.read(home / "run" / application_id / "status.json")
    found = [JobStatus.read(path) for path in (home / "run").glob("*/status.json")]
    known = [status for status in found if status is not None]
    return max(known, key=lambda s: (is_running(s), s.updated_ms), default=None)


def table_views(
    queries: Sequence[Query], status: JobStatus | None, schemas: Schemas | None = None
) -> list[TableView]:
    """All tables of the file, then the other tables of the status."""
    known = dict(status.queries) if status else {}
    views = []
    for query in queries:
        empty = QueryStatus(query.sink.name, query.sink.topic)
        views.append(
            TableView(query.sink.name, query.id, known.pop(query.id, empty), query, schemas=schemas)
        )
    return views + [TableView(told.sink, query_id, told) for query_id, told in known.items()]


def the_table(views: Sequence[TableView], wanted: str) -> TableView:
    """The table named `wanted`, ignoring case.

    Raises:
        InvalidStatement: it does not exist; suggests the nearest name.
    """
    names = {v.name.upper(): v for v in views}
    exact = next((v for v in views if v.name == wanted), names.get(wanted.upper()))
    if exact is not None:
        return exact
    near = nearest(wanted, [v.name for v in views], cutoff=0.5)
    known = ", ".join(sorted(v.name for v in views)) or "none at all"
    hint = f"did you mean {near}? " if near else ""
    raise InvalidStatement(f"There is no table {wanted}.", action=f"{hint}Known are: {known}.")


def with_changelog_ends(view: TableView, observer: Observer) -> TableView:
    """The view with the changelog's current end in Kafka, and lags in records."""
    changelog = view.status.changelog
    if not changelog or not observer.exists(changelog):
        return view
    bounds = observer.bounds(changelog)
    known = {p.partition: p for p in view.status.state_partitions}
    partitions = tuple(
        replace(known.get(p, PartitionStatus(p)), changelog_end=end)
        for p, (_, end) in sorted(bounds.items())
    )
    status = replace(view.status, state_partitions=partitions)
    return replace(view, status=status, lags=_lags(changelog, partitions, observer))


def _lags(
    changelog: str, partitions: Sequence[PartitionStatus], observer: Observer
) -> dict[int, int]:
    """Lags in records, where few enough offsets have to be read: markers take offsets as well."""
    near = {
        p.partition: (p.position, p.changelog_end) for p in partitions if 0 < p.lag <= _COUNTED_MAX
    }
    found = dict.fromkeys(near, 0)
    for record in observer.records(changelog, near):
        found[record.partition] += 1
    return found


def read_rows(view: TableView, observer: Observer, limit: int) -> TableRows:
    """Read the sink topic and keep the last value of each key.

    Raises:
        HoldfastError: the topic cannot be read.
    """
    topic = view.status.sink_topic
    last: dict[tuple[int, bytes | None], bytes] = {}
    stream = view.query is not None and view.query.sink.kind == "STREAM"
    for number, record in enumerate(observer.records(topic, observer.bounds(topic))):
        # A stream's records do not replace each other: each is a row.
        place = (number if stream or not record.key else record.partition, record.key)
        last.pop(place, None)
        if record.value is not None:
            last[place] = record.value
    return _decoded(view, last, limit)


def read_values(
    queries: Sequence[Query],
    observer: Observer,
    names: Collection[str],
    schemas: Schemas | None = None,
) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """Value columns of the named tables: by table, then by key and the start of its window.

    Args:
        schemas: the registry of formats that have one.
    """
    found = {}
    for view in table_views([q for q in queries if q.sink.name in names], None):
        rows = read_rows(replace(view, schemas=schemas), observer, _ALL)
        found[view.name] = dict(rows.rows)
    return found


def _decoded(view: TableView, last: dict[tuple[int, bytes | None], bytes], limit: int) -> TableRows:
    names, read_key, read_row = _readers(view)
    if not limit:
        return TableRows(names, (), len(last))
    rows = [(read_key(key), read_row(value)) for (_, key), value in last.items()]
    rows.sort(key=lambda row: tuple((v is None, str(type(v)), v) for v in row[0]))
    if not names and rows:
        names = ("key", "window start")[: len(rows[0][0])]
    return TableRows(names, tuple(rows[:limit]), len(rows))


def _readers(view: TableView) -> Any:
    """(key names, bytes -> key, bytes -> value columns), by the schema if it is known."""
    query = view.query
    if query is None:
        return (), _guess_key, _object
    sink = query.sink
    windowed, sessions = sink.window is not None, sink.window is WindowKind.SESSION
    plain = AsJson(sink, view.schemas)
    decoder = SinkDecoder(
        sink.key_columns, sink.value_columns, plain.formats, windowed=windowed, sessions=sessions
    )
    names = tuple(c.name for c in sink.key_columns) + (("window start",) if windowed else ())
    return names, lambda k: decoder.key(plain.key(k)), lambda v: decoder.row(plain.value(v))


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {"value": data.decode(errors="replace")}
    return found if isinstance(found, dict) else {"value": found}


def _guess_key(data: bytes | None) -> tuple[Any, ...]:
    """A key decoded without a schema: text, text and window start, a number, or hexadecimal."""
    if not data:
        return ()
    if data.isascii() and data.decode().isprintable():
        return (data.decode(),)
    head, tail = data[:-8], data[-8:]
    if head and len(tail) == _WINDOW.size and 0 <= _WINDOW.unpack(tail)[0] < _NEWEST_MS:
        return (head.decode(errors="replace"), _WINDOW.unpack(tail)[0])
    if len(data) in (4, 8):
        return (int.from_bytes(data, "big", signed=True),)
    try:
        return (data.decode(),)
    except UnicodeDecodeError:
        return (data.hex(),)


def gather(
    queries: Sequence[Query],
    status: JobStatus | None,
    observer: Observer,
    *,
    application_id: str,
    table: str | None,
    limit: int,
    schemas: Schemas | None = None,
) -> JobView:
    """Everything to show: one table with its rows, or all tables without.

    Raises:
        InvalidStatement: there is no such table.
        Refused: nothing is known of the job.
    """
    views = table_views(queries, status, schemas)
    if not views:
        raise Refused(
            f"Nothing is known of the job {application_id}.",
            cause="it never ran with this --home, or another --application-id names it.",
            action="give its SQL file, or the --home and --application-id it ran with.",
        )
    chosen = [the_table(views, table)] if table is not None else views
    notes = []
    shown = []
    for view in chosen:
        try:
            full = with_changelog_ends(view, observer)
            rows = read_rows(full, observer, limit if table is not None else 0)
            shown.append(replace(full, rows=rows))
        except HoldfastError as error:
            shown.append(view)
            notes.append(f"{view.name}: {error.fact}")
    running = status is not None and is_running(status)
    return JobView(application_id, status, running, tuple(shown), tuple(notes))
