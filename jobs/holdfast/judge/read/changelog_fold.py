"""Folds a changelog topic: its live rows, and each partition's last commit marker."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from holdfast.judge.read.arrivals import offsets_of
from holdfast.judge.read.changelog_rows import element_of
from holdfast.judge.read.incarnations import Incarnations, living
from holdfast.judge.read.marker_story import MarkerStory

__all__ = ["ChangelogFold", "FoldedPartition", "ProgressFold", "marker_end"]

_ROW, _MARKER = b"\x01", b"\x00"  # first byte of a key
_ELEMENT = b"\x02"  # of a record that is a part of a row, see `changelog_rows`
_SOURCE_MARKER = b"\x00holdfast.commit."  # for queries without state; the source partition follows
_MODULUS = 1 << 128
_HEAD_BYTES = 25  # bytes of a row that `changelog_rows` reads


@dataclass(frozen=True)
class FoldedPartition:
    """One partition of a changelog, folded.

    Attributes:
        rows: the number of live rows, without their elements.
        digest: hex digest of all live keys and values; `StoreDigest` defines it.
        last_offset: offset of its last record, -1 without any.
    """

    rows: int
    digest: str
    last_offset: int


class ChangelogFold:
    """Owns the last record of every key.  Feed it each topic partition in offset order.

    Args:
        partitions: the topic's partitions, one per state partition.
        story: receives every commit marker.
    """

    def __init__(self, partitions: Iterable[int], story: MarkerStory | None = None) -> None:
        self._story = story
        self._live: dict[int, dict[bytes, tuple[int, bytes]]] = {p: {} for p in partitions}
        self._elements: dict[int, dict[bytes, int]] = {p: {} for p in self._live}
        self._last = dict.fromkeys(self._live, -1)
        self.markers: dict[int, dict[str, Any] | None] = dict.fromkeys(self._live)

    def update(self, partition: int, key: bytes | None, value: bytes | None, offset: int) -> None:
        """Takes in one record of the changelog.

        Raises:
            ValueError: a commit marker that is not JSON.
        """
        self._last[partition] = offset
        if key is None:
            return
        live = self._live[partition]
        if key.startswith(_MARKER) and value is not None:
            self.markers[partition] = marker = json.loads(value)
            if self._story is not None:
                self._story.update(partition, marker)
        elif key.startswith(_ROW) and value is None:
            live.pop(key, None)
        elif key.startswith(_ROW) and value is not None:
            live[key] = (_number(key[len(_ROW) :], value), value[:_HEAD_BYTES])
        elif key.startswith(_ELEMENT) and value is None:
            self._elements[partition].pop(key, None)
        elif key.startswith(_ELEMENT) and value is not None:
            self._elements[partition][key] = _number(key, value)

    @property
    def contradictions(self) -> list[str]:
        """The contradictions between the commit markers, in words."""
        return self._story.contradictions if self._story is not None else []

    @property
    def rows(self) -> int:
        """The number of live rows."""
        return sum(map(len, self._live.values()))

    def partitions(self) -> dict[int, FoldedPartition]:
        """Every partition's rows, digest and last offset."""
        return {
            p: FoldedPartition(len(live), self._digest(p), last)
            for (p, live), last in zip(self._live.items(), self._last.values(), strict=True)
        }

    def _digest(self, partition: int) -> str:
        rows = (number for number, _ in self._live[partition].values())
        return f"{sum(chain(rows, self._elements[partition].values())) % _MODULUS:032x}"

    def elements(self) -> Counter[tuple[bytes, int]]:
        """The number of live elements by state key and number of the aggregate.

        Raises:
            struct.error: a malformed key.
        """
        return Counter(element_of(key) for live in self._elements.values() for key in live)

    def heads(self) -> Iterator[tuple[bytes, bytes]]:
        """The live state keys, with the beginning of each row."""
        for live in self._live.values():
            yield from ((key[len(_ROW) :], head) for key, (_, head) in live.items())

    def dropped_late(self) -> int | None:
        """Records dropped as late over all state partitions; None where a marker does not say."""
        total = 0
        for marker in filter(None, self.markers.values()):
            if "dropped_late" not in marker:
                return None
            total += int(marker["dropped_late"])
        return total

    def unlevel(self, input_bounds: Mapping[int, tuple[int, int]]) -> Iterator[str]:
        """State partitions that have not processed the whole input, in words."""
        wanted = {p: end for p, (start, end) in living(input_bounds).items() if end > start}
        for partition, marker in sorted(self.markers.items()):
            ends = self._end(marker)
            if any(ends.get(p, 0) < end for p, end in wanted.items()):
                yield f"state partition {partition}: has {ends}, the input ends at {wanted}"

    def taken_in(self) -> dict[int, int]:
        """By topic partition of the input, the offset that all state partitions have reached."""
        ends = [self._end(marker) for marker in self.markers.values()]
        everywhere = set.intersection(*map(set, ends)) if ends else set()
        return {p: min(end[p] for end in ends) for p in everywhere}

    def _end(self, marker: Mapping[str, Any] | None) -> dict[int, int]:
        known = self._story.incarnations if self._story is not None else Incarnations()
        return marker_end(marker, known)


class ProgressFold:
    """Owns the last commit marker of each source topic partition of a query without state."""

    def __init__(self, story: MarkerStory | None = None) -> None:
        """`story` receives every commit marker that goes back."""
        self._story = story
        self._markers: dict[int, Mapping[str, Any]] = {}

    def update(self, key: bytes | None, value: bytes | None) -> None:
        """Takes in one record of the progress topic; ignores other keys.

        Raises:
            ValueError: a commit marker that is not JSON.
        """
        if key is None or value is None or not key.startswith(_SOURCE_MARKER):
            return
        partition, marker = int(key[len(_SOURCE_MARKER) :]), json.loads(value)
        if self._story is not None:
            self._tell(self._story, partition, marker)
        self._markers[partition] = marker

    def _tell(self, story: MarkerStory, partition: int, marker: Mapping[str, Any]) -> None:
        last = self._markers.get(partition)
        topic, topic_id = str(marker.get("topic", "its topic")), str(marker.get("topic_id", ""))
        known = topic_id if last is None else str(last.get("topic_id", ""))
        before, after = 0 if last is None else int(last["offset"]), int(marker["offset"])
        if known == topic_id and after < before:
            story.went_back(partition, f"{topic}-{partition}", before, after)
        begun = after - int(marker.get("records", 0)) + int((last or {}).get("records", 0))
        number = story.incarnations.number
        story.check_id(
            partition,
            topic,
            (known, topic_id),
            {number(topic, known, partition): before},
            {number(topic, topic_id, partition): begun},
            partition,
        )

    @property
    def contradictions(self) -> list[str]:
        """The contradictions between the commit markers, in words."""
        return self._story.contradictions if self._story is not None else []

    def unlevel(self, input_bounds: Mapping[int, tuple[int, int]]) -> Iterator[str]:
        """Topic partitions of the input that are not processed to their end, in words."""
        taken_in = self.taken_in()
        for partition, (start, end) in sorted(living(input_bounds).items()):
            taken = taken_in.get(partition)
            if end > start and (taken is None or taken < end):
                yield f"source partition {partition}: has {taken}, the input ends at {end}"

    def taken_in(self) -> dict[int, int]:
        """By topic partition of the input, the offset up to which it is processed."""
        known = self._story.incarnations if self._story is not None else Incarnations()
        return {
            known.number(str(m.get("topic", "")), str(m.get("topic_id", "")), p): int(m["offset"])
            for p, m in self._markers.items()
        }


def marker_end(
    marker: Mapping[str, Any] | None, incarnations: Incarnations | None = None
) -> dict[int, int]:
    """The source offsets that a commit marker reaches, by topic partition; empty without one."""
    if marker is None:
        return {}
    ends = offsets_of({**marker["source"], "others": ()}, "end", incarnations or Incarnations())
    return {number: end for (_, number), end in ends.items()}


def _number(key: bytes, value: bytes) -> int:
    length = len(key).to_bytes(4, "big")
    return int.from_bytes(hashlib.sha256(length + key + value).digest()[:16], "big")
