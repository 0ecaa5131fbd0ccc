"""Which records of two streams meet, by ksqlDB's rules for WITHIN and GRACE PERIOD.

Told twice: with the order in which the records came there is one answer (`in_order`); without it
there are results that every order makes, and results that some order makes (`in_any_order`).

A side's records are kept, and seen, for before + after + grace behind the newest one of that side.
An outer join without GRACE PERIOD says at once that a record has no partner.  With it, it waits
until stream time has passed the record's window and grace; what comes later than its window is
told at once.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.judge.recompute.relations import Found, Joined
from holdfast.judge.statement.statement import Within

__all__ = ["Key", "Meeting", "Side", "in_any_order", "in_order"]

Key = tuple[object, ...]
_LONG_AGO = -(1 << 62)
_DAY_MS = 86_400_000  # how late a record may be without GRACE PERIOD


@dataclass(frozen=True)
class Side:
    """One side's records; lists run in parallel.

    Attributes:
        keys: None of a record without one.
        dead: records without a value, which only move time on.
        sure: whether a record is there in every order.
        homes: their state partitions; where they are not known all are in one.
    """

    keys: Sequence[Key | None]
    times: Sequence[int]
    dead: Sequence[bool]
    sure: Sequence[bool]
    homes: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Meeting:
    """The rules of one join.

    Attributes:
        outer: by side, whether records without a partner are told.
        reach: by side, how far back and on from a record its partners may be, ms.
        kept_ms: how far behind the newest record of its side one is kept.
        wait_ms: by side, how long after its time a record without partner is told; None: at once.
    """

    outer: tuple[bool, bool]
    reach: tuple[tuple[int, int], tuple[int, int]]
    kept_ms: int
    wait_ms: tuple[int, int] | None

    @staticmethod
    def of(kind: str, within: Within) -> Meeting:
        """The rules of a join; a RIGHT one counts BEFORE from the right record."""
        near = (within.before_ms, within.after_ms)
        turned = (within.after_ms, within.before_ms)
        reach = (turned, near) if kind == "RIGHT" else (near, turned)
        grace = _DAY_MS if within.grace_ms is None else within.grace_ms
        outer = (kind in ("LEFT", "FULL"), kind in ("RIGHT", "FULL"))
        wait = None
        if within.grace_ms is not None and any(outer):
            wait = (reach[0][1] + grace, reach[1][1] + grace)
        return Meeting(outer, reach, sum(near) + grace, wait)


def in_order(
    rules: Meeting, sides: tuple[Side, Side], order: Iterable[tuple[int, int, int]]
) -> Joined:
    """The results in their order; `order`: (state partition, side, row) of every record."""
    homes: dict[int, _Home] = {}
    found: list[Found] = []
    ranks: list[int] = []
    for rank, (home, side, row) in enumerate(order):
        found += homes.setdefault(home, _Home(rules, sides)).take(side, row)
        ranks += [rank] * (len(found) - len(ranks))
    return Joined.of(found, ranks=ranks)


@dataclass
class _Home:
    """One state partition while its records come."""

    rules: Meeting
    sides: tuple[Side, Side]
    newest: int = _LONG_AGO
    kept_newest: list[int] = field(default_factory=lambda: [_LONG_AGO, _LONG_AGO])
    kept: tuple[dict[Key, list[tuple[int, int]]], ...] = field(default_factory=lambda: ({}, {}))
    waiting: set[tuple[int, int]] = field(default_factory=set)  # side, row
    due: list[tuple[int, int, int]] = field(default_factory=list)  # told after, side, row

    def take(self, side: int, row: int) -> Iterator[Found]:
        """What one record gives."""
        mine = self.sides[side]
        time, key = mine.times[row], mine.keys[row]
        self.newest = max(self.newest, time)
        if mine.dead[row]:
            return
        if key is None:
            if self.rules.outer[side]:
                yield _alone(side, row, time)
            return
        if time == self.newest:
            yield from self._told()
        yield from self._partners(side, row, key, time)
        self.kept_newest[side] = max(self.kept_newest[side], time)
        if time > self.kept_newest[side] - self.rules.kept_ms:
            insort(self.kept[side].setdefault(key, []), (time, row))

    def _told(self) -> Iterator[Found]:
        """Records whose wait is over."""
        while self.due and self.due[0][0] < self.newest:
            _, side, row = heapq.heappop(self.due)
            if (side, row) in self.waiting:
                self.waiting.remove((side, row))
                yield _alone(side, row, self.sides[side].times[row])

    def _partners(self, side: int, row: int, key: Key, time: int) -> Iterator[Found]:
        other, (back, on) = 1 - side, self.rules.reach[side]
        seen = self.kept_newest[other] - self.rules.kept_ms + 1
        there = self.kept[other].get(key, [])
        first = bisect_left(there, (max(time - back, 0, seen), -1))
        last = bisect_left(there, (time + on + 1, -1), first)
        for other_time, other_row in there[first:last]:
            self.waiting.discard((other, other_row))
            pair = (row, other_row) if side == 0 else (other_row, row)
            yield *pair, max(time, other_time), True
        if first < last or not self.rules.outer[side]:
            return
        if self.rules.wait_ms is None or time + on < self.newest:
            yield _alone(side, row, time)
        else:
            self.waiting.add((side, row))
            heapq.heappush(self.due, (time + self.rules.wait_ms[side], side, row))


def in_any_order(rules: Meeting, sides: tuple[Side, Side], *, apart: bool, why: str) -> Joined:
    """Every result that some order makes; those that every order makes are `sure`.

    Args:
        apart: whether the state partitions of the records are known.
        why: the order is not known, in words.
    """
    reach = _Reach(rules, sides, apart=apart)
    found: list[Found] = []
    found += reach.pairs()
    for side in (0, 1):
        if rules.outer[side]:
            partners = {pair[side] for pair in found if None not in pair[:2]}
            found += reach.alone(side, partners)
    unsure = sum(not sure for *_, sure in found)
    doubt = f"{unsure} joined rows depend on the order in which records came: {why}"
    return Joined.of(found, doubt if unsure else "")


class _Reach:
    """What may and what must meet, whatever the order."""

    def __init__(self, rules: Meeting, sides: tuple[Side, Side], *, apart: bool) -> None:
        self._rules, self._sides = rules, sides
        newest: tuple[dict[int, int], dict[int, int]] = ({}, {})
        over: dict[int, int] = {}
        closing: dict[int, int] = {}
        for side, records in enumerate(sides):
            for row, time in enumerate(records.times):
                home = records.homes[row][0] if apart else 0
                over[home] = max(over.get(home, _LONG_AGO), time)
                if records.keys[row] is None or records.dead[row]:
                    continue
                newest[side][home] = max(newest[side].get(home, _LONG_AGO), time)
                if records.sure[row]:
                    closing[home] = max(closing.get(home, _LONG_AGO), time)
        self._newest, self._over, self._apart = newest, over, apart
        # The newest record closes every window before it, unless something newer may come first.
        self._closing = {h: t if t == over[h] and apart else _LONG_AGO for h, t in closing.items()}

    def pairs(self) -> Iterator[tuple[int, int, int, bool]]:
        """(left row, right row, time, sure) of all in each other's window."""
        left, right = self._sides
        there: defaultdict[Key, list[tuple[int, int]]] = defaultdict(list)
        for row, key in enumerate(right.keys):
            if key is not None and not right.dead[row]:
                there[key].append((right.times[row], row))
        for each in there.values():
            each.sort()
        back, on = self._rules.reach[0]
        for row, key in enumerate(left.keys):
            if key is None or left.dead[row]:
                continue
            time, others = left.times[row], there.get(key, [])
            first = bisect_left(others, (max(time - back, 0), -1))
            for other_time, other in others[first : bisect_right(others, (time + on, 1 << 62))]:
                sure = self._kept(0, row) and self._kept(1, other)
                yield row, other, max(time, other_time), sure

    def _kept(self, side: int, row: int) -> bool:
        """Whether a record is there in every order, and kept to the end."""
        records = self._sides[side]
        newest = self._newest[side][self._home(side, row)]
        return records.sure[row] and records.times[row] > newest - self._rules.kept_ms

    def _home(self, side: int, row: int) -> int:
        return self._sides[side].homes[row][0] if self._apart else 0

    def alone(self, side: int, partners: Collection[int | None]) -> Iterator[Found]:
        """Records that may be told to have no partner; `partners`: those that may have one."""
        records, rules = self._sides[side], self._rules
        for row, key in enumerate(records.keys):
            if records.dead[row]:
                continue
            time, home = records.times[row], self._home(side, row)
            if key is None or rules.wait_ms is None:
                sure = records.sure[row] and row not in partners
                yield *_alone(side, row, time)[:3], sure
            elif time + rules.reach[side][1] < self._over[home]:
                over = time + rules.wait_ms[side] < self._closing.get(home, _LONG_AGO)
                sure = over and records.sure[row] and row not in partners
                yield *_alone(side, row, time)[:3], sure


def _alone(side: int, row: int, time: int) -> Found:
    return (row, None, time, True) if side == 0 else (None, row, time, True)
