"""One partition of a table on this server: its store, its position, and its subscribers.

The follower's threads write, the event loop reads.  A store returns rows together with their
position, so readers take no lock; the lock is held while rows, position and subscribers have to
change together.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from holdfast.errors import NoHolder
from holdfast.serve.contract import Change, PartitionState, WindowBounds
from holdfast.serve.follow.subscription import Subscription
from holdfast.serve.follow.transactions import Transactions
from holdfast.serve.tables import StoredTable
from holdfast.state.past import witnessed
from holdfast.state.restore import LastRows
from holdfast.state.table_store import StorePosition, StoreStats, TableStore
from holdfast.tasks.processors.base import NO_TIME
from holdfast.transport.reader import Chunk

__all__ = ["Found", "Standby"]

_LOG = logging.getLogger(__name__)
_REASON_CHARS = 200
_TOUCH_MS = 60_000  # how often an idle store records that it is caught up
Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Found:
    """Rows from one snapshot of a store."""

    rows: Pairs
    state: PartitionState


class Standby:
    """Owns one open store.

    `restoring` is true until the store has caught up once since it was opened or wiped.
    """

    def __init__(self, table: StoredTable, partition: int, store: TableStore, server: str) -> None:
        self.table = table
        self.partition = partition
        self.store = store
        self._server = server
        self._lock = threading.Lock()
        self._subscribers: set[Subscription] = set()
        self._transactions = Transactions(table.has_markers)
        self._following = False
        self._changed_at = 0  # no row has changed after this position
        self._end = store.position.offset if store.position is not None else 0
        self._checked_ms = 0
        self._undecodable = 0
        self._stats = StoreStats(-1, 0)
        self._measured_at: tuple[str, int] | None = None  # topic id and offset
        self.error: str | None = None

    @property
    def name(self) -> str:
        """The standby's name in messages and logs."""
        return f"{self.table.name} partition {self.partition}"

    @property
    def is_foreign(self) -> bool:
        """Whether the rows are another statement's and would be misread."""
        position, wanted = self.store.position, self.table.fingerprint
        if position is None or wanted is None:
            return False
        return position.fingerprint not in ("", wanted)

    # -- for readers ---------------------------------------------------------------------------

    def state(self) -> PartitionState:
        """The partition's current state."""
        return self._state(self.store.position)

    def get(self, keys: Sequence[bytes]) -> Found:
        """Rows of stored keys; missing keys are left out."""
        rows, position = self.store.read_many(keys)
        found = [(key, row) for key, row in zip(keys, rows, strict=True) if row is not None]
        return Found(found, self._state(position))

    def get_windows(self, keys: Sequence[bytes], within: WindowBounds) -> Found:
        """Rows of the requested windows of keys."""
        ranges = [self.table.window_range(key, within) for key in keys]
        found, position = self.store.read_ranges(ranges)
        rows = [
            (stored, row)
            for key, pairs in zip(keys, found, strict=True)
            for stored, row in pairs
            if self.table.is_within(stored, key, within)
        ]
        return Found(rows, self._state(position))

    def scan(
        self, start: bytes = b"", end: bytes | None = None, limit: int | None = None
    ) -> tuple[PartitionState, Iterator[tuple[bytes, bytes]]]:
        """All rows of a range as they are now, and their position."""
        with self._lock:
            return self._scan(start, end, limit)

    def _scan(
        self, start: bytes, end: bytes | None, limit: int | None
    ) -> tuple[PartitionState, Iterator[tuple[bytes, bytes]]]:
        rows = self.store.scan(start, end, limit)
        first = list(islice(rows, 1))  # a scan's snapshot is taken at its first row
        return self.state(), chain(first, rows)

    @property
    def changed_at(self) -> int:
        """The offset after the last change; only transaction markers lie between it and `state`."""
        return self._changed_at

    def subscribe(self, subscription: Subscription) -> PartitionState:
        """Subscribe to every change after the returned position.

        Raises:
            NoHolder: it is not following its changelog yet.
        """
        with self._lock:
            return self._subscribe(subscription)

    def snapshot(
        self, subscription: Subscription
    ) -> tuple[PartitionState, Iterator[tuple[bytes, bytes]]]:
        """The contents as they are now; the subscription receives every change after them.

        Raises:
            NoHolder: it is not following its changelog yet.
        """
        with self._lock:
            self._subscribe(subscription)
            return self._scan(b"", None, None)

    def _subscribe(self, subscription: Subscription) -> PartitionState:
        state = self.state()
        if not self._following:
            raise NoHolder(
                f"{self.name} on server {self._server} is at {state.position} of {state.end} and "
                "not following its changelog yet.",
                cause=self.error or "it is being restored",
                action="try again when it is, or ask another server.",
            )
        self._subscribers.add(subscription)
        return state

    def unsubscribe(self, subscription: Subscription) -> None:
        """Send no more changes to a subscription."""
        with self._lock:
            self._subscribers.discard(subscription)

    # -- for the follower ----------------------------------------------------------------------

    @property
    def following(self) -> bool:
        """Whether changes are applied as they are committed."""
        return self._following

    def begin(self) -> None:
        """Begin to follow: the store is caught up and will receive all later records."""
        with self._lock:
            self._transactions = Transactions(self.table.has_markers)
            self._following, self.error = True, None
            self._changed_at = self._position().offset

    def stop(self, why: str | None) -> None:
        """Stop following; subscribers have to continue from their positions elsewhere."""
        with self._lock:
            self._following, self.error = False, why
            for subscription in self._subscribers:
                subscription.end()
            self._subscribers.clear()

    def take(self, chunk: Chunk) -> None:
        """Apply committed records, up to the last whole transaction among them.

        Records that the store already has are skipped.
        """
        whole = self._transactions.add(chunk.since(self._position().offset))
        if whole is None:
            return
        rows, marker, elements = self.rows_of(whole)
        keys = sorted(rows)
        values = list(map(rows.__getitem__, keys))
        with self._lock:
            position = self._position()
            fingerprint = marker.fingerprint if marker is not None else position.fingerprint
            moved = replace(
                witnessed(position, whole),
                offset=whole.position,
                written_ms=_now_ms(),
                fingerprint=fingerprint,
            )
            told = bool(keys and self._subscribers)
            old = self._old(keys, values) if told else None
            # A subscriber that receives a row can also look it up: the store is written first.
            self.store.replay(
                keys, values, position=moved, marker=marker, count=False, elements=elements
            )
            self._end = max(self._end, whole.position)
            self._changed_at = whole.position
            if told:
                at_ms = whole.timestamps[-1]
                change = Change(
                    self.partition, keys, values, whole.position, old, committed_ms=at_ms
                )
                for subscription in self._subscribers:
                    subscription.put(change)

    def rows_of(self, chunk: Chunk) -> LastRows:
        """`StoredTable.rows_of` for decodable records; the others are counted."""
        readable, bad = self.table.readable(chunk)
        if bad:
            self._undecodable += len(bad)
            _LOG.warning(
                "%s: %d records of topic %s cannot be decoded, their keys keep the rows that they "
                "have; the first, offset %d: %s",
                self.name,
                len(bad),
                self.table.topic,
                bad[0].offset,
                bad[0].reason[:_REASON_CHARS],
            )
        return self.table.rows_of(readable)

    def _old(self, keys: list[bytes], rows: list[bytes | None]) -> list[bytes | None]:
        """The keys' current rows: of removed keys, or of all if a subscriber wants them."""
        if any(subscription.wants_old for subscription in self._subscribers):
            return self.store.get_many(keys)
        gone = [key for key, row in zip(keys, rows, strict=True) if row is None]
        if not gone:
            return [None] * len(keys)
        before = dict(zip(gone, self.store.get_many(gone), strict=True))
        return [before.get(key) for key in keys]

    def at_end(self, end: int) -> None:
        """Record that all committed records before `end` have been applied."""
        self.seen_end(end)
        position = self._position()
        stale = _now_ms() - position.written_ms > _TOUCH_MS
        if self._transactions.open or (end <= position.offset and not stale):
            return
        # Only transaction markers lie there.  The position is stored, so that a store that was away
        # for long is known to have missed nothing.
        moved = replace(position, offset=max(end, position.offset), written_ms=_now_ms())
        with self._lock:
            self.store.replay([], [], position=moved, marker=None, count=False)

    def seen_end(self, end: int) -> None:
        """Record the changelog's current committed end."""
        self._end, self._checked_ms = end, _now_ms()

    def measure(self) -> None:
        """Count the store's rows and measure its disk space, if it has changed."""
        position = self.store.position
        at = (position.topic_id, position.offset) if position is not None else None
        if self.store.counted and at != self._measured_at:
            self._stats, self._measured_at = self.store.stats(), at

    @property
    def checked_ms(self) -> int:
        """When the changelog's end was last seen, wall clock."""
        return self._checked_ms

    def _position(self) -> StorePosition:
        position = self.store.position
        if position is None:
            raise NoHolder(f"{self.name} has no position.", action="restore it first.")
        return position

    def _state(self, position: StorePosition | None) -> PartitionState:
        marker, offset = self.store.marker, position.offset if position is not None else 0
        time_ms = marker.stream_time_ms if marker is not None else NO_TIME
        return PartitionState(
            partition=self.partition,
            position=offset,
            end=max(self._end, offset),
            stream_time_ms=None if time_ms == NO_TIME else time_ms,
            restoring=position is None or not self.store.counted,
            server=self._server,
            rows=self._stats.rows if self.store.counted else -1,
            bytes=self._stats.bytes,
            checked_ms=self._checked_ms,
            error=self.error,
            undecodable=self._undecodable,
        )


def _now_ms() -> int:
    return int(time.time() * 1000)
