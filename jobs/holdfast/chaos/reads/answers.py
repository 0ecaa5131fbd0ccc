"""The answers of query servers in a run, and their tables' true rows at the reported positions.

None of the servers' code is used: the states are folded from the changelog, record by record.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.chaos.history.events import Event, Kind
from holdfast.chaos.reads.table_rows import AskedTable, TableRows, Window
from holdfast.judge.read.arrivals import Batches
from holdfast.judge.read.observe import Observer, Record

__all__ = ["READ", "Read", "States", "reads_of", "tables_read"]

READ = "read"  # kind of operation in a history
_MARKER = b"\x00"  # first byte of a commit marker's key

Key = tuple[Any, ...]
Rows = dict[Window, dict[str, Any]]


@dataclass(frozen=True)
class Read:
    """One pull query by key, as its session recorded it.

    Attributes:
        op: its number within the session.
        start: start of the requested window, ms; None: all of the key's windows.
        at_s: when it was sent, wall seconds; `took_s`: the time until its answer or its failure.
        rows: None: it failed, with `reason`.
        positions: by state partition; `servers` likewise: the server that had the rows.
    """

    session: str
    op: int
    table: str
    key: Key
    at_s: float
    took_s: float
    start: int | None = None
    rows: Sequence[Mapping[str, Any]] | None = None
    positions: Mapping[int, int] = field(default_factory=dict)
    servers: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def end_s(self) -> float:
        return self.at_s + self.took_s


def reads_of(events: Iterable[Event]) -> list[Read]:
    """The reads that have ended, each session's in the order in which they were sent."""
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
        start=asked.data.get("start"),
        rows=data["rows"] if ended.kind is Kind.OK else None,
        positions={int(p): int(at) for p, at in data.get("positions", {}).items()},
        servers={int(p): str(server) for p, server in data.get("servers", {}).items()},
        reason=str(data.get("reason", "")),
    )


@dataclass
class _Versions:
    """All readable records of one key and window.

    Attributes:
        first: the first record of all, readable or not.
    """

    first: Record
    offsets: array[int] = field(default_factory=lambda: array("q"))
    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        self.offsets.append(record.offset)
        self.records.append(record)

    def before(self, offset: int) -> Record | None:
        """The last record before an offset; None when there was none."""
        count = bisect_left(self.offsets, offset)
        return self.records[count - 1] if count else None


@dataclass
class _Log:
    """The records seen of one partition.

    Attributes:
        markers: offsets of commit markers.
        whole_from: from here on no record was compacted away.  The log cleaner leaves one record
            per key in the part it has cleaned, so it has not been where a key repeats.
    """

    offsets: array[int] = field(default_factory=lambda: array("q"))
    markers: set[int] = field(default_factory=set)
    whole_from: int | None = None
    _keys: set[bytes] = field(default_factory=set)

    def add(self, key: bytes | None, offset: int) -> None:
        self.offsets.append(offset)
        if self.whole_from is None and key is not None:
            if key in self._keys:
                self.whole_from = offset
                self._keys.clear()
            self._keys.add(key)


@dataclass
class States:
    """Every state of some keys of a table.  Feed it the records of the topic that servers follow,
    each partition in offset order.

    Attributes:
        wanted: the keys that are kept.
        ends: of the partitions; no server can be further than these.
        may_lack: an answer may rightly leave out rows (HAVING).
        cut: the oldest records were deleted; `compacted`: others may have been compacted away.
        batches: the commit markers' batches; `broken` in them: older changelog records are gone.
        rows_seen: number of records that are rows, of all keys.
    """

    rows: TableRows
    wanted: frozenset[Key]
    ends: Mapping[int, int]
    may_lack: bool = False
    cut: bool = False
    compacted: bool = False
    batches: Batches = field(default_factory=Batches)
    rows_seen: int = 0
    _logs: dict[int, _Log] = field(default_factory=dict)
    _states: dict[Key, dict[tuple[int, Window], _Versions]] = field(default_factory=dict)

    def update(self, record: Record) -> None:
        """Takes in the next record.

        Raises:
            ValueError, struct.error: a malformed key or commit marker.
        """
        log = self._logs.setdefault(record.partition, _Log())
        log.add(record.key, record.offset)
        if record.key is None:
            return
        if self.rows.marked and record.key.startswith(_MARKER):
            if record.value is not None:
                log.markers.add(record.offset)
                self.batches.add(record.partition, orjson.loads(record.value))
        elif (found := self.rows.key(record.key)) is not None:
            self.rows_seen += record.value is not None
            key, window = found
            if key in self.wanted:
                windows = self._states.setdefault(key, {})
                versions = windows.setdefault((record.partition, window), _Versions(record))
                if self._readable(record):
                    versions.add(record)

    def _readable(self, record: Record) -> bool:
        """Whether a record changes the table.  As in Kafka Streams, a value that cannot be decoded
        leaves the key's row as it was; a changelog has no such value.
        """
        if self.rows.marked or record.key is None or record.value is None:
            return True
        return self.rows.row(record.key, record.value, record.timestamp_ms) is not None

    def homes(self, key: Key) -> list[int]:
        """The partitions in which the key was ever seen."""
        return sorted({partition for partition, _ in self._states.get(key, {})})

    def between(self, partition: int, position: int) -> bool:
        """Whether all records before a position are whole transactions, each ended by a marker."""
        log = self._logs.get(partition, _Log())
        before = bisect_left(log.offsets, position)
        whole = not self.rows.marked or before == 0 or log.offsets[before - 1] in log.markers
        return whole and position <= self.ends.get(partition, 0)

    def at(self, read: Read) -> Rows:
        """The requested rows when exactly the records before the read's positions were applied.

        Raises:
            struct.error: a row in another layout.
        """
        found: Rows = {}
        for (_, window), (versions, position) in self._asked(read).items():
            record = versions.before(position)
            if record is not None and record.key is not None and record.value is not None:
                row = self.rows.row(record.key, record.value, record.timestamp_ms)
                if row is not None:
                    found[window] = row
        return found

    def unsure(self, read: Read) -> bool:
        """Whether records may be missing that the read could have seen.

        The log cleaner leaves the last record of each key.  So no record is missing between a
        record that is left and the next one of its key; before the first one, records may be
        missing.
        """
        if self.rows.marked or self.rows.doubtful:
            return self.rows.doubtful or bool(self.batches.broken)
        found = self._asked(read)
        return self.compacted and (
            not found or any(v.before(at) is None and self._cleaned(v) for v, at in found.values())
        )

    def _cleaned(self, versions: _Versions) -> bool:
        """Whether records may have been cleaned away before the first one."""
        first = versions.first
        whole_from = self._logs[first.partition].whole_from
        return self.cut or whole_from is None or first.offset < whole_from

    def differences(self, read: Read) -> str:
        """Why an answer is not a state that the table had, in words; empty when it is one."""
        homes = self.homes(read.key)
        if not homes:
            return f"answered {list(read.rows or ())}, the changelog never had the key"
        for home in homes:
            if home not in read.positions:
                return f"no position of state partition {home} is told"
            if not self.between(home, read.positions[home]):
                where = f"at position {read.positions[home]} of state partition {home}"
                return f"{where}, which is not between two transactions of the changelog"
        places = " and ".join(f"{read.positions[p]} of state partition {p}" for p in homes)
        return self._compared(read, f"at position {places}")

    def _compared(self, read: Read, where: str) -> str:
        try:
            had = self.at(read)
        except struct.error as error:
            return f"{where} the changelog has no row that can be read: {error}"
        rows = read.rows or ()
        told: dict[tuple[Any, ...], Mapping[str, Any]]
        told = {tuple(row.get(bound) for bound in self.rows.bounds): row for row in rows}
        known = {w: {n: row.get(n) for n in self.rows.columns} for w, row in told.items()}
        lacks = [] if self.may_lack else [window for window in had if window not in told]
        twice = len(rows) > len(told)
        if lacks or twice or any(had.get(window) != row for window, row in known.items()):
            return f"{where} answered {known}, the table had {had}"
        return ""

    def _asked(self, read: Read) -> dict[tuple[int, Window], tuple[_Versions, int]]:
        """For each requested window, all its records and the read's position in their partition."""
        return {
            (partition, window): (versions, read.positions.get(partition, 0))
            for (partition, window), versions in self._states.get(read.key, {}).items()
            if read.start is None or window[:1] == (read.start,)
        }


def tables_read(
    reads: Sequence[Read],
    tables: Mapping[str, AskedTable],
    observer: Observer,
) -> dict[str, States]:
    """The states of every table that was read, folded from the topic that its servers follow.

    Raises:
        KafkaUnavailable, TopicMissing: the topic cannot be read.
    """
    found = {}
    for name, table in tables.items():
        wanted = frozenset(read.key for read in reads if read.table == name)
        topic = table.topic(observer)
        bounds = observer.bounds(topic)
        cut = any(start for start, _ in bounds.values())
        states = found[name] = States(
            table.rows,
            wanted,
            {partition: end for partition, (_, end) in bounds.items()},
            table.may_lack,
            cut=cut,
            compacted=cut or observer.compacted(topic),
        )
        for record in observer.records(topic, bounds):
            states.update(record)
    return found
