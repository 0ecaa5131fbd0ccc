"""Whether the commit markers of a query go on from each other, and are its own.

Each marker tells how far a state partition has taken its input in.  One that lacks a topic
partition which the one before it has, or has it at a lower offset, makes the next start read
records again that are in the rows already, however right the rows are now.

A topic that was deleted and made again has another id.  Its markers may begin anew exactly once,
when the topic before it was taken in to its end, and at its own start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.judge.read.arrivals import Place, offsets_of
from holdfast.judge.read.incarnations import Incarnations, place_name

__all__ = ["MarkerStory"]


class MarkerStory:
    """Owns what the markers of one query contradict.  Feed it each partition's in offset order.

    Args:
        application_id: that every marker must name, and so `query_id`.
        incarnations: topics that were made again; of other names any new id is believed.

    Attributes:
        contradictions: in words.
    """

    def __init__(
        self, application_id: str, query_id: str, incarnations: Incarnations | None = None
    ) -> None:
        self.incarnations = incarnations or Incarnations()
        self._names = {"application_id": application_id, "query_id": query_id}
        self._query_id = query_id
        self._last: dict[int, dict[Place, int]] = {}
        self._ids: dict[int, dict[str, str]] = {}
        self.contradictions: list[str] = []

    def update(self, partition: int, marker: Mapping[str, Any]) -> None:
        """The next marker of a state partition, in the changelog partition of that number."""
        self._compare_names(partition, marker)
        source = marker["source"]
        ends = offsets_of(source, "end", self.incarnations)
        starts = offsets_of(source, "start", self.incarnations)
        last, ids = self._last.get(partition, {}), self._ids.setdefault(partition, {})
        for topic, topic_id in _topic_ids(source).items():
            before = ids.get(topic, topic_id)
            self.check_id(
                partition, topic, (before, topic_id), _of(last, topic), _of(starts, topic)
            )
            if before != topic_id:  # another topic of that name
                last = {place: end for place, end in last.items() if place[0] != topic}
            ids[topic] = topic_id
        self._compare(partition, last, ends)
        self._last[partition] = last | ends

    def check_id(
        self,
        partition: int,
        topic: str,
        ids: tuple[str, str],
        ends: Mapping[int, int],
        starts: Mapping[int, int],
        only: int | None = None,
    ) -> None:
        """Tells what is wrong with the topic that a marker names; see `Incarnations.replaced`."""
        before, after = ids
        if not self.incarnations.knows(topic, after):
            self._tell(partition, f"names the id {after} of {topic}, which it never had")
        elif before != after:
            for what in self.incarnations.replaced(topic, ids, ends, starts, only):
                self._tell(partition, what)

    def went_back(self, partition: int, place: str, before: int, after: int) -> None:
        """A query without state has a marker for each source topic partition."""
        self._tell(partition, f"goes back from {before} to {after} of {place}")

    def _compare(
        self, partition: int, last: Mapping[Place, int], ends: Mapping[Place, int]
    ) -> None:
        for place, before in sorted(last.items()):
            after, name = ends.get(place), place_name(*place)
            if after is None:
                self._tell(partition, f"lacks {name}, which the one before it has to {before}")
            elif after < before:
                self._tell(partition, f"goes back from {before} to {after} of {name}")

    def _compare_names(self, partition: int, marker: Mapping[str, Any]) -> None:
        wanted = {**self._names, "state_partition": partition}
        for name, value in wanted.items():
            found = marker.get(name, value)
            if found != value:
                self._tell(partition, f"has the {name.replace('_', ' ')} {found}, not {value}")

    def _tell(self, partition: int, what: str) -> None:
        self.contradictions.append(
            f"{self._query_id}: a commit marker in partition {partition} {what}"
        )


def _of(places: Mapping[Place, int], topic: str) -> dict[int, int]:
    return {number: at for (of, number), at in places.items() if of == topic}


def _topic_ids(source: Mapping[str, Any]) -> dict[str, str]:
    """Ids of the topics, as far as the marker tells them."""
    parts = [source, *source.get("others", ())]
    return {part["topic"]: str(part["topic_id"]) for part in parts if part.get("topic_id")}
