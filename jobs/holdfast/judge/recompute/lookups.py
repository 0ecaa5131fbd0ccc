"""Which row of a table each record of a stream finds, and how tables join.

A table's changes are silent in a stream-table join: a record finds the row that is there when it
comes, of a versioned table the one that was valid at its time.  With the order known there is one
answer; without it, any change of the key may have been the last one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.judge.recompute.meetings import Key, Side
from holdfast.judge.recompute.relations import Found, Joined

__all__ = ["found_in_any_order", "found_in_order", "tables_joined"]


def found_in_order(
    sides: tuple[Side, Side],
    order: Iterable[tuple[int, int, int]],
    *,
    outer: bool,
    history_ms: int | None,
) -> Joined:
    """The results in their order.

    Args:
        order: (state partition, side, row) of every record.
        outer: records that find nothing stay.
        history_ms: of a versioned table, how far back a record may look.
    """
    stream, table = sides
    tables: dict[int, _Table] = {}
    found: list[Found] = []
    ranks: list[int] = []
    for rank, (home, side, row) in enumerate(order):
        rows = tables.setdefault(home, _Table(table, history_ms))
        if side == 1:
            rows.change(row)
        elif not stream.dead[row]:
            key, time = stream.keys[row], stream.times[row]
            match = rows.at(key, time) if key is not None else None
            if match is not None or outer:
                found.append((row, match, time, True))
                ranks.append(rank)
    return Joined.of(found, ranks=ranks)


@dataclass
class _Table:
    """The rows of a table while its changes come."""

    changes: Side
    history_ms: int | None
    now: dict[Key, int] = field(default_factory=dict)
    versions: defaultdict[Key, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def change(self, row: int) -> None:
        """A key is what this row says, of a versioned table from its time on."""
        key, time = self.changes.keys[row], self.changes.times[row]
        if key is None:
            return
        self.now[key] = row
        newest = max(self.versions[key], default=time)
        if self.history_ms is not None and time >= newest - self.history_ms:
            self.versions[key][time] = row

    def at(self, key: Key, time: int) -> int | None:
        """The row that a record of this key and time finds."""
        if self.history_ms is None:
            row = self.now.get(key)
        else:
            times = sorted(self.versions.get(key, {}))
            at = bisect_right(times, time)
            near = at > 0 and time >= times[-1] - self.history_ms
            row = self.versions[key][times[at - 1]] if near else None
        return None if row is None or self.changes.dead[row] else row


def found_in_any_order(sides: tuple[Side, Side], *, outer: bool, why: str) -> Joined:
    """Every result that some order makes; those that every order makes are `sure`."""
    stream, table = sides
    changes: defaultdict[Key, list[int]] = defaultdict(list)
    for row, key in enumerate(table.keys):
        if key is not None:
            changes[key].append(row)
    found = list(_possible(stream, table, changes, outer=outer))
    unsure = sum(not sure for *_, sure in found)
    doubt = f"{unsure} looked-up rows depend on the order in which records came: {why}"
    # Each record of the stream is there once, whatever it finds.
    once = sum(not dead for dead in stream.dead) if outer and all(stream.sure) else None
    return Joined.of(found, doubt if unsure else "", once)


def _possible(
    stream: Side, table: Side, changes: Mapping[Key, Sequence[int]], *, outer: bool
) -> Iterator[Found]:
    for row, key in enumerate(stream.keys):
        if stream.dead[row]:
            continue
        rows = changes.get(key, []) if key is not None else []
        living = [other for other in rows if not table.dead[other]]
        time = stream.times[row]
        if outer:
            yield row, None, time, stream.sure[row] and not living
        for other in living:
            yield row, other, time, False


def tables_joined(left: Sequence[Key | None], right: Sequence[Key | None], kind: str) -> Joined:
    """Final rows of two tables by the keys on which they meet; a right key is there once.

    Args:
        left: of a foreign-key join, what each left row points to.
        kind: INNER, LEFT, RIGHT or FULL.
    """
    there = {key: row for row, key in enumerate(right)}
    found: list[Found] = []
    met: set[int] = set()
    for row, key in enumerate(left):
        match = there.get(key) if key is not None else None
        if match is not None:
            met.add(match)
        if match is not None or kind in ("LEFT", "FULL"):
            found.append((row, match, 0, True))
    if kind in ("RIGHT", "FULL"):
        found += [(None, row, 0, True) for row in range(len(right)) if row not in met]
    return Joined.of(found)
