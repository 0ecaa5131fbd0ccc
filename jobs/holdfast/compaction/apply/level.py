"""Does the job keep up?  Cleaning takes disk and processor from it, so nobody hurries it on.

Asked of Kafka alone: how far the query's group is behind the end of its source topic.
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
    """A query's group and one of its source topics, and how far it was behind at first."""

    group: str
    source: str
    lag: int


class JobLevel:
    """Owns how far the queries of some changelogs were behind when an apply began."""

    def __init__(self, client: Mapping[str, str], topics: Sequence[TopicFacts]) -> None:
        """Asks at once; queries whose source or group nobody knows or may see are left out.

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
        """Wait until no query is further behind than at first, or all have passed the ends of now.

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
            return {}  # whose source is gone is not behind

    def _behind(self, query: _Query, ends: Mapping[int, int]) -> int:
        """Records that are left until the query is level; 0 when it is."""
        try:
            committed = self._admin.committed(query.group, query.source)
            now = self._lag(query.group, query.source)
        except HoldfastError:
            return 0  # this is courtesy; what the apply needs tells of brokers that are away
        left = sum(max(0, end - committed.get(p, 0)) for p, end in ends.items())
        return 0 if now <= query.lag else left

    def _lag(self, group: str, source: str) -> int:
        committed = self._admin.committed(group, source)
        ends = self._admin.end_offsets(source)
        return sum(max(0, end - committed.get(p, 0)) for p, end in ends.items())


def _source_topics(admin: Admin, client: Mapping[str, str], topic: TopicFacts) -> list[str]:
    """The source topics that the last commit marker of a changelog names; none without a marker."""
    for facts in sorted(topic.partitions, key=lambda p: -p.end):
        start, end = admin.bounds(topic.topic)[facts.partition]
        reader = RecordReader(client, topic.topic, facts.partition)
        try:
            marker = reader.tail(start, end).marker
        finally:
            reader.close()
        if marker is not None:
            return [part.topic for part in marker.source.parts]
    return []


def _note(waited_s: float, behind: int) -> str:
    return (
        f"After {waited_s:.0f} s the job was still {behind:,} records behind; the next topic was "
        "not kept waiting any longer."
    )
