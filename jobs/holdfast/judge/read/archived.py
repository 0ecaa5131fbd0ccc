"""An observer that still shows the topics that a run has deleted.

Their records come before their successors', with the partition numbers of `incarnations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from holdfast.judge.read.incarnations import Bounds, Incarnation, Incarnations, living, numbered
from holdfast.judge.read.observe import Observer, Record
from holdfast.judge.read.topic_archive import Archive

__all__ = ["ArchivedObserver"]


class ArchivedObserver(Observer):
    """Reads one job's topics, and the archived records of recreated ones.

    Args:
        kept: the archives in the order of deletion.

    Raises:
        KafkaUnavailable, TopicMissing: a deleted topic was not recreated.
    """

    def __init__(
        self, client: Mapping[str, str], application_id: str, kept: Sequence[Archive]
    ) -> None:
        super().__init__(client, application_id)
        self._kept: dict[str, list[Archive]] = {}
        every: dict[str, list[Incarnation]] = {}
        for topic in dict.fromkeys(archive.topic.topic for archive in kept):
            now = self._now(topic)
            gone = [a for a in kept if a.topic.topic == topic and a.topic.topic_id != now.topic_id]
            self._kept[topic], every[topic] = gone, [*(a.topic for a in gone), now]
        self.incarnations = Incarnations(every)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Bounds that include the deleted topics of that name."""
        return super().bounds(topic) | self.incarnations.gone(topic)

    def records(self, topic: str, bounds: Bounds, *, headers: bool = False) -> Iterator[Record]:
        """Records that begin with those of the deleted topics."""
        plain = self._plain.get(topic)
        old = (
            replace(
                record,
                partition=numbered(turn, record.partition),
                key=record.key if plain is None else plain.key(record.key),
                value=record.value if plain is None else plain.value(record.value),
            )
            for turn, archive in enumerate(self._kept.get(topic, ()))
            for record in archive.records(_of(turn, archive, bounds))
        )
        return chain(old, super().records(topic, living(bounds), headers=headers))

    def _now(self, topic: str) -> Incarnation:
        look = self._admin.look(topic)
        return Incarnation(topic, look.topic_id, look.bounds)


def _of(turn: int, archive: Archive, bounds: Bounds) -> Bounds:
    found = {p: bounds.get(numbered(turn, p)) for p in archive.topic.bounds}
    return {p: each for p, each in found.items() if each is not None}
