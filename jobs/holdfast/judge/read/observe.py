"""Observes the cluster from outside: offsets, open transactions, records.  It never writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.judge.read.incarnations import Incarnations
from holdfast.judge.read.layouts import generations
from holdfast.judge.read.registered import Translation, translations
from holdfast.judge.values import OpenTransaction
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import PartitionReader
from holdfast.types.columns.schemas import Schemas
from holdfast.types.ids import changelog_topic, consumer_group, orders_topic, progress_topic
from holdfast.types.statements.topology import Query, Sink, Source

__all__ = ["Lag", "Observer", "Record"]

_POLL_S = 0.5


@dataclass(frozen=True)
class Record:
    """One committed record; `headers` only where requested."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class Lag:
    """How far a query's committed offsets are behind its input, over all topic partitions."""

    committed: int
    end: int

    @property
    def caught_up(self) -> bool:
        return self.committed >= self.end


class Observer:
    """Reads one job's topics with plain clients of its own.

    Args:
        client: librdkafka properties.

    Attributes:
        incarnations: the known recreated topics.
    """

    incarnations = Incarnations()

    def __init__(self, client: Mapping[str, str], application_id: str) -> None:
        self._client = dict(client)
        self._application_id = application_id
        self._admin = Admin(client)
        self._plain: Mapping[str, Translation] = {}
        self._generations: dict[str, int] = {}  # by query id, as far as the orders are seen
        self._orders_seen: tuple[str, dict[int, tuple[int, int]]] | None = None  # topic id, bounds

    def read_as(self, relations: Sequence[Source | Sink], schemas: Schemas | None) -> None:
        """From now on, records of these topics come as JSON where the judge has a registry."""
        self._plain = translations(relations, schemas)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Log start and read_committed end by topic partition; see `Admin.bounds`."""
        return self._admin.bounds(topic)

    def exists(self, topic: str) -> bool:
        return self._admin.describe(topic) is not None

    def compacted(self, topic: str) -> bool:
        """Whether older records of a key may have been removed."""
        return "compact" in self._admin.config(topic).get("cleanup.policy", "")

    def keeps_times(self, topic: str) -> bool:
        """Whether records keep the timestamps that their producers set."""
        found = self._admin.config(topic).get("message.timestamp.type", "")
        return found != "LogAppendTime"

    def lag(self, query: Query) -> Lag:
        """The query's progress by its consumer group's offsets."""
        lags = [self.lag_of(query, topic) for topic in sorted({s.topic for s in query.sources})]
        return Lag(sum(lag.committed for lag in lags), sum(lag.end for lag in lags))

    def lag_of(self, query: Query, topic: str) -> Lag:
        """The query's progress in one of its topics."""
        done = self.group_offsets(query, topic)
        bounds = self._admin.bounds(topic)
        # A topic partition that never held a record has no committed offset and needs none.
        committed = sum(min(done.get(p, start), end) for p, (start, end) in bounds.items())
        return Lag(committed, sum(end for _, end in bounds.values()))

    def group_offsets(self, query: Query, topic: str) -> dict[int, int]:
        """The offsets of the query's consumer group, by topic partition of one of its inputs."""
        return self._admin.committed(consumer_group(self._application_id, query.id), topic)

    def await_caught_up(
        self, query: Query, deadline: float, tell: Callable[[Lag], None] = lambda _: None
    ) -> Lag:
        """Wait until the query has read its whole input, or until `deadline` (monotonic s)."""
        while True:
            lag = self.lag(query)
            tell(lag)
            if lag.caught_up or time.monotonic() >= deadline:
                return lag
            time.sleep(_POLL_S)

    def await_quiet(self, topic: str, deadline: float) -> list[OpenTransaction]:
        """Wait until no transaction is open in `topic`; returns those still open at `deadline`."""
        while True:
            open_ones = self.open_transactions(topic)
            if not open_ones or time.monotonic() >= deadline:
                return open_ones
            time.sleep(_POLL_S)

    def open_transactions(self, topic: str) -> list[OpenTransaction]:
        """Topic partitions whose last stable offset is behind their end."""
        # The end is read first: later commits can only advance the last stable offset.
        ends = self._admin.high_watermarks(topic)
        stable = self._admin.end_offsets(topic)
        return [OpenTransaction(topic, p, stable[p], e) for p, e in ends.items() if stable[p] < e]

    def records(
        self, topic: str, bounds: Mapping[int, tuple[int, int]], *, headers: bool = False
    ) -> Iterator[Record]:
        """Committed records between the bounds, each topic partition in offset order."""
        plain = self._plain.get(topic)
        for partition, (start, end) in sorted(bounds.items()):
            reader = PartitionReader(self._client, topic, partition, headers=headers)
            try:
                for chunk in reader.read(start, end):
                    for i, offset in enumerate(chunk.offsets):
                        key, value = chunk.keys[i], chunk.values[i]
                        if plain is not None:
                            key, value = plain.key(key), plain.value(value)
                        found = tuple(chunk.headers[i]) if headers else ()
                        yield Record(partition, offset, key, value, chunk.timestamps[i], found)
            finally:
                reader.close()

    def marker_topic(self, query: Query) -> str:
        """The topic of a query's commit markers: its changelog, or its progress topic."""
        if not query.stateful:
            return progress_topic(self._application_id, query.id)
        return changelog_topic(self._application_id, query.id, self.generation(query))

    def generation(self, query: Query) -> int:
        """The generation of the query's changelog that counts."""
        topic = orders_topic(self._application_id)
        found = self._admin.describe(topic)
        if found is None:
            return 0
        bounds = self.bounds(topic)
        if self._orders_seen != (found.topic_id, bounds):
            records = self.records(topic, bounds)
            self._generations = generations((r.key, r.value) for r in records)
            self._orders_seen = found.topic_id, bounds
        return self._generations.get(query.id, 0)

    def header_values(self, topic: str, name: str) -> Iterator[bytes]:
        """That header's values in all committed records, from the topic's start to its end."""
        for record in self.records(topic, self.bounds(topic), headers=True):
            value = dict(record.headers).get(name)
            if value is not None:
                yield value
