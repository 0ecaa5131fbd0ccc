"""What query servers answered during a run, and what their tables had at the positions they told.

Nothing here is the servers' code: the states are folded from the changelog, record by record.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.chaos.arrivals import Batches
from holdfast.chaos.history import Event, Kind
from holdfast.chaos.observe import Observer, marker_topic
from holdfast.chaos.state_rows import StateRows
from holdfast.chaos.units import units
from holdfast.types.topology import AggregateStep, Query, Topology

__all__ = [
    "READ",
    "WINDOWSTART",
    "Read",
    "States",
    "readable",
    "reads_of",
    "tables_read",
]

READ, WINDOWSTART = "read", "WINDOWSTART"  # kind of operation in a history; name of a column
_MARKER, _ROW = b"\x00", b"\x01"  # first byte of a changelog key

Key = tuple[Any, ...]
Rows = dict[int | None, dict[str, Any]]  # by start of the window, None without one


@dataclass(frozen=True)
class Read:
    """One pull query by key, as its session wrote it down.

    Attributes:
        op: its number within the session.
        at_s: when it was asked, wall seconds; `took_s` until its answer or its failure.
        rows: None: it failed, with `reason`.
        positions: by state partition; `servers` likewise, who had the rows.
    """

    session: str
    op: int
    table: str
    key: Key
    at_s: float
    took_s: float
    rows: Sequence[Mapping[str, Any]] | None = None
    positions: Mapping[int, int] = field(default_factory=dict)
    servers: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def end_s(self) -> float:
        return self.at_s + self.took_s


def reads_of(events: Iterable[Event]) -> list[Read]:
    """The reads that have ended, each session's in the order in which they were asked."""
    asked: dict[tuple[str, int], Event] = {}
    found = []
    for event in events:
        if event.what == READ and event.kind is Kind.INVOKE:
            asked[event.source, event.op] = event
        elif event.what == READ and (event.source, event.op) in asked:
            found.append(_read(asked.pop((event.source, event.op)), event))
    return sorted(found, key=lambda read: (read.session, read.op))


def _read(asked: Event, ended: Event) -> Read:
    data = ended.data
    return Read(
        session=asked.source,
        op=asked.op,
        table=str(asked.data["table"]),
        key=tuple(asked.data["key"]),
        at_s=asked.wall_s,
        took_s=ended.monotonic_s - asked.monotonic_s,
        rows=data["rows"] if ended.kind is Kind.OK else None,
        positions={int(p): int(at) for p, at in data.get("positions", {}).items()},
        servers={int(p): str(server) for p, server in data.get("servers", {}).items()},
        reason=str(data.get("reason", "")),
    )


def readable(topology: Topology) -> dict[str, tuple[Query, StateRows]]:
    """The tables whose states can be told from a changelog by position, by name."""
    found = {}
    for unit in units(topology):
        query = unit.plain
        if query is not None and (rows := StateRows.of(query)) is not None:
            found[unit.sink.name] = query, rows
    return found


@dataclass
class _Versions:
    """All rows that one key and window ever had, None where it had gone."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    rows: list[bytes | None] = field(default_factory=list)

    def add(self, offset: int, row: bytes | None) -> None:
        self.offsets.append(offset)
        self.rows.append(row)

    def before(self, offset: int) -> bytes | None:
        """The last one before an offset; None when there was none."""
        count = bisect_left(self.offsets, offset)
        return self.rows[count - 1] if count else None


@dataclass
class States:
    """Every state of some keys of a table.  Feed it the changelog, each partition in offset order.

    Attributes:
        wanted: the keys that are kept.
        ends: of the changelog's partitions; no server can be further.
        may_lack: rows may rightly be left out of an answer (HAVING).
        batches: tell by their `broken` that older records are gone, compacted away.
    """

    rows: StateRows
    wanted: frozenset[Key]
    ends: Mapping[int, int]
    may_lack: bool = False
    batches: Batches = field(default_factory=Batches)
    homes: dict[Key, int] = field(default_factory=dict)
    _offsets: dict[int, array[int]] = field(default_factory=dict)
    _markers: dict[int, set[int]] = field(default_factory=dict)
    _states: dict[Key, dict[int | None, _Versions]] = field(default_factory=dict)

    def update(self, partition: int, key: bytes | None, value: bytes | None, offset: int) -> None:
        """One record of the changelog.

        Raises:
            ValueError, struct.error: a key or a commit marker that is none.
        """
        self._offsets.setdefault(partition, array("q")).append(offset)
        if key is not None and key.startswith(_MARKER) and value is not None:
            self._markers.setdefault(partition, set()).add(offset)
            self.batches.add(partition, orjson.loads(value))
        elif key is not None and key.startswith(_ROW):
            columns, start = self.rows.key(key[len(_ROW) :])
            if columns in self.wanted:
                self.homes[columns] = partition
                by_window = self._states.setdefault(columns, {})
                by_window.setdefault(start, _Versions()).add(offset, value)

    def between(self, partition: int, position: int) -> bool:
        """Is everything before a position whole transactions?  The last of each is a marker."""
        offsets = self._offsets.get(partition, array("q"))
        before = bisect_left(offsets, position)
        whole = before == 0 or offsets[before - 1] in self._markers.get(partition, set())
        return whole and position <= self.ends.get(partition, 0)

    def at(self, key: Key, position: int) -> Rows:
        """The key's rows when everything before the position was in, and nothing else.

        Raises:
            struct.error: a row of another layout.
        """
        found = {start: v.before(position) for start, v in self._states.get(key, {}).items()}
        return {start: self.rows.row(row) for start, row in found.items() if row is not None}

    def differences(self, read: Read) -> str:
        """Why an answer is no state that the table had, in words; empty when it is one."""
        home = self.homes.get(read.key)
        if home is None:
            return f"answered {list(read.rows or ())}, the changelog never had the key"
        if home not in read.positions:
            return f"no position of state partition {home} is told"
        position = read.positions[home]
        where = f"at position {position} of state partition {home}"
        if not self.between(home, position):
            return f"{where}, which is not between two transactions of the changelog"
        try:
            had = self.at(read.key, position)
        except struct.error as error:
            return f"{where} the changelog has no row that can be read: {error}"
        told = {row.get(WINDOWSTART): _known(row, self.rows) for row in read.rows or ()}
        lacks = [] if self.may_lack else [start for start in had if start not in told]
        if lacks or any(had.get(start) != row for start, row in told.items()):
            return f"{where} answered {told}, the table had {had}"
        return ""


def tables_read(
    reads: Sequence[Read], topology: Topology, application_id: str, observer: Observer
) -> dict[str, States]:
    """The states of every table that could be read, folded from its changelog as it is now.

    Raises:
        KafkaUnavailable, TopicMissing: a changelog cannot be read.
    """
    found = {}
    for name, (query, rows) in readable(topology).items():
        wanted = frozenset(read.key for read in reads if read.table == name)
        assert isinstance(query.step, AggregateStep), "only tables are readable"
        topic = marker_topic(application_id, query)
        bounds = observer.bounds(topic) if wanted else {}
        ends = {partition: end for partition, (_, end) in bounds.items()}
        states = found[name] = States(rows, wanted, ends, query.step.having is not None)
        for record in observer.records(topic, bounds):
            states.update(record.partition, record.key, record.value, record.offset)
    return found


def _known(row: Mapping[str, Any], rows: StateRows) -> dict[str, Any]:
    return {name: row.get(name) for name in rows.columns}
