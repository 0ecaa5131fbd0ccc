"""The order in which a query processed its records, as far as its commit markers show it.

Records of several topic partitions have no common order.  But every commit marker names the
offsets of its batch, and the order within a batch is documented (Kafka Streams' order).  So the
whole order of a state partition is known as long as none of its markers was compacted away.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import orjson

from holdfast.judge.read.incarnations import Incarnations, place_name
from holdfast.transport.partitioner import state_partition
from holdfast.types.columns.schema import Base, SqlType

__all__ = ["Batches", "Lane", "Offsets", "Seen", "home_of", "offsets_of"]

_HASH_OF_NULL = 42  # Spark's
_LONG_AGO = -(1 << 62)
_WHOLE = {Base.INTEGER: struct.Struct(">i"), Base.BIGINT: struct.Struct(">q")}

Place = tuple[str, int]  # topic, number of a topic partition (see `incarnations`)
Offsets = Mapping[Place, int]
_ONE_EACH = Incarnations()


def offsets_of(
    source: Mapping[str, Any], edge: str, incarnations: Incarnations = _ONE_EACH
) -> dict[Place, int]:
    """The offsets at an edge ("start", "end") of the input range in a commit marker."""
    found: dict[Place, int] = {}
    for part in (source, *source.get("others", ())):
        topic, topic_id = part.get("topic", ""), str(part.get("topic_id", ""))
        for p, at in part.get(edge, ()):
            found[topic, incarnations.number(topic, topic_id, int(p))] = int(at)
    return found


@dataclass(frozen=True)
class Lane:
    """The records of one side, each topic partition's in offset order; lists run in parallel.

    Attributes:
        topic: their topic; a deleted topic of that name has partition numbers of its own.
        homes: the state partitions that process each record.
        partitions: partition numbers of the topic; `offsets` in them; `times`: event times in ms.
    """

    topic: str
    homes: Sequence[Sequence[int]]
    partitions: Sequence[int]
    offsets: Sequence[int]
    times: Sequence[int]


@dataclass(frozen=True)
class Seen:
    """Stream time where it differs from the newest record so far.

    Attributes:
        at: stream time that each record of one lane meets, by state partition and row.
        last: the final stream time of each state partition.
    """

    at: Mapping[tuple[int, int], int]
    last: Mapping[int, int]


@dataclass
class Batches:
    """Owns the batches of each state partition.  Feed it all commit markers, in offset order.

    Attributes:
        newest_ms: stream time in the last marker of each state partition.
        broken: why the markers do not show the whole order, in words; empty when they do.
        incarnations: the topics that were recreated.
    """

    newest_ms: dict[int, int] = field(default_factory=dict)
    broken: str = ""
    incarnations: Incarnations = _ONE_EACH
    _ends: dict[int, list[dict[Place, int]]] = field(default_factory=dict)
    _limits: dict[int, list[int | None]] = field(default_factory=dict)

    def add(self, home: int, marker: Mapping[str, Any]) -> None:
        """Takes in the next marker of a state partition."""
        source = marker["source"]
        before = self._ends.setdefault(home, [])
        last = before[-1] if before else {}
        for place, start in offsets_of(source, "start", self.incarnations).items():
            if last.get(place, 0) != start and not self.broken:
                self.broken = (
                    f"the commit markers of state partition {home} do not tell it: one starts at "
                    f"{place_name(*place)} offset {start}, the one before ends at "
                    f"{last.get(place, 0)}"
                )
        before.append(last | offsets_of(source, "end", self.incarnations))
        self._limits.setdefault(home, []).append(marker.get("watermark_ms"))
        self.newest_ms[home] = int(marker.get("stream_time_ms", -(1 << 62)))

    def ends(self) -> dict[Place, int]:
        """The offset of each topic partition up to which every state partition has processed it."""
        last = [ends[-1] for ends in self._ends.values()]
        everywhere = set.intersection(*map(set, last)) if last else set()
        return {place: min(ends[place] for ends in last) for place in everywhere}

    def in_order(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, int, int]]:
        """(state partition, side, row) of every record, one state partition after the other.

        Within a batch each topic partition of each side is a queue in offset order.  The queue
        whose next record has the lowest event time comes first; on a tie the left side, then the
        lower topic partition.
        """
        for home, _, _, place, _, row in self._all(lanes):
            yield home, place >> 32, row

    def by_batch(self, lane: Lane) -> Iterator[tuple[int, list[int]]]:
        """(state partition, rows) of each batch that has rows."""
        for (home, _), found in groupby(self._all([lane]), key=lambda placed: placed[:2]):
            yield home, [placed[-1] for placed in found]

    def seen(self, lane: Lane) -> Seen | None:
        """Stream time by watermarks; None: no batch had one, so each record advances stream time.

        The records of a batch with a watermark do not advance it.  At the end of the batch it
        advances to the newest event time so far, but not beyond the watermark.
        """
        if not any(limit is not None for limits in self._limits.values() for limit in limits):
            return None
        rows: dict[tuple[int, int], list[int]] = {}
        for home, batch, *_, row in self._all([lane]):
            rows.setdefault((home, batch), []).append(row)
        at: dict[tuple[int, int], int] = {}
        last: dict[int, int] = {}
        for home, limits in self._limits.items():
            now = newest = _LONG_AGO
            for batch, limit in enumerate(limits):
                for row in rows.get((home, batch), ()):
                    newest = max(newest, lane.times[row])
                    now = now if limit is not None else max(now, lane.times[row])
                    at[home, row] = now
                if limit is not None:
                    now = max(now, min(newest, limit))
            last[home] = now
        return Seen(at, last)

    def _all(self, lanes: Sequence[Lane]) -> list[tuple[int, int, int, int, int, int]]:
        return sorted(
            placed for side, lane in enumerate(lanes) for placed in self._placed(side, lane)
        )

    def _placed(self, side: int, lane: Lane) -> Iterator[tuple[int, int, int, int, int, int]]:
        """(state partition, batch, time used for its turn, queue, offset, row)."""
        cuts = {
            (home, p): [ends.get((lane.topic, p), 0) for ends in found]
            for home, found in self._ends.items()
            for p in set(lane.partitions)
        }
        turns: dict[tuple[int, int, int], int] = {}
        for row, homes in enumerate(lane.homes):
            p, offset = lane.partitions[row], lane.offsets[row]
            for home in homes:
                batch = bisect_right(cuts.get((home, p), []), offset)
                # A record older than its predecessor in the queue takes that one's turn.
                turn = max(turns.get((home, batch, p), lane.times[row]), lane.times[row])
                turns[home, batch, p] = turn
                yield home, batch, turn, side << 32 | p, offset, row


def home_of(
    types: Sequence[SqlType], state_partitions: int
) -> Callable[[Sequence[Any] | None], int] | None:
    """The state partition of a key; None: unknown for keys of these types."""
    bases = [each.base for each in types]
    if state_partitions == 1:
        return lambda _: 0
    if not {Base.STRING, *_WHOLE}.issuperset(bases):
        return None
    return lambda key: (
        _HASH_OF_NULL % state_partitions
        if key is None or None in key
        else state_partition(_state_key(bases, key), state_partitions)
    )


def _state_key(bases: Sequence[Base], key: Sequence[Any]) -> bytes:
    if len(bases) > 1:
        return orjson.dumps({f"k{i}": part for i, part in enumerate(key)})
    (value,) = key
    return str(value).encode() if bases[0] is Base.STRING else _WHOLE[bases[0]].pack(value)
