"""Windows that close: sessions, final results, and which records came too late for either.

A record that comes when its window has closed is dropped and counted.  Sessions take a record
that is no more than the gap away from them, and merge with each other through it; one that was
merged is deleted.  A final result is written once, by the record that moves stream time past the
window's end and grace.

Where only a batch's last changes are written, late is what stream time had closed before the batch:
all of its records count as having come at once.  So they do where a batch has a watermark, whatever
is written: `Seen` tells the stream time then.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.judge.read.arrivals import Seen
from holdfast.judge.recompute.meetings import Key
from holdfast.judge.statement.statement import WindowClause

__all__ = [
    "Windowed",
    "alone_within",
    "once_within",
    "sessions_in_batches",
    "sessions_in_order",
    "windows_in_order",
]

_LONG_AGO = -(1 << 62)
Order = Iterable[tuple[int, int]]  # (state partition, row)


@dataclass
class Windowed:
    """The windows that records are in: one entry per record and window that is a result.

    Attributes:
        rows: the records.
        starts: of their windows, in ms; `ends` likewise.
        late: how many were dropped, once per window.
    """

    rows: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    late: int = 0

    def add(self, rows: Iterable[int], start: int, end: int) -> None:
        """A window's records."""
        for row in rows:
            self.rows.append(row)
            self.starts.append(start)
            self.ends.append(end)


@dataclass
class _Session:
    """A session as one of its records has left it: never changed, only merged into the next."""

    start: int
    end: int
    rows: list[int]
    merged: bool = False


def sessions_in_order(
    window: WindowClause,
    keys: Sequence[Key],
    times: Sequence[int],
    order: Order,
    *,
    final: bool,
    seen: Seen | None = None,
) -> Windowed:
    """The sessions that are a result in the end; of `final` ones each state that was written."""
    homes: dict[int, _Sessions] = {}
    for home, row in order:
        now = None if seen is None else seen.at[home, row]
        homes.setdefault(home, _Sessions(window, final=final)).take(row, keys[row], times[row], now)
    for home, last in seen.last.items() if seen is not None else ():
        if home in homes:
            homes[home].move(last)
    made = Windowed(late=sum(each.late for each in homes.values()))
    for each in homes.values():
        every = each.written if final else (s for of_key in each.of.values() for s in of_key)
        for session in every:
            made.add(session.rows, session.start, session.end)
    return made


@dataclass
class _Sessions:
    """The sessions of one state partition while its records come."""

    window: WindowClause
    final: bool
    now: int = _LONG_AGO
    late: int = 0
    of: dict[Key, list[_Session]] = field(default_factory=dict)
    written: list[_Session] = field(default_factory=list)
    _closing: list[tuple[int, int, _Session]] = field(default_factory=list)
    _made: int = 0

    def move(self, now: int) -> None:
        """Stream time goes on without a record."""
        self.now = now
        self._close()

    def take(self, row: int, key: Key, time: int, now: int | None) -> None:
        """The next record; `now`: stream time, where the record does not move it."""
        gap = self.window.size_ms
        if now is not None:
            self.move(now)
        # What has been forgotten cannot be merged any more.
        from_ms = max(time - gap, self.now - self.window.retention_ms + 1)
        self.now = max(self.now, time) if now is None else now
        there = self.of.setdefault(key, [])
        near = [s for s in there if s.end >= from_ms and s.start <= time + gap]
        start = min([time, *(s.start for s in near)])
        end = max([time, *(s.end for s in near)])
        if end < self.now - self.window.open_ms:
            self.late += 1
        else:
            merged = _Session(start, end, [r for s in near for r in s.rows] + [row])
            for session in near:
                session.merged = True
                there.remove(session)
            there.append(merged)
            self._made += 1
            if self.final:
                heapq.heappush(self._closing, (end, self._made, merged))
        self._close()

    def _close(self) -> None:
        while self._closing and self._closing[0][0] < self.now - self.window.open_ms:
            session = heapq.heappop(self._closing)[2]
            if not session.merged:
                self.written.append(session)


def sessions_in_batches(
    window: WindowClause,
    keys: Sequence[Key],
    times: Sequence[int],
    batches: Iterable[tuple[int, Sequence[int]]],
    seen: Seen | None = None,
) -> Windowed:
    """The sessions in the end, each batch's records taken at once.

    Args:
        batches: (state partition, rows), each state partition's in their order.
    """
    made = Windowed()
    newest: defaultdict[int, int] = defaultdict(lambda: _LONG_AGO)
    there: defaultdict[tuple[int, Key], list[_Session]] = defaultdict(list)
    for home, rows in batches:
        of_key: defaultdict[Key, list[int]] = defaultdict(list)
        for row in rows:
            of_key[keys[row]].append(row)
        for key, mine in of_key.items():
            before = there[home, key]
            new = [_Session(times[row], times[row], [row]) for row in mine]
            now = newest[home] if seen is None else seen.at[home, rows[0]]
            there[home, key], late = _merged(window, before, new, now)
            made.late += late
        newest[home] = max([newest[home], *(times[row] for row in rows)])
    for sessions in there.values():
        for session in sessions:
            made.add(session.rows, session.start, session.end)
    return made


def _merged(
    window: WindowClause, before: list[_Session], new: list[_Session], now: int
) -> tuple[list[_Session], int]:
    """(a key's sessions after a batch, records that were late) at stream time before it."""
    forgotten = [s for s in before if s.end <= now - window.retention_ms]
    near: list[list[_Session]] = []
    end = _LONG_AGO
    found = [s for s in before if s.end > now - window.retention_ms] + new
    for session in sorted(found, key=lambda s: (s.start, s.end)):
        if not near or session.start - end > window.size_ms:
            near.append([])
            end = session.end
        near[-1].append(session)
        end = max(end, session.end)
    kept, late = forgotten, 0
    fresh = set(map(id, new))
    for group in near:
        last = max(s.end for s in group)
        came = sum(id(s) in fresh for s in group)
        if came and last < now - window.open_ms:
            late += came
            kept += [s for s in group if id(s) not in fresh]
            continue
        rows = [row for s in group for row in s.rows]
        kept.append(_Session(group[0].start, last, rows))
    return kept, late


def windows_in_order(
    window: WindowClause,
    keys: Sequence[Key],
    times: Sequence[int],
    order: Order,
    seen: Seen | None = None,
) -> Windowed:
    """The final results of tumbling and hopping windows."""
    made = Windowed()
    members: defaultdict[tuple[int, Key, int], list[int]] = defaultdict(list)
    newest: defaultdict[int, list[int]] = defaultdict(list)  # stream time after each record
    for home, row in order:
        if seen is not None:
            now = seen.at[home, row]
        else:
            now = max(newest[home][-1], times[row]) if newest[home] else times[row]
        newest[home].append(now)
        for start in _starts(window, times[row]):
            if start + window.open_ms <= now:
                made.late += 1
            else:
                members[home, keys[row], start].append(row)
    for home, last in seen.last.items() if seen is not None else ():
        newest[home].append(last)
    for (home, _, start), rows in members.items():
        at = bisect_left(newest[home], start + window.open_ms)
        if at == len(newest[home]):
            continue  # it has not closed
        # By Kafka Streams' rule, stream time that jumps over the retention finds the window gone.
        closed_in = newest[home][at] // window.advance_ms * window.advance_ms
        if not window.final_within_retention or start >= closed_in - window.retention_ms:
            made.add(rows, start, start + window.size_ms)
    return made


def _starts(window: WindowClause, time: int) -> range:
    advance = window.advance_ms
    first = max(0, time - window.size_ms + advance) // advance * advance
    return range(first, time + 1, advance)


def once_within(
    within_ms: int,
    keys: Sequence[Key | None],
    times: Sequence[int],
    order: Order,
    seen: Seen | None = None,
) -> tuple[list[int], int]:
    """(records that pass a DEDUPLICATE_WITHIN in their order, how many came too late)."""
    passed: list[int] = []
    late = 0
    now: dict[int, int] = {}
    before: defaultdict[Key, list[int]] = defaultdict(list)
    for home, row in order:
        key, time = keys[row], times[row]
        now[home] = max(now.get(home, _LONG_AGO), time) if seen is None else seen.at[home, row]
        if key is None:
            continue
        if time <= now[home] - within_ms:
            late += 1
            continue
        known = before[key]
        at = bisect_right(known, time - within_ms)
        if at < len(known) and known[at] < time + within_ms:
            continue
        known.insert(bisect_right(known, time), time)
        passed.append(row)
    return passed, late


def alone_within(within_ms: int, keys: Sequence[Key | None], times: Sequence[int]) -> list[bool]:
    """Which records have no other one of their key so near: they pass whatever the order."""
    of_key: defaultdict[Key, list[int]] = defaultdict(list)
    for key, time in zip(keys, times, strict=True):
        if key is not None:
            of_key[key].append(time)
    for known in of_key.values():
        known.sort()
    found = []
    for key, time in zip(keys, times, strict=True):
        known = of_key[key] if key is not None else []
        near = bisect_left(known, time + within_ms) - bisect_right(known, time - within_ms)
        found.append(near == 1)
    return found
