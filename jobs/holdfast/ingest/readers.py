"""Kafka clients that outlive a task: Spark reuses its Python workers from batch to batch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from holdfast.transport.reader import PartitionReader

__all__ = ["reader"]

_READERS_MAX = 16

_Client = tuple[tuple[str, str], ...]
_readers: OrderedDict[tuple[_Client, str, str, int, bool], PartitionReader] = OrderedDict()


def reader(
    client: Mapping[str, str], query: str, topic: str, partition: int, *, headers: bool = False
) -> PartitionReader:
    """This process's reader of a topic partition; evicts the least recently used one.

    Each query has its own readers, because queries are at different offsets.
    """
    key = (_identity(client), query, topic, partition, headers)
    found = _readers.get(key)
    if found is None:
        found = _readers[key] = PartitionReader(client, topic, partition, headers=headers)
    _readers.move_to_end(key)
    while len(_readers) > _READERS_MAX:
        _readers.popitem(last=False)[1].close()
    return found


def _identity(client: Mapping[str, str]) -> _Client:
    return tuple(sorted(client.items()))
