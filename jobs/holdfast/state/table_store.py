"""Tables over a key-value store: rows, window index, position, marker and row count."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import cast

from holdfast.errors import StoreCorrupted
from holdfast.state.changelog import DATA_PREFIX, CommitMarker, data_keys
from holdfast.state.elements import ELEMENT_PREFIX, element_head, elements_after
from holdfast.state.segments import Segments
from holdfast.state.store import Found, KeyValueStore
from holdfast.state.times import by_time, ordered
from holdfast.types.columns.byte_columns import Parts, joined
from holdfast.types.ids import state_name

__all__ = [
    "NO_ELEMENTS",
    "POSITION_KEY",
    "Elements",
    "StorePosition",
    "StoreStats",
    "TableStore",
    "owner_of",
    "read_position",
    "store_name",
]

_DATA = DATA_PREFIX
_DATA_END = bytes([_DATA[0] + 1])
_ELEMENTS_END = bytes([ELEMENT_PREFIX[0] + 1])
_INDEX = b"w"
_META = b"m"
_LAYOUT_KEY = _META + b"layout"
POSITION_KEY = _META + b"position"
_ROWS_KEY = _META + b"rows"
_MARKER_KEY = _META + b"marker"
_ENTRIES_KEY = _META + b"entries"
_LAYOUT = b"3"
_SEGMENTED = b"4"
# For 100,000 keys in one call RocksDB allocates 40 MB of fresh pages.
_AT_ONCE = 1_000
_LONG_AGO_MS = -(1 << 62)
_UNCOUNTED = -1  # a full restore is not finished
_CHANGED = -2  # rows have come or gone since they were counted

# Element rows by their keys (`state.elements`); None deletes.
Elements = Mapping[bytes, "bytes | None"]
NO_ELEMENTS: Elements = {}


@dataclass(frozen=True)
class StorePosition:
    """The position of a store in its changelog.

    Attributes:
        topic_id: the changelog topic's id; a recreated topic has another.
        offset: the next changelog offset to replay.
        written_ms: when the store was last level with the changelog, in wall-clock ms; the store
            has seen all tombstones that were removed before.
        fingerprint: the fingerprint of the statement that wrote the rows.
        witness_offset, witness: the last record applied, and its digest; if the log has another
            record there, it was truncated.  -1 and empty if unknown.
        store: the owner of the rows, see `store_name`; the store itself writes it.  Empty in a
            position of an earlier version.
    """

    topic_id: str
    offset: int
    written_ms: int
    fingerprint: str
    store: str = ""
    witness_offset: int = -1
    witness: str = ""


@dataclass(frozen=True)
class StoreStats:
    """The number of rows, and bytes on disk (in memory for the memory backend)."""

    rows: int
    bytes: int


class TableStore:
    """The rows of one state partition; owns the key layout, the row count and the position.

    | key | value |
    |---|---|
    | data key, as in the changelog | row |
    | element key, as in the changelog | element row, see `state.elements` |
    | `w` + window start (8 bytes, ordered) + state key | empty; windowed tables only |
    | `w` + … | state keys, see `state.segments`; instead of the above in segmented tables |
    | `m` + name | layout version, position, row count, last commit marker |

    All of it is written in one batch of the store below, so that after a kill rows, index, count
    and position are consistent.
    """

    def __init__(
        self, store: KeyValueStore, *, windowed: bool, segmented: bool = False, name: str = ""
    ) -> None:
        """Takes over an open store.

        Args:
            windowed: state keys end in a time and are indexed by it.
            segmented: the index has segments of keys, see `in_segments`.
            name: the owner of the rows that it must hold, see `store_name`; empty: any.

        Raises:
            StoreCorrupted: the layout is unknown, or the rows belong to another store.
            IncompatibleStatement: the marker was written by a newer Holdfast.
        """
        self._store = store
        self._windowed = windowed and not segmented
        self._segments = Segments(store, _INDEX, _ENTRIES_KEY) if segmented else None
        self._layout = _SEGMENTED if segmented else _LAYOUT
        layout, position, rows, marker = store.get_many(
            [_LAYOUT_KEY, POSITION_KEY, _ROWS_KEY, _MARKER_KEY]
        )
        # A table without times can read every layout; it writes under its own.
        if layout not in ((None, self._layout) if windowed else (None, _LAYOUT, _SEGMENTED)):
            raise StoreCorrupted(
                f"The store has layout {layout!r}, this table has {self._layout!r}.",
                cause="it was written by another version.",
                action="wipe it; it is restored from the changelog.",
            )
        self._name = name
        self._position = read_position(position)
        self._rows = _rows_of(rows)
        self._marker = _marker_of(marker)
        if name and self._position is not None:
            _check_name(name, self._position, self._marker)

    @property
    def durable(self) -> bool:
        """Whether rows outlive the process."""
        return self._store.durable

    @property
    def position(self) -> StorePosition | None:
        """The store's position; None if it was never written."""
        return self._position

    @property
    def marker(self) -> CommitMarker | None:
        """The last commit marker at or before the position."""
        return self._marker

    @property
    def counted(self) -> bool:
        """False after `load` until `end_load`: a full restore is not finished."""
        return self._rows != _UNCOUNTED

    @property
    def known_rows(self) -> int:
        """The number of rows, counting each window; negative if nobody has counted them."""
        return self._rows

    @property
    def rows(self) -> int:
        """The number of rows, counting each window; iterates over them if it is unknown."""
        return self._rows if self._rows >= 0 else self._scan_rows()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The row of each state key, None for a missing one; as long as `keys`.

        Not while another thread writes: the rows would not be consistent.
        """
        return self._read(data_keys(keys))

    def get_elements(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The element row of each element key, None for a missing one."""
        return self._read(keys)

    def _read(self, names: Sequence[bytes]) -> list[bytes | None]:
        parts = (names[n : n + _AT_ONCE] for n in range(0, len(names), _AT_ONCE))
        return [row for part in parts for row in self._store.get_many(part)]

    def read_many(self, keys: Sequence[bytes]) -> tuple[list[bytes | None], StorePosition | None]:
        """The row of each state key, and their common position.

        May be called while another thread writes, if the backend is RocksDB.
        """
        *rows, position = self._store.get_many([*data_keys(keys), POSITION_KEY])
        return rows, read_position(position)

    def read_ranges(
        self, ranges: Sequence[tuple[bytes, bytes]]
    ) -> tuple[list[list[tuple[bytes, bytes]]], StorePosition | None]:
        """The result of `scan_many`, and the common position of all rows.

        May be called while another thread writes, if the backend is RocksDB.
        """
        wanted = [(_DATA + start, _DATA + end) for start, end in ranges]
        *found, at = self._store.scan_many([*wanted, (POSITION_KEY, POSITION_KEY + b"\0")])
        rows = [[(key[1:], row) for key, row in each] for each in found]
        return rows, read_position(at[0][1] if at else None)

    def apply(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        *,
        created: Sequence[bytes],
        removed: int,
        position: StorePosition,
        marker: CommitMarker | None,
        elements: Elements = NO_ELEMENTS,
    ) -> None:
        """Step 5: writes rows, index, count, position and marker in one atomic batch.

        Args:
            keys: state keys; the last entry of a repeated key counts, as in the changelog.
            values: as many rows; None deletes.
            created: those of `keys` that get a row and had none.
            removed: how many of `keys` lose their row.
            marker: None keeps the last marker.
            elements: element rows, written in the same batch.

        Raises:
            StoreCorrupted: more rows are removed than exist.
            VolumeFull: nothing was written.
        """
        known = self._rows >= 0
        rows = self._rows + len(created) - removed if known else self._rows
        if known and rows < 0:
            raise StoreCorrupted(
                f"{removed} rows are removed from a store of {self._rows} (+{len(created)}).",
                cause="the store's row count does not match its rows.",
                action="wipe it; it is restored from the changelog.",
            )
        self._write(keys, values, created, self._facts(position, rows, marker, elements))

    def replay(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        *,
        position: StorePosition,
        marker: CommitMarker | None,
        count: bool = True,
        elements: Elements = NO_ELEMENTS,
    ) -> None:
        """Like `apply`, for rows that another process wrote: looks up which are new or removed.

        Args:
            keys: state keys without duplicates.
            count: if False, it skips the lookups, which are more than half of the work; from then
                on `rows` iterates over all rows each time.  A segmented table needs them: a key
                must not be listed twice.
        """
        if self._rows < 0 or (keys and not count and self._segments is None):
            rows = _CHANGED if self.counted else _UNCOUNTED
            self._replace(keys, values, self._facts(position, rows, marker, elements))
            return
        created, removed = [], 0
        for key, new, old in zip(keys, values, self.get_many(keys), strict=True):
            if old is None and new is not None:
                created.append(key)
            elif old is not None and new is None:
                removed += 1
        self.apply(
            keys, values, created=created, removed=removed, position=position, marker=marker,
            elements=elements,
        )  # fmt: skip

    def begin_load(self) -> None:
        """Makes `load` faster and less durable until `end_load`: a kill may lose the last rows.

        The position is lost with its rows, so a restore from the position repeats these rows.
        """
        self._store.begin_bulk()

    def end_load(self) -> None:
        """Ends the load: makes all rows durable and counts them."""
        self._store.end_bulk()
        self.count()

    def count(self) -> int:
        """Counts the rows and keeps the result for `rows`."""
        if self._rows < 0:
            rows = self._scan_rows()
            self._store.write([(_ROWS_KEY, _rows_bytes(rows))], [])
            self._rows = rows
        return self._rows

    def load(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        *,
        position: StorePosition,
        marker: CommitMarker | None,
        elements: Elements = NO_ELEMENTS,
    ) -> None:
        """Like `apply` for a full restore: reads no old rows, and leaves counting to the end.

        Raises:
            VolumeFull: nothing was written.
        """
        self._replace(keys, values, self._facts(position, _UNCOUNTED, marker, elements))

    def expired(self, before_start_ms: int, limit: int) -> list[bytes]:
        """State keys of windows that start before `before_start_ms`, oldest first.

        In a segmented table, about `limit` keys of the segments that end before it.
        """
        if self._segments is not None:
            return self._segments.listed(_LONG_AGO_MS, before_start_ms, limit)
        if not self._windowed or limit <= 0:
            return []
        found = self._store.scan(_INDEX, _INDEX + ordered(before_start_ms), limit)
        return [key[9:] for key, _ in found]

    def in_time(self, start_ms: int, end_ms: int) -> list[bytes]:
        """State keys with `start_ms <= time < end_ms`, oldest first, then by key."""
        if not self._windowed or start_ms >= end_ms:
            return []
        times = _INDEX + ordered(start_ms), _INDEX + ordered(end_ms)
        (found,) = self._store.scan_many([times])
        return [key[9:] for key, _ in found]

    def in_segments(self, start_ms: int, end_ms: int, limit: int) -> list[bytes]:
        """About `limit` state keys of segments within `start_ms <= time < end_ms`, oldest first.

        None if the table is not segmented.
        """
        return self._segments.listed(start_ms, end_ms, limit) if self._segments else []

    def scan(
        self, start: bytes = b"", end: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """State keys and rows with `start <= key < end` in bytewise order, at most `limit`."""
        last = _DATA_END if end is None else _DATA + end
        for key, value in self._store.scan(_DATA + start, last, limit):
            yield key[1:], value

    def scan_elements(self) -> Iterator[tuple[bytes, bytes]]:
        """All element keys and their rows, in bytewise order."""
        return self._store.scan(ELEMENT_PREFIX, _ELEMENTS_END)

    def elements_of(self, keys: Sequence[bytes], limit: int) -> tuple[int, list[bytes]]:
        """Element keys of some rows, at most `limit`.

        Returns:
            How many of the state keys, from the first one on, have no others; and the element keys.
        """
        found: list[bytes] = []
        for n, key in enumerate(keys):
            left = limit - len(found)
            part = self._store.scan(element_head(key), elements_after(key), left + 1)
            found += (name for name, _ in part)
            if len(found) > limit:
                return n, found[:limit]
        return len(keys), found

    def records(self, rows: int, size: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Everything that the changelog has but the marker, in pieces as those of `pieces`.

        Keys are those of the changelog.
        """
        for keys, values in self.pieces(rows, size):
            yield list(data_keys(keys)), values
        yield from _in_pieces(self.scan_elements(), rows, size)

    def pieces(self, rows: int, size: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """All state keys and rows in order, `rows` or `size` bytes at once, whichever is less."""
        return _in_pieces(self.scan(), rows, size)

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The result of `scan` for each range (start, end); fastest if ranges are in key order."""
        found = self._store.scan_many([(_DATA + start, _DATA + end) for start, end in ranges])
        return [[(key[1:], row) for key, row in rows] if rows else rows for rows in found]

    def scan_apart(self, starts: Parts, ends: Parts) -> Found:
        """The range, key and row of each row found; ranges are in order and do not overlap."""
        found = self._store.scan_apart(joined(_DATA, *starts), joined(_DATA, *ends))
        return found[0], [key[1:] for key in found[1]], found[2]

    def copy_to(self, folder: Path) -> None:
        """See `KeyValueStore.copy_to`; rows, index, count and position are of one moment."""
        self._store.copy_to(folder)

    def stats(self) -> StoreStats:
        return StoreStats(self.rows, self._store.bytes_on_disk())

    def wipe(self) -> None:
        """Removes everything: rows, position and marker."""
        self._store.wipe()
        if self._segments is not None:
            self._segments.wiped()
        self._position, self._rows, self._marker = None, 0, None

    def close(self) -> None:
        self._store.close()

    def _facts(
        self, position: StorePosition, rows: int, marker: CommitMarker | None, elements: Elements
    ) -> _Facts:
        return _Facts(replace(position, store=self._name), rows, marker or self._marker, elements)

    def _replace(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], facts: _Facts
    ) -> None:
        """Writes rows that may or may not be new."""
        living = [k for k, v in zip(keys, values, strict=True) if v is not None]
        self._write(keys, values, living, facts)

    def _write(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        indexed: Sequence[bytes],
        facts: _Facts,
    ) -> None:
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys and {len(values)} rows")
        gone: list[bytes] = []
        if None in values:
            last = dict(zip(keys, values, strict=True))
            gone = [key for key, value in last.items() if value is None]
            keys = [key for key, value in last.items() if value is not None]
            values = [value for value in last.values() if value is not None]
        deletes, puts = list(data_keys(gone)), facts.to_puts(self._layout)
        deletes += [key for key, value in facts.elements.items() if value is None]
        if self._windowed:
            puts += [(key, b"") for key in by_time(_INDEX, indexed)]
            deletes += by_time(_INDEX, gone)
        elif self._segments is not None:
            listed, unlisted = self._segments.changes(indexed, gone, new=facts.rows >= 0)
            puts, deletes = puts + listed, deletes + unlisted
        rows = zip(data_keys(keys), cast("Sequence[bytes]", values), strict=True)
        self._store.write(chain(rows, puts), deletes)
        self._position, self._rows, self._marker = facts.position, facts.rows, facts.marker

    def _scan_rows(self) -> int:
        return self._store.count(_DATA, _DATA_END)


def _in_pieces(
    pairs: Iterator[tuple[bytes, bytes]], rows: int, size: int
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    keys: list[bytes] = []
    values: list[bytes] = []
    held = 0
    for key, row in pairs:
        keys.append(key)
        values.append(row)
        held += len(key) + len(row)
        if len(keys) == rows or held >= size:
            yield keys, values
            keys, values, held = [], [], 0
    if keys:
        yield keys, values


@dataclass(frozen=True)
class _Facts:
    """The metadata and the element rows that go into a batch beside the rows."""

    position: StorePosition
    rows: int
    marker: CommitMarker | None
    elements: Elements

    def to_puts(self, layout: bytes) -> list[tuple[bytes, bytes]]:
        puts = [
            (_LAYOUT_KEY, layout),
            (POSITION_KEY, json.dumps(asdict(self.position)).encode()),
            (_ROWS_KEY, _rows_bytes(self.rows)),
        ]
        if self.marker is not None:
            puts.append((_MARKER_KEY, self.marker.to_bytes()))
        return puts + [(k, v) for k, v in self.elements.items() if v is not None]


def _rows_bytes(rows: int) -> bytes:
    return rows.to_bytes(8, "big", signed=True)


def _rows_of(data: bytes | None) -> int:
    return 0 if data is None else int.from_bytes(data, "big", signed=True)


def store_name(application_id: str, state_name: str, state_partition: int) -> str:
    """The name of a store's owner, which the store keeps beside its rows."""
    return f"{application_id}/{state_name}/{state_partition}"


def owner_of(marker: CommitMarker) -> str:
    """The name of the store that a commit marker was written for."""
    state = state_name(marker.query_id, marker.generation)
    return store_name(marker.application_id, state, marker.state_partition)


def _check_name(name: str, position: StorePosition, marker: CommitMarker | None) -> None:
    """Compares the owner of a store's rows with the expected one.

    A store of an earlier version, without name, is judged by its last commit marker.  Without
    either it was never level, so restoring it again loses nothing.
    """
    found = position.store
    if not found and marker is not None:
        found = owner_of(marker)
    if found == name or (not found and not position.offset):
        return
    raise StoreCorrupted(
        f"The store in the place of {name} holds rows of {found or 'an unknown state partition'}, "
        f"up to changelog offset {position.offset}.",
        cause="a volume or a backup was restored to another place.",
        action="none: the store is restored from its own changelog.",
    )


def read_position(data: bytes | None) -> StorePosition | None:
    """The position in the value of `POSITION_KEY`.

    Raises:
        StoreCorrupted: it is not a position.
    """
    if data is None:
        return None
    try:
        return StorePosition(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise StoreCorrupted(
            f"The store's position of {len(data)} bytes cannot be read.",
            cause="the store was damaged, or written by a newer Holdfast.",
            action="wipe it; it is restored from the changelog.",
        ) from error


def _marker_of(data: bytes | None) -> CommitMarker | None:
    return None if data is None else CommitMarker.from_bytes(data)
