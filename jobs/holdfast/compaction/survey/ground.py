"""The facts that brokers report about all changelogs at once, before any record is read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.compaction.survey.cleaner import CleanerView, views_of
from holdfast.transport.cluster.log_dirs import LogSizes, log_sizes
from holdfast.transport.cluster.topic_settings import SettingValue, TopicSettings
from holdfast.transport.cluster.view import ClusterView, OffsetAt, Place, TopicState

__all__ = ["CHANGELOG", "RATE_WINDOW_MS", "Ground", "ground_of"]

CHANGELOG = "-changelog"
RATE_WINDOW_MS = 3_600_000
_SETTLED_MS = 1_000  # a rate over less time says more about the clock than about the job


@dataclass(frozen=True)
class Ground:
    """One moment of the cluster.

    Attributes:
        now_ms: wall time of that moment.
        states, settings: by topic.
        views: log folders on this machine, by broker and path.
        starts, ends, high, newest, first, recent: by topic and partition, for partitions with a
            leader: log start; last stable offset; high watermark; the record of the highest time;
            the first record; the first record of the last hour.
    """

    cluster_id: str
    now_ms: int
    states: Mapping[str, TopicState]
    settings: Mapping[str, Mapping[str, SettingValue]]
    sizes: LogSizes
    views: Mapping[tuple[int, str], CleanerView]
    starts: Mapping[Place, int]
    ends: Mapping[Place, int]
    high: Mapping[Place, int]
    newest: Mapping[Place, OffsetAt]
    first: Mapping[Place, OffsetAt]
    recent: Mapping[Place, OffsetAt]

    def bytes_of(self, place: Place) -> int:
        """Size of the leader's log; 0 without a leader."""
        return self.sizes.bytes_of(*place, self.leader(place)) or 0

    def view_of(self, place: Place) -> CleanerView | None:
        """The leader's log folder, if it lies on this machine."""
        folder = self.sizes.dir_of(*place, self.leader(place))
        return self.views.get((folder.broker, folder.path)) if folder is not None else None

    def leader(self, place: Place) -> int:
        """The leader's broker id; -1 without a leader."""
        return self.states[place[0]].partitions[place[1]].leader

    def written(self, place: Place) -> tuple[float, float]:
        """(offsets per second, seconds over which this was measured) of the last hour.

        A younger log is measured over its age; an empty log gives zeros.
        """
        first, recent = self.first[place], self.recent[place]
        if first.offset < 0:
            return 0.0, 0.0
        window_ms = min(RATE_WINDOW_MS, max(_SETTLED_MS, self.now_ms - first.timestamp_ms))
        offsets = self.ends[place] - recent.offset if recent.offset >= 0 else 0
        return max(0, offsets) * 1000 / window_ms, window_ms / 1000


def ground_of(client: Mapping[str, str], cluster_id: str, topics: Sequence[str]) -> Ground:
    """Asks the brokers, with a dozen requests however many topics there are.

    Raises:
        TopicMissing: one of the topics is gone.
        Refused: an ACL is missing; the message names it.
        KafkaUnavailable: no broker answered in time.
    """
    view = ClusterView(client)
    states = view.topics(topics)
    sizes = log_sizes(client, topics)
    led = [
        (topic, number)
        for topic, state in states.items()
        for number, partition in enumerate(state.partitions)
        if partition.leader >= 0
    ]
    now_ms = int(time.time() * 1000)
    return Ground(
        cluster_id,
        now_ms,
        states,
        TopicSettings(client).of(topics),
        sizes,
        views_of(sizes.dirs, cluster_id),
        view.starts(led),
        view.ends(led),
        view.high_watermarks(led),
        view.newest(led),
        view.since(dict.fromkeys(led, 0)),
        view.since(dict.fromkeys(led, now_ms - RATE_WINDOW_MS)),
    )
