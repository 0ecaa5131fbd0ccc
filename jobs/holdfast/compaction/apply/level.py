"""Does the job keep up?  Cleaning takes disk and CPU from it, so the next topic waits for it.

It asks Kafka only: how far the query's consumer group is behind the end of its source topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from holdfast.compaction.survey.facts import TopicFacts
from holdfast.compaction.survey.records import RecordReader
from holdfast.errors import HoldfastError, Refused
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import consumer_group

__all__ = ["JobLevel"]

_POLL_S = 1.0


@dataclass(frozen=True)
class _Query:
    """A query's consumer group, one of its source topics, and its lag when the apply began."""

    group: str
    source: str
    lag: int


class JobLevel:
    """Owns the lag that the queries of some changelogs had when an apply began."""

    def __init__(self, client: Mapping[str, str], topics: Sequence[TopicFacts]) -> None:
        """Reads the lag now; skips queries whose source or group is unknown or may not be read.

        Raises:
            KafkaUnavailable: no broker answered.
        """
        self._admin = Admin(client)
        self._queries = []
        for topic in topics:
            with suppress(Refused):
                group = consumer_group(topic.application_id, topic.query_id)
                for source in _source_topics(self._admin, client, topic):
                    if self._admin.committed(group, source):
                        self._queries.append(_Query(group, source, self._lag(group, source)))

    def await_level(self, bound_s: float, tell: Callable[[str], None]) -> tuple[float, str]:
        """Waits until no query's lag exceeds its first one, or all have passed the present ends.

        Returns:
            Seconds waited, and a note where the bound ended the wait, else "".
        """
        began = time.monotonic()
        ends = {q: self._ends(q) for q in self._queries}
        while True:
            behind = {q: lag for q in self._queries if (lag := self._behind(q, ends[q])) > 0}
            waited = time.monotonic() - began
            if not behind:
                return waited, ""
            if waited >= bound_s:
                return waited, _note(waited, sum(behind.values()))
            tell(f"waiting for the job to be level: {sum(behind.values()):,} records behind")
            time.sleep(_POLL_S)

    def _ends(self, query: _Query) -> dict[int, int]:
        try:
            return self._admin.end_offsets(query.source)
        except HoldfastError:
            return {}  # a query whose source topic is gone is not behind

    def _behind(self, query: _Query, ends: Mapping[int, int]) -> int:
        """The records left until the query has caught up; 0 when it has."""
        try:
            committed = self._admin.committed(query.group, query.source)
            now = self._lag(query.group, query.source)
        except HoldfastError:
            return 0  # the wait is a courtesy; the apply's own steps report unavailable brokers
        left = sum(max(0, end - committed.get(p, 0)) for p, end in ends.items())
        return 0 if now <= query.lag else left

    def _lag(self, group: str, source: str) -> int:
        committed = self._admin.committed(group, source)
        ends = self._admin.end_offsets(source)
        return sum(max(0, end - committed.get(p, 0)) for p, end in ends.items())


def _source_topics(admin: Admin, client: Mapping[str, str], topic: TopicFacts) -> list[str]:
    """The source topics named in a changelog's last commit marker; none without a marker."""
    for facts in sorted(topic.partitions, key=lambda p: -p.end):
        start, end = admin.bounds(topic.topic)[facts.partition]
        reader = RecordReader(client, topic.topic, facts.partition)
        try:
            marker = reader.tail(start, end).marker
        finally:
            reader.close()
        if marker is not None:
            return list(marker.source.topics)
    return []


def _note(waited_s: float, behind: int) -> str:
    return (
        f"After {waited_s:.0f} s the job was still {behind:,} records behind; the next topic was "
        "not kept waiting any longer."
    )
