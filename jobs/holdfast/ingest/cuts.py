"""Cuts: offsets of a topic at which the queries that write it had ended whole batches.

A batch is many transactions, one after the other, and each covers the batch's whole range of event
time.  To a query that reads the topic in between, records of later transactions would be late.  At
a cut nothing is missing: the topic has all results of the records that the writers had read.

    <home>/run/<application.id>/cuts.json

The driver writes the file, and every process that plans batches reads it.  A cut is valid while the
topic exists, but the file is scratch: without it a reader waits for the next cut.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.types.ids import Place
from holdfast.types.times import NO_TIME

__all__ = ["Cut", "CutBook", "cuts_in"]

_MOST = 256  # cuts of a topic; a reader further behind takes larger steps in stream time


@dataclass(frozen=True)
class Cut:
    """One cut of one topic.

    Attributes:
        ends: end offsets by topic partition, exclusive.
        watermark_ms: record time up to which the writers had read all of their sources; `FOREVER`:
            all records; `NO_TIME`: unknown.
    """

    ends: dict[Place, int]
    watermark_ms: int


@dataclass
class CutBook:
    """Owns the cuts of the topics between queries of this job.

    Args:
        file: the file for readers.
        writers: the ids of the queries that write each topic.
    """

    file: Path
    writers: Mapping[str, frozenset[str]]
    _cuts: dict[str, list[Cut]] = field(default_factory=dict)
    _reached: dict[str, int] = field(default_factory=dict)  # by query
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._write()

    def topics_of(self, query_id: str) -> list[str]:
        """The topics that the query writes."""
        return [topic for topic, ids in self.writers.items() if query_id in ids]

    def last(self, topic: str) -> Cut | None:
        """The newest cut of the topic."""
        with self._lock:
            found = self._cuts.get(topic)
            return found[-1] if found else None

    def knows(self, query_id: str) -> bool:
        """Whether the query has ended a batch in this driver, or was level."""
        return query_id in self._reached

    def ended(self, query_id: str, reached_ms: int, ends: Mapping[Place, int]) -> None:
        """Adds a cut: no writer runs a batch, and `query_id` has read up to `reached_ms`.

        Args:
            ends: the end offsets of the topics that it writes.
        """
        with self._lock:
            self._reached[query_id] = reached_ms
            for topic in self.topics_of(query_id):
                times = [self._reached.get(writer, NO_TIME) for writer in self.writers[topic]]
                mine = {place: end for place, end in ends.items() if place[0] == topic}
                self._add(topic, Cut(mine, min(times)))
            self._write()

    def _add(self, topic: str, cut: Cut) -> None:
        cuts = self._cuts.setdefault(topic, [])
        if cuts and cuts[-1].ends == cut.ends:
            cuts.pop()
        cuts.append(cut)
        if len(cuts) > _MOST:
            old = _MOST // 2
            cuts[:old] = cuts[:old:2]

    def _write(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        made = {
            topic: [[_ends_of(c, topic), c.watermark_ms] for c in cuts]
            for topic, cuts in {**{t: [] for t in self.writers}, **self._cuts}.items()
        }
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(made, separators=(",", ":")))
        new.replace(self.file)


def cuts_in(file: Path, topics: Iterable[str]) -> dict[str, list[Cut]]:
    """The cuts in the file for those topics that queries of the job write, oldest first."""
    found = json.loads(file.read_text())
    return {
        topic: [
            Cut({(topic, int(p)): at for p, at in ends.items()}, time)
            for ends, time in found[topic]
        ]
        for topic in topics
        if topic in found
    }


def _ends_of(cut: Cut, topic: str) -> dict[str, int]:
    return {str(p): at for (name, p), at in sorted(cut.ends.items()) if name == topic}
