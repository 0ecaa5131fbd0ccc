"""Which topics of one name there were, one after the other: offsets belong to a topic id.

The judge gives each topic partition a number.  Those of the topic that is there now keep theirs;
partition p of the n-th deleted topic of that name (from 0) is (n + 1) * 65,536 + p.  So the two
never meet in one place, and a marker's topic id says which of them it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

__all__ = [
    "PARTITION_SQL",
    "Bounds",
    "Incarnation",
    "Incarnations",
    "age",
    "by_age",
    "living",
    "numbered",
    "partition_of",
    "place_name",
]

_SPAN = 1 << 16
_NOW = 1 << 31
PARTITION_SQL = f"({{}} % {_SPAN})"
"""`partition_of` in DuckDB's SQL."""
Bounds = Mapping[int, tuple[int, int]]
_T = TypeVar("_T")


def partition_of(number: int) -> int:
    """The partition that a number stands for, in its own topic."""
    return number % _SPAN


def age(number: int) -> int:
    """Orders topics of one name by time: all records of a lower one came first."""
    return number // _SPAN or _NOW


def by_age(numbers: Sequence[int]) -> list[list[int]]:
    """The numbers topic by topic, the oldest first."""
    return [[n for n in numbers if age(n) == each] for each in sorted(set(map(age, numbers)))]


def living(numbers: Mapping[int, _T]) -> dict[int, _T]:
    """Those of the topic that is there now."""
    return {number: found for number, found in numbers.items() if number < _SPAN}


def place_name(topic: str, number: int) -> str:
    """A topic partition for people: `orders-0`, or `orders-0 of deleted topic 1`."""
    gone = f" of deleted topic {number // _SPAN}" if number >= _SPAN else ""
    return f"{topic}-{partition_of(number)}{gone}"


@dataclass(frozen=True)
class Incarnation:
    """One topic; `bounds` are log start and end by its own partitions."""

    topic: str
    topic_id: str
    bounds: Bounds

    @property
    def empty(self) -> bool:
        """Had it no record?"""
        return all(start == end for start, end in self.bounds.values())

    def within(self, only: int | None) -> Incarnation:
        """The same with only this partition; None: with all."""
        if only is None:
            return self
        return replace(self, bounds={p: b for p, b in self.bounds.items() if p == only})


@dataclass(frozen=True)
class Incarnations:
    """All topics of each name that was made again in a run.

    Attributes:
        of: by name, the oldest first; the last is there now.
    """

    of: Mapping[str, Sequence[Incarnation]] = field(default_factory=dict)

    def number(self, topic: str, topic_id: str, partition: int) -> int:
        """Of a topic partition; an id that is not known is taken for the living topic's."""
        for turn, gone in enumerate(self.of.get(topic, ())[:-1]):
            if gone.topic_id == topic_id:
                return numbered(turn, partition)
        return partition

    def gone(self, topic: str) -> dict[int, tuple[int, int]]:
        """Bounds of the deleted topics of that name, by number."""
        return {
            numbered(turn, p): found
            for turn, each in enumerate(self.of.get(topic, ())[:-1])
            for p, found in each.bounds.items()
        }

    def knows(self, topic: str, topic_id: str) -> bool:
        """Was there such a topic?  True of names of which nothing is known."""
        every = self.of.get(topic, ())
        return not every or any(each.topic_id == topic_id for each in every)

    def replaced(
        self,
        topic: str,
        ids: tuple[str, str],
        ends: Mapping[int, int],
        starts: Mapping[int, int],
        only: int | None = None,
    ) -> list[str]:
        """What is wrong with markers that go on from one topic to another of its name, in words.

        Args:
            ids: the topic's in one marker, and in the next.
            ends: how far the first had taken it in, by number.
            starts: where the second begins, by number.
            only: the partition that the markers are of; None: of all.
        """
        every = [each.within(only) for each in self.of.get(topic, ())]
        turns = {each.topic_id: turn for turn, each in enumerate(every)}
        if not every:
            return []
        old, new = (turns.get(topic_id, -1) for topic_id in ids)
        if not 0 <= old < new or not all(each.empty for each in every[old + 1 : new]):
            return [f"goes on from {topic} of the id {ids[0]} to that of the id {ids[1]}"]
        first = {p: start for p, (start, _) in every[new].bounds.items()}
        return [
            f"leaves {place_name(topic, numbered(old, p))} at {found} of {end}"
            for p, (start, end) in sorted(every[old].bounds.items())
            if (found := ends.get(numbered(old, p), start)) != end
        ] + [
            f"begins {place_name(topic, number)} at {at}, its log begins at {log}"
            for number, at in sorted(starts.items())
            if at != (log := first.get(partition_of(number), 0))
        ]


def numbered(turn: int, partition: int) -> int:
    """The number of a partition of deleted topic `turn`, from 0."""
    return (turn + 1) * _SPAN + partition
