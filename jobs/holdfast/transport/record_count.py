"""Reading on in small topics, and how many records one holds (transaction markers take offsets)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.reader import Chunk, PartitionReader

__all__ = ["RecordCount", "TopicFollower"]


class TopicFollower:
    """Owns how far a small topic was read; every call reads on to its committed end.

    Made for topics that are read whole and then now and then, such as dead letters.  Not
    thread-safe.
    """

    def __init__(
        self, client: Mapping[str, str], topic: str, take: Callable[[Chunk], None]
    ) -> None:
        """Nothing is sent before the first call.

        Args:
            take: gets every chunk once, those of a topic partition in offset order.
        """
        self._client = dict(client)
        self._topic = topic
        self._take = take
        self._readers: dict[int, PartitionReader] = {}
        self._positions: dict[int, int] = {}

    def read_on(self) -> None:
        """Reads what has come since the last call.

        Raises:
            TopicMissing: there is no such topic.
            KafkaUnavailable: the brokers did not answer; what was taken is not read again.
        """
        for partition, (low, high) in shared_admin(self._client).bounds(self._topic).items():
            self._read(partition, max(low, self._positions.get(partition, low)), high)

    def close(self) -> None:
        """Leave the brokers; a later call connects anew and reads on."""
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
    """Counts a topic's committed records; every call reads on from where the last one ended.

    Not thread-safe.
    """

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        """Nothing is sent before the first call."""
        self._follower = TopicFollower(client, topic, self._add)
        self._count = 0

    def count(self) -> int:
        """Records counted so far; those that retention deleted unseen are not among them.

        Raises:
            TopicMissing: there is no such topic.
            KafkaUnavailable: the brokers did not answer; what was counted is kept.
        """
        self._follower.read_on()
        return self._count

    def close(self) -> None:
        """Leave the brokers; a later call connects anew and goes on counting."""
        self._follower.close()

    def _add(self, chunk: Chunk) -> None:
        self._count += len(chunk)
