"""What the brokers are asked about all changelogs at once, before any record is read."""

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
_SETTLED_MS = 1_000  # a rate over less says more of the clock than of the job


@dataclass(frozen=True)
class Ground:
    """One moment of the cluster.

    Attributes:
        now_ms: wall time of that moment.
        states, settings: by topic.
        views: of log folders on this machine, by broker and path.
        starts, ends, high, newest, first, recent: by topic and partition, of those that have a
            leader; the end that open transactions do not hold back, the record of the highest
            time, the first record, the first one of the last hour.
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
        """Of the leader's log; 0 without a leader."""
        return self.sizes.bytes_of(*place, self.leader(place)) or 0

    def view_of(self, place: Place) -> CleanerView | None:
        """The leader's log folder, if it lies on this machine."""
        folder = self.sizes.dir_of(*place, self.leader(place))
        return self.views.get((folder.broker, folder.path)) if folder is not None else None

    def leader(self, place: Place) -> int:
        """Broker id; -1 without one."""
        return self.states[place[0]].partitions[place[1]].leader

    def written(self, place: Place) -> tuple[float, float]:
        """(offsets per second, seconds that this was found over) of the last hour.

        A log that is younger is judged by its age; one that holds nothing by nothing.
        """
        first, recent = self.first[place], self.recent[place]
        if first.offset < 0:
            return 0.0, 0.0
        window_ms = min(RATE_WINDOW_MS, max(_SETTLED_MS, self.now_ms - first.timestamp_ms))
        offsets = self.ends[place] - recent.offset if recent.offset >= 0 else 0
        return max(0, offsets) * 1000 / window_ms, window_ms / 1000


def ground_of(client: Mapping[str, str], cluster_id: str, topics: Sequence[str]) -> Ground:
    """Asks the brokers; a dozen requests, however many topics.

    Raises:
        TopicMissing: one of the topics is gone.
        Refused: an ACL is missing, which is named.
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
