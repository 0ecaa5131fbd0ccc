"""Ends batches of sources that other queries of the job write: at a cut, if possible.

Stream time only advances at cuts.  A batch that must be smaller than the range between two cuts
does not advance it: more of the writers' batch is to come, in any order of event time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.ingest.cuts import Cut
from holdfast.types.ids import Place
from holdfast.types.ingest import Planned
from holdfast.types.times import FOREVER, NO_TIME

__all__ = ["Chained"]


@dataclass(frozen=True)
class Chained:
    """The readable range from `begin`, and the cuts of the topics that have writers here.

    Attributes:
        begin: next offset by topic partition; missing ones begin at the log start.
        bounds: log start and end.
        cuts: by topic, oldest first; empty for a topic without a known cut.
    """

    begin: Mapping[Place, int]
    bounds: Mapping[Place, tuple[int, int]]
    cuts: Mapping[str, Sequence[Cut]]

    @cached_property
    def _first(self) -> dict[Place, int]:
        return {p: max(self.begin.get(p, low), low) for p, (low, _) in self.bounds.items()}

    @cached_property
    def _ahead(self) -> dict[str, list[Cut]]:
        """By topic with writers: the cuts at which a batch may end, including one at its start."""
        return {topic: [c for c in cuts if self._usable(c)] for topic, cuts in self.cuts.items()}

    def _usable(self, cut: Cut) -> bool:
        """Whether a batch can end at the cut: no place is beyond it, and all of it is readable."""
        return all(
            self._first[p] <= end <= self.bounds[p][1]
            for p, end in cut.ends.items()
            if p in self.bounds
        )

    def _ends(self, chosen: Mapping[str, Cut]) -> dict[Place, int]:
        """End offsets: the chosen cuts, and the log ends of other topics."""
        ends = {}
        for place, (_, high) in self.bounds.items():
            topic = place[0]
            if topic in chosen:
                ends[place] = chosen[topic].ends.get(place, self._first[place])
            elif self.cuts.get(topic):
                ends[place] = self._first[place]  # beyond every cut: wait for the next one
            else:
                ends[place] = high
        return ends

    def at_a_cut(self, limit: int | None) -> Planned | None:
        """The largest batch of at most `limit` offsets that ends at cuts; None: there is none."""
        if not self.cuts:
            return None
        for back in range(max(map(len, self._ahead.values()))):
            chosen = {t: c[max(len(c) - 1 - back, 0)] for t, c in self._ahead.items() if c}
            ends = self._ends(chosen)
            taken = self._taken(ends)
            if not taken and not back:
                watermark = self._watermark(chosen)
                return Planned({**self.begin, **self._ends_of_nothing(ends)}, watermark, watermark)
            if taken and (limit is None or taken <= limit):
                watermark = self._watermark(chosen)
                return Planned({**self.begin, **ends}, watermark, watermark)
        return None

    def _ends_of_nothing(self, ends: Mapping[Place, int]) -> dict[Place, int]:
        """The ends without new places, because a new empty place needs no batch."""
        return {p: self.begin[p] for p in ends if p in self.begin}

    def _watermark(self, chosen: Mapping[str, Cut]) -> int:
        """The lowest watermark of all topics that have writers."""
        times = [chosen[t].watermark_ms if t in chosen else NO_TIME for t in self.cuts]
        return min(times, default=FOREVER)

    @property
    def open_bounds(self) -> dict[Place, tuple[int, int]]:
        """Bounds for a batch that cannot reach the next cut: it ends there at the latest."""
        nearest = {topic: self._next(cuts) for topic, cuts in self._ahead.items() if cuts}
        ends = self._ends(nearest)
        return {place: (low, ends[place]) for place, (low, _) in self.bounds.items()}

    def _next(self, cuts: Sequence[Cut]) -> Cut:
        """The first cut beyond the start; without one, the cut at the start."""
        beyond = (c for c in cuts if any(e > self._first.get(p, e) for p, e in c.ends.items()))
        return next(beyond, cuts[-1])

    def within_a_cut(self, planned: Planned) -> Planned:
        """The batch with its watermark; none if no source has a writer here."""
        if not self.cuts:
            return planned
        nearest = {t: self._next(cuts) for t, cuts in self._ahead.items() if cuts}
        reached = planned.reached_ms if planned.reached_ms is not None else NO_TIME
        whole = all(
            planned.end.get(p, 0) >= end for c in nearest.values() for p, end in c.ends.items()
        )
        watermark = min(reached, self._watermark(nearest)) if whole else NO_TIME
        return Planned(planned.end, watermark, watermark)

    def _taken(self, ends: Mapping[Place, int]) -> int:
        return sum(max(end - self._first[place], 0) for place, end in ends.items())

    def leaves(self, end: Mapping[Place, int]) -> bool:
        """Whether a batch with that end leaves records that could be read already."""
        last = {topic: cuts[-1] for topic, cuts in self._ahead.items() if cuts}
        return any(end.get(p, 0) < e for p, e in self._ends(last).items())
