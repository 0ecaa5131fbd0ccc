"""The topics and standbys of a query server, made from a case: no broker, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.serve.follow.standby import Standby
from holdfast.serve.tables import StoredTable
from holdfast.state.memory import MemoryStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.testing.bytes_of import RawRecord
from holdfast.testing.phases import Life
from holdfast.testing.topics import Topics
from holdfast.transport.cluster.admin import TopicInfo
from holdfast.transport.reader import Chunk
from holdfast.transport.tail import Tail
from holdfast.types.ids import Place

__all__ = ["SERVER", "MemoryTail", "MemoryTopics", "chunk_of", "standby_of"]

SERVER = "0"
_ID = "test"


def standby_of(table: StoredTable, topics: Topics, life: Life) -> Standby:
    """A standby that has followed its topic to the end."""
    rows: Mapping[bytes, bytes | None]
    if table.has_markers and table.query_id is not None:
        rows = dict(life.rows(table.query_id))
    else:
        rows = table.rows_of(chunk_of(topics.records(table.topic))).rows
    keys, values = list(rows), list(rows.values())
    store = TableStore(MemoryStore(), windowed=False)
    position = StorePosition(_ID, max(len(keys), 1), 0, table.fingerprint or "")
    store.load(keys, values, position=position, marker=None)
    store.end_load()
    standby = Standby(table, 0, store, SERVER)
    standby.begin()
    return standby


def chunk_of(records: Sequence[RawRecord], start: int = 0) -> Chunk:
    """Records in the form that a reader returns; `start` is the offset of the first one."""
    return Chunk(
        keys=[r.key for r in records],
        values=[r.value for r in records],
        offsets=list(range(start, start + len(records))),
        timestamps=[r.timestamp for r in records],
        position=start + len(records),
        headers=[list(r.headers) for r in records],
    )


class MemoryTopics:
    """A case's topics with the interface of a cluster's `Admin`: one partition each."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def describe(self, topic: str) -> TopicInfo | None:
        """Describes the topic; every topic exists."""
        return TopicInfo(topic, _ID, 1, 1)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """The bounds from the first record to behind the last one."""
        return {0: (0, len(self._topics.records(topic)))}

    def tail(self) -> MemoryTail:
        """A reader of the topics."""
        return MemoryTail(self._topics)


class MemoryTail:
    """Follows a case's topics like `TailReader`."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._at: dict[Place, int] = {}

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Follows a topic from this offset on."""
        self._at[topic, partition] = offset

    def poll(self, most: int, wait_s: float) -> Tail:
        """The available records; never waits."""
        found = Tail()
        for place, start in self._at.items():
            records = self._topics.records(place[0])
            chunk = chunk_of(records[start : start + most], start)
            if len(chunk):
                found.chunks[place] = chunk
            self._at[place] = chunk.position
            if chunk.position == len(records):
                found.ends[place] = chunk.position
        return found

    def close(self) -> None:
        """Does nothing: it holds no connection."""
