"""Plans which sessions records create and which they merge; times only, no aggregates.

A record lies in a session when it is no more than the gap away from it (inclusive, as in Kafka
Streams).  Every version of a session is a *node*: the stored ones first, then one for each record
that is not late.  The nodes' states are computed later, many at once.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.state.times import SIGN
from holdfast.tasks.evaluate.keys import measured, measured_all, unmeasured
from holdfast.tasks.processors.base import StoreView
from holdfast.types.columns.byte_columns import Parts, fixed, joined, tails

__all__ = [
    "Event",
    "Node",
    "Session",
    "Sessions",
    "bounds_of",
    "key_range",
    "key_ranges",
    "session_state_keys",
    "split_session",
]

Times: TypeAlias = "npt.NDArray[np.int64]"
_BOUNDS = struct.Struct(">Qqq")  # end in the order of bytes, start, end
_COLUMNS = [("place", ">u8"), ("start", ">i8"), ("end", ">i8")]  # the same in numpy
_END = struct.Struct(">Q")
_AFTER = b"\xff" * (_BOUNDS.size + 1)


def session_state_keys(keys: pa.Array, starts: Times, ends: Times) -> list[bytes]:
    """The state keys of sessions: length of the key, key (BINARY), end, start, end (ms).

    A store orders a key's sessions by end, so that old ones need not be read.  The end is repeated
    as the last eight bytes because a session expires by it.
    """
    bounds = np.empty(len(keys), _COLUMNS)
    bounds["place"] = ends.astype(np.uint64) ^ np.uint64(SIGN)
    bounds["start"], bounds["end"] = starts, ends
    return joined(*measured_all(keys), fixed(bounds))


def split_session(state_key: bytes) -> tuple[bytes, int, int]:
    """(key, start, end in ms) of a session's state key."""
    _, start, end = _BOUNDS.unpack(state_key[-_BOUNDS.size :])
    return unmeasured(state_key[: -_BOUNDS.size]), start, end


def bounds_of(state_keys: Sequence[bytes]) -> tuple[Times, Times]:
    """Starts and ends in ms of sessions, from their state keys."""
    bounds = tails(pa.array(state_keys, pa.binary()), np.dtype(_COLUMNS))
    return bounds["start"].astype(np.int64), bounds["end"].astype(np.int64)


def key_range(key: bytes, from_ms: int = -SIGN) -> tuple[bytes, bytes]:
    """The range of state keys of a key's sessions that end at `from_ms` or later."""
    prefix = measured(key)
    return prefix + _END.pack(max(from_ms + SIGN, 0)), prefix + _AFTER


def key_ranges(keys: pa.Array, from_ms: Times) -> tuple[Parts, Parts]:
    """`key_range` for each row: starts and ends."""
    heads = measured_all(keys)
    ends = fixed((from_ms.astype(np.uint64) ^ np.uint64(SIGN)).astype(">u8"))
    return (*heads, ends), (*heads, _AFTER)


@dataclass(slots=True)
class Session:
    """The current version of a session; `node` is its node."""

    key: bytes
    start: int
    end: int
    node: int
    there: bool = True


@dataclass(frozen=True, slots=True)
class Node:
    """A version of a session: its parent nodes (by time), then the record in row `record`."""

    session: Session
    parents: tuple[int, ...] = ()
    record: int = -1  # -1: a stored session


@dataclass(frozen=True, slots=True)
class Event:
    """A change of the table, caused by the record in row `record`.

    `before` is the session's node until then, -1 for none; without `after` it leaves the table.
    """

    record: int
    session: Session
    before: int = -1
    after: int = -1


@dataclass
class Sessions:
    """The sessions of one state partition while a batch is applied.

    Attributes:
        gap_ms: the gap of inactivity.
        open_ms: how long after its end a session takes records: gap and grace.
        kept_ms: how long before stream time a session may end and still be found.
        now_ms: stream time.
        final: only the closing of a session is an event.
        held: stream time does not advance until `close`.
    """

    gap_ms: int
    open_ms: int
    kept_ms: int
    now_ms: int
    final: bool
    nodes: list[Node] = field(default_factory=list)
    stored: list[bytes] = field(default_factory=list)
    rows: list[bytes] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    late: int = 0
    held: bool = False
    _of: dict[bytes, list[Session]] = field(default_factory=dict)
    _closing: list[tuple[int, int, bytes, int]] = field(default_factory=list)

    def load(self, keys: Iterable[bytes], store: StoreView) -> None:
        """Loads the stored sessions of those keys that are not loaded yet."""
        new = sorted(set(keys) - self._of.keys())
        scans = store.scan_many([key_range(key) for key in new])
        for key, found in zip(new, scans, strict=True):
            self._of[key] = sessions = []
            for state_key, row in found:
                _, start, end = split_session(state_key)
                sessions.append(Session(key, start, end, len(self.nodes)))
                self.nodes.append(Node(sessions[-1]))
                self.stored.append(state_key)
                self.rows.append(row)

    def await_closing(self, from_ms: int, before_ms: int, store: StoreView) -> None:
        """Loads stored sessions with `from_ms <= end < before_ms`, to emit when they close."""
        found = store.in_time(from_ms, before_ms)
        self.load((split_session(state_key)[0] for state_key in found), store)
        wanted = set(found)
        for node, state_key in enumerate(self.stored):
            if state_key in wanted:
                self._push(self.nodes[node].session)

    def add(self, record: int, key: bytes, time_ms: int) -> None:
        """Adds the record in row `record`, the next in arrival order."""
        from_ms = max(time_ms - self.gap_ms, self.now_ms - self.kept_ms + 1)
        if not self.held:
            self.now_ms = max(self.now_ms, time_ms)
        close = self.now_ms - self.open_ms
        sessions = self._of[key]
        near = [s for s in sessions if s.end >= from_ms and s.start <= time_ms + self.gap_ms]
        start = min((s.start for s in near), default=time_ms)
        end = max((s.end for s in near), default=time_ms)
        start, end = min(start, time_ms), max(end, time_ms)
        if end < close:
            self.late += 1
        else:
            self._merge(record, Session(key, start, end, len(self.nodes)), near)
        self._close(record, close)

    def close(self, now_ms: int) -> None:
        """Ends the batch and advances stream time."""
        self.now_ms = now_ms
        self._close(-1, now_ms - self.open_ms)

    def left(self) -> list[Session]:
        """The current sessions of all loaded keys."""
        return [s for sessions in self._of.values() for s in sessions]

    def _merge(self, record: int, merged: Session, near: list[Session]) -> None:
        self.nodes.append(Node(merged, tuple(s.node for s in near), record))
        before = -1
        for session in near:
            session.there = False
            if merged.start == merged.end:  # a session of one instant keeps its bounds: an update
                before = session.node
            elif not self.final:
                self.events.append(Event(record, session, before=session.node))
        if not self.final:
            self.events.append(Event(record, merged, before=before, after=merged.node))
        kept = [s for s in self._of[merged.key] if s.there]
        kept.append(merged)
        kept.sort(key=_by_end)
        self._of[merged.key] = kept
        self._push(merged)

    def _push(self, session: Session) -> None:
        if self.final:
            heapq.heappush(self._closing, (session.end, session.start, session.key, session.node))

    def _close(self, record: int, close_ms: int) -> None:
        while self._closing and self._closing[0][0] < close_ms:
            session = self.nodes[heapq.heappop(self._closing)[3]].session
            if session.there:
                self.events.append(Event(record, session, after=session.node))


def _by_end(session: Session) -> int:
    return session.end
