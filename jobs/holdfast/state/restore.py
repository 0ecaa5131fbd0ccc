"""Restores a store from its changelog: only the tail if possible, otherwise everything.

    store                                                   restore
    ------------------------------------------------------  -------------------------------------
    any, of a changelog that does not start at offset 0     `ChangelogLost`
    empty                                                   everything, from the log start
    same topic, position <= end                             the tail
    same topic, behind, away longer than the tombstones     wipe, then everything
    same topic, position before the log start               wipe, then everything that is left
    other topic, position beyond the end, or another past   `StoreAhead` (see `state.past`)
    level, but with rows that the table has not             wipe, then everything

Compaction does not move the log start.  A changelog whose start has moved has lost records that no
later record replaces, and the next full restore would lack their rows.  Every opening reports it,
also while the store still has all rows.

The changelog holds absolute values and every applied chunk moves the position with it, so an
interrupted restore goes on where it was and a repeated record does no harm.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from holdfast.errors import (
    ChangelogLost,
    DataLoss,
    IncompatibleStatement,
    Refused,
    StoreAhead,
)
from holdfast.state.changelog import DATA_PREFIX, MARKER_KEY, CommitMarker
from holdfast.state.elements import is_element, is_row
from holdfast.state.past import compared, witnessed
from holdfast.state.table_store import NO_ELEMENTS, Elements, StorePosition, TableStore
from holdfast.transport.reader import Chunk

__all__ = [
    "READ_AHEAD",
    "ChangelogReader",
    "LastRows",
    "RestoreProgress",
    "RestoreReport",
    "RowsOf",
    "changelog_rows",
    "restore",
]

_LOG = logging.getLogger(__name__)
_DATA_BYTE = DATA_PREFIX[0]
_CLOCK_SLACK_MS = 60_000  # the clocks of machines may differ by this
_SETTLE_S = 5.0  # after a change of leader the end may lag behind what was committed
_SETTLE_POLL_S = 0.2
_ROWS_PER_LOOKUP = 12  # rows that are counted in the time in which one is looked up
_READ_RECORDS = 10_000  # at a time, so that they stay in the CPU cache until they are in columns
# Client properties: prefetching 5,000 records is as fast as the 20,000 of a batch's readers, and
# takes 10 MB less of a worker.
READ_AHEAD = {"queued.min.messages": "5000"}
_BATCH_BYTES = 32 << 20  # of keys and values, the size at which a batch is complete


class ChangelogReader(Protocol):
    """The part of `holdfast.transport.reader.PartitionReader` that a restore needs."""

    def bounds(self) -> tuple[int, int]:
        """Log start and read_committed end."""

    def read(self, start: int, end: int, chunk_records: int = ...) -> Iterator[Chunk]:
        """Committed records of a range, in chunks."""


class LastRows(NamedTuple):
    """The last row of each state key, the last commit marker, and the last of each element row."""

    rows: dict[bytes, bytes | None]
    marker: CommitMarker | None
    elements: Elements = NO_ELEMENTS


RowsOf = Callable[[Chunk], LastRows]


@dataclass(frozen=True)
class RestoreProgress:
    """A running restore; offsets are changelog offsets, `end` is its target."""

    records: int
    bytes: int
    position: int
    start: int
    end: int
    seconds: float

    @property
    def records_per_s(self) -> float:
        """Records replayed per second so far; 0 at the start."""
        return self.records / self.seconds if self.seconds > 0 else 0.0

    @property
    def fraction(self) -> float:
        """The share of offsets that is done, 0 to 1."""
        span = self.end - self.start
        return (self.position - self.start) / span if span > 0 else 1.0

    @property
    def eta_s(self) -> float | None:
        """Seconds left at the rate so far; None without a rate."""
        done = self.position - self.start
        return self.seconds * (self.end - self.position) / done if done > 0 else None


@dataclass(frozen=True)
class RestoreReport:
    """A finished restore; `full` if it began at the log start; `reason` says why."""

    records: int
    bytes: int
    seconds: float
    full: bool
    reason: str


@dataclass(frozen=True)
class _Plan:
    """The start offset, and the `written_ms` of positions until the store is level."""

    start: int
    end: int
    full: bool
    reason: str
    written_ms: int
    log_start: int = 0


def restore(  # noqa: PLR0913 - each is another owner's fact
    store: TableStore,
    reader: ChangelogReader,
    topic_id: str,
    *,
    now_ms: int,
    delete_retention_ms: int,
    fingerprint: str | None = None,
    batch_records: int,
    progress: Callable[[RestoreProgress], None],
    other_topic: RowsOf | None = None,
    counted: bool = True,
) -> RestoreReport:
    """Brings `store` level with the changelog's end at the time of the call.

    Args:
        store: rows, marker and position to bring level.
        reader: reads the changelog partition; open transactions must have been fenced before.
        topic_id: the changelog topic's current id.
        now_ms: wall-clock time, in ms.
        delete_retention_ms: how long the topic keeps tombstones.
        fingerprint: the fingerprint of the statement that will use the store; None: any.
        batch_records: records per atomic batch, fewer if they are large.
        progress: called after every batch.
        other_topic: how to read a compacted topic that is no changelog of ours: it has no commit
            markers, and if its head is lost, only the rest is restored.
        counted: whether the rows are counted and compared with the last commit marker's number.
            Without it a tail takes a third of the time; the store must be counted before its rows
            are used.

    Raises:
        StoreAhead: the topic was replaced; wipe the store and restore again.
        ChangelogLost: its first records, or some during the restore, were deleted.
        IncompatibleStatement: the last rows belong to another statement.
        Refused: the changelog holds records that are not Holdfast's.
        KafkaUnavailable: no broker answered; applied records stay.
    """
    whole = other_topic is None
    plan = _plan(store, reader, topic_id, (now_ms, delete_retention_ms), whole=whole)
    told = _Told(fingerprint, batch_records, progress, other_topic or changelog_rows, counted)
    done = _replayed(store, reader, topic_id, plan, told, now_ms)
    if counted and (wrong := _wrong_count(store)):
        _LOG.error("A store of changelog topic id %s %s", topic_id, wrong)
        if not plan.full:
            again = _Plan(plan.log_start, plan.end, True, f"the store {wrong}", now_ms)
            done = _replayed(store, reader, topic_id, again, told, now_ms)
    _check_fingerprint(store, fingerprint)
    return done


@dataclass(frozen=True)
class _Told:
    """The caller's arguments of a restore."""

    fingerprint: str | None
    batch_records: int
    progress: Callable[[RestoreProgress], None]
    rows_of: RowsOf
    counted: bool


def _replayed(
    store: TableStore,
    reader: ChangelogReader,
    topic_id: str,
    plan: _Plan,
    told: _Told,
    now_ms: int,
) -> RestoreReport:
    records = min(told.batch_records, _READ_RECORDS)
    try:
        if plan.full:
            if store.position is not None:
                store.wipe()
            read = reader.read(plan.start, plan.end, records)
        else:
            differs, read = compared(store, reader, (plan.log_start, plan.end), records)
            if differs:
                raise _ahead(f"has another history than the changelog: {differs}")
        replay = _Replay(store, topic_id, plan, told)
        for chunk, size in _gathered(read, told.batch_records):
            replay.apply(chunk, size)
            told.progress(replay.progress())
    except DataLoss as error:
        raise _lost(f"it was truncated or recreated during the restore ({error.fact})") from error
    replay.finish(now_ms)
    done = replay.progress()
    return RestoreReport(done.records, done.bytes, done.seconds, plan.full, plan.reason)


def _wrong_count(store: TableStore) -> str:
    """How a level store's row count differs from that of its last commit marker.

    A replay sets every row in the log, so surplus rows are those whose tombstone was removed before
    the store read it, whatever clocks and settings were.
    """
    wanted = store.marker.rows if store.marker is not None else -1
    found = store.count()
    return "" if wanted in (-1, found) else f"has {found} rows, its last commit left {wanted}"


def _plan(
    store: TableStore,
    reader: ChangelogReader,
    topic_id: str,
    times: tuple[int, int],
    *,
    whole: bool,
) -> _Plan:
    """`times`: now, and the retention of tombstones; `whole`: the log must be complete."""
    (now_ms, delete_retention_ms), position = times, store.position
    comparable = position is not None and position.topic_id == topic_id
    start, end = _settled(reader, position.offset if position is not None and comparable else 0)
    if start > 0 and whole:
        raise _lost(f"it starts at offset {start}, not 0: its first records were deleted")
    if position is None:
        return _Plan(start, end, True, "the store is empty", now_ms)
    if not comparable:
        raise _ahead(f"follows topic id {position.topic_id}, the topic now has id {topic_id}")
    if position.offset > end:
        raise _ahead(f"is at offset {position.offset}, the changelog ends at {end}")
    if position.offset < start:
        reason = f"it starts at offset {start}, the store is at {position.offset}"
        return _Plan(start, end, True, reason, now_ms)
    away_ms = now_ms - position.written_ms
    if position.offset < end and away_ms < -_CLOCK_SLACK_MS and not _tells_rows(store):
        reason = f"the store was level {-away_ms} ms in the future, so the clock proves nothing"
        return _Plan(start, end, True, reason, now_ms)
    if position.offset < end and away_ms > delete_retention_ms:
        reason = (
            f"the store was away for {away_ms} ms, tombstones are kept for {delete_retention_ms} ms"
        )
        return _Plan(start, end, True, reason, now_ms)
    reason = "the changelog's tail" if store.counted else "continuing an unfinished restore"
    return _Plan(position.offset, end, False, reason, position.written_ms, start)


def _tells_rows(store: TableStore) -> bool:
    return store.marker is not None and store.marker.rows >= 0


def _settled(reader: ChangelogReader, offset: int) -> tuple[int, int]:
    """The bounds once the end has reached `offset`, or after `_SETTLE_S`."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        start, end = reader.bounds()
        if end >= offset or time.monotonic() >= deadline:
            return start, end
        time.sleep(_SETTLE_POLL_S)


class _Replay:
    """Applies chunks in order; owns the counts of one restore."""

    def __init__(
        self,
        store: TableStore,
        topic_id: str,
        plan: _Plan,
        told: _Told,
    ) -> None:
        old = store.position
        self._rows_of = told.rows_of
        self._store = store
        self._plan = plan
        self._began = time.monotonic()
        self._records = 0
        self._bytes = 0
        # Bulk loading reads no old rows, so an unfinished one has no row count either.
        self._bulk = plan.full or not store.counted
        if self._bulk:
            store.begin_load()
        fresh = StorePosition(topic_id, plan.start, plan.written_ms, told.fingerprint or "")
        self._position = old if old is not None else fresh
        # Either each record looks up whether its row is new, or all rows are counted at the end.
        few = (plan.end - plan.start) * _ROWS_PER_LOOKUP <= store.known_rows
        self._lookups = told.counted and few

    def apply(self, chunk: Chunk, size: int) -> None:
        """Writes one chunk of `size` bytes and the position after it in one batch."""
        rows, marker, elements = self._rows_of(chunk)
        self._position = witnessed(self._position, chunk)
        self._move(max(chunk.position, self._position.offset), self._plan.written_ms, marker)
        # Every transaction wrote its keys in order, so sorting merges runs; the store writes
        # sorted keys twice as fast.
        keys = sorted(rows)
        values = list(map(rows.__getitem__, keys))
        elements = {key: elements[key] for key in sorted(elements)}
        if self._bulk:
            self._store.load(
                keys, values, position=self._position, marker=marker, elements=elements
            )
        else:
            self._store.replay(
                keys, values, position=self._position, marker=marker, count=self._lookups,
                elements=elements,
            )  # fmt: skip
        self._records += len(chunk)
        self._bytes += size

    def finish(self, now_ms: int) -> None:
        """Moves the position to the end, beyond any control records, and counts the rows."""
        self._move(max(self._plan.end, self._position.offset), now_ms, None)
        if self._bulk:
            self._store.load([], [], position=self._position, marker=None)
            self._store.end_load()
        else:
            self._store.replay([], [], position=self._position, marker=None)

    def progress(self) -> RestoreProgress:
        return RestoreProgress(
            self._records,
            self._bytes,
            self._position.offset,
            self._plan.start,
            self._plan.end,
            time.monotonic() - self._began,
        )

    def _move(self, offset: int, written_ms: int, marker: CommitMarker | None) -> None:
        fingerprint = self._position.fingerprint if marker is None else marker.fingerprint
        self._position = replace(
            self._position, offset=offset, written_ms=written_ms, fingerprint=fingerprint
        )


def _gathered(chunks: Iterator[Chunk], records: int) -> Iterator[tuple[Chunk, int]]:
    """Joins chunks to so many records, or `_BATCH_BYTES`; yields each with its size in bytes.

    Only the last row of a key within a joined chunk is written.
    """
    for held in chunks:
        size = _size(held.keys) + _size(held.values)
        while len(held) < records and size < _BATCH_BYTES:
            more = next(chunks, None)
            if more is None:
                break
            held.append(more)
            size += _size(more.keys) + _size(more.values)
        yield held, size


def changelog_rows(chunk: Chunk) -> LastRows:
    """The last row of each state key, the last commit marker and the element rows of a chunk.

    Raises:
        Refused: the chunk holds records that are not Holdfast's.
    """
    last = dict(zip(chunk.keys, chunk.values, strict=True))
    marker = last.pop(MARKER_KEY, b"")
    rows = {key[1:]: value for key, value in last.items() if key and key[0] == _DATA_BYTE}
    if marker is None:
        raise _foreign(chunk, MARKER_KEY)
    elements = NO_ELEMENTS
    if len(rows) < len(last):
        elements = {k: value for k, value in last.items() if k and is_element(k)}
    if len(rows) + len(elements) < len(last):
        raise _foreign(chunk, next(key for key in last if not is_row(key)))
    return LastRows(rows, CommitMarker.from_bytes(marker) if marker else None, elements)


def _check_fingerprint(store: TableStore, fingerprint: str | None) -> None:
    position = store.position
    found = position.fingerprint if position is not None else ""
    if fingerprint is None or not found or found == fingerprint:
        return
    canonical = store.marker.canonical if store.marker is not None else "unknown"
    raise IncompatibleStatement(
        f"The rows belong to a statement with fingerprint {found}, not {fingerprint}: {canonical}",
        cause="GROUP BY, WHERE, the window, an aggregate or the source of the statement changed.",
        action="give the changed table a new name or application.id, or undo the change.",
    )


def _size(data: Sequence[bytes | None]) -> int:
    return sum(map(len, filter(None, data)))


def _foreign(chunk: Chunk, key: bytes | None) -> Refused:
    before = chunk.offsets[0] if chunk.offsets else chunk.position
    return Refused(
        f"The changelog holds a record with key {key!r} between offsets {before} and "
        f"{chunk.position} that Holdfast did not write.",
        cause="another program writes to the topic.",
        action="take its right to write away, delete the record by compaction, or use a new "
        "application.id.",
    )


def _ahead(how: str) -> StoreAhead:
    return StoreAhead(
        f"The store {how}.",
        cause="the changelog topic was deleted and recreated, or truncated.",
        action="wipe the store and restore it from the changelog as it is now.",
    )


def _lost(how: str) -> ChangelogLost:
    return ChangelogLost(
        f"The changelog lost records: {how}.",
        cause="records were deleted by hand, by a retention setting, or with the topic.",
        action="restore the topic from a backup; or stop the job, delete the topic and set "
        "on.changelog.loss=rebuild to compute the table again from the source's earliest records.",
    )
