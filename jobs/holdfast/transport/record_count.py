"""Follows small topics, and counts their records (transaction markers take offsets, too)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.reader import Chunk, PartitionReader

__all__ = ["RecordCount", "TopicFollower"]


class TopicFollower:
    """Owns the position in a small topic; every call reads on to its committed end.

    For topics that are read as a whole and then at intervals, such as dead letters.  Not
    thread-safe.
    """

    def __init__(
        self, client: Mapping[str, str], topic: str, take: Callable[[Chunk], None]
    ) -> None:
        """Sends nothing before the first call.

        Args:
            take: called once with every chunk; chunks of a topic partition come in offset order.
        """
        self._client = dict(client)
        self._topic = topic
        self._take = take
        self._readers: dict[int, PartitionReader] = {}
        self._positions: dict[int, int] = {}

    def read_on(self) -> None:
        """Reads the records written since the last call.

        Raises:
            TopicMissing: there is no such topic.
            KafkaUnavailable: the brokers did not answer; `take` gets no chunk again.
        """
        for partition, (low, high) in shared_admin(self._client).bounds(self._topic).items():
            self._read(partition, max(low, self._positions.get(partition, low)), high)

    def close(self) -> None:
        """Closes the connection; a later call reconnects and reads on."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _read(self, partition: int, start: int, end: int) -> None:
        if start >= end:
            return
        reader = self._readers.get(partition)
        if reader is None:
            reader = PartitionReader(self._client, self._topic, partition)
            self._readers[partition] = reader
        for chunk in reader.read(start, end):
            self._take(chunk)
            self._positions[partition] = chunk.position


class RecordCount:
    """Counts a topic's committed records; every call continues where the last one ended.

    Not thread-safe.
    """

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        """Sends nothing before the first call."""
        self._follower = TopicFollower(client, topic, self._add)
        self._count = 0

    def count(self) -> int:
        """Records counted so far, without those that retention deleted before they were read.

        Raises:
            TopicMissing: there is no such topic.
            KafkaUnavailable: the brokers did not answer; the count so far is kept.
        """
        self._follower.read_on()
        return self._count

    def close(self) -> None:
        """Closes the connection; a later call reconnects and counts on."""
        self._follower.close()

    def _add(self, chunk: Chunk) -> None:
        self._count += len(chunk)
