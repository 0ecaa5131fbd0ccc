"""Whether the commit markers of a query go on from each other, and are its own.

Each marker tells how far a state partition has taken its input in.  One that lacks a topic
partition which the one before it has, or has it at a lower offset, makes the next start read
records again that are in the rows already, however right the rows are now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.chaos.arrivals import Place, offsets_of

__all__ = ["MarkerStory"]


class MarkerStory:
    """Owns what the markers of one query contradict.  Feed it each partition's in offset order.

    Args:
        application_id: that every marker must name, and so `query_id`.

    Attributes:
        contradictions: in words.
    """

    def __init__(self, application_id: str, query_id: str) -> None:
        self._names = {"application_id": application_id, "query_id": query_id}
        self._query_id = query_id
        self._last: dict[int, dict[Place, int]] = {}
        self._ids: dict[int, dict[str, str]] = {}
        self.contradictions: list[str] = []

    def update(self, partition: int, marker: Mapping[str, Any]) -> None:
        """The next marker of a state partition, in the changelog partition of that number."""
        self._compare_names(partition, marker)
        source = marker["source"]
        ends, last = offsets_of(source, "end"), self._last.get(partition, {})
        ids, known = _topic_ids(source), self._ids.get(partition, {})
        for place, before in sorted(last.items()):
            topic, p = place
            if topic in ids and topic in known and ids[topic] != known[topic]:
                last = {at: end for at, end in last.items() if at[0] != topic}
                continue  # another topic of that name: it is read from its own start
            after = ends.get(place)
            if after is None:
                self._tell(partition, f"lacks {topic}-{p}, which the one before it has to {before}")
            elif after < before:
                self._tell(partition, f"goes back from {before} to {after} of {topic}-{p}")
        self._last[partition] = last | ends
        self._ids[partition] = known | ids

    def went_back(self, partition: int, place: str, before: int, after: int) -> None:
        """A query without state has a marker for each source topic partition."""
        self._tell(partition, f"goes back from {before} to {after} of {place}")

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


def _topic_ids(source: Mapping[str, Any]) -> dict[str, str]:
    """Ids of the topics, as far as the marker tells them."""
    parts = [source, *source.get("others", ())]
    return {part["topic"]: str(part["topic_id"]) for part in parts if part.get("topic_id")}
