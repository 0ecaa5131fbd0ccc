"""How many records a topic holds, for topics whose offsets do not tell (transaction markers)."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.transport.admin import Admin
from holdfast.transport.reader import PartitionReader

__all__ = ["RecordCount"]


class RecordCount:
    """Counts a topic's committed records; every call reads on from where the last one ended.

    Made for small topics that are only written to, such as dead letters.  Not thread-safe.
    """

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        """Nothing is sent before the first call."""
        self._client = dict(client)
        self._topic = topic
        self._admin: Admin | None = None
        self._readers: dict[int, PartitionReader] = {}
        self._positions: dict[int, int] = {}
        self._count = 0

    def count(self) -> int:
        """Records counted so far; those that retention deleted unseen are not among them.

        Raises:
            TopicMissing: there is no such topic.
            KafkaUnavailable: the brokers did not answer; what was counted is kept.
        """
        self._admin = self._admin or Admin(self._client)
        for partition, (low, high) in self._admin.bounds(self._topic).items():
            self._read(partition, max(low, self._positions.get(partition, low)), high)
        return self._count

    def close(self) -> None:
        """Leave the brokers; a later call connects anew and goes on counting."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        self._admin = None

    def _read(self, partition: int, start: int, end: int) -> None:
        if start >= end:
            return
        reader = self._readers.get(partition)
        if reader is None:
            reader = PartitionReader(self._client, self._topic, partition)
            self._readers[partition] = reader
        for chunk in reader.read(start, end):
            self._count += len(chunk)
            self._positions[partition] = chunk.position
