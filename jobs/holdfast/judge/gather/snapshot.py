"""A snapshot of a unit's topics, taken before their records are read, while none of them grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.judge.read.observe import Observer
from holdfast.judge.statement.units import Unit
from holdfast.judge.values import OpenTransaction
from holdfast.types.ids import state_name
from holdfast.types.statements.topology import Query
from holdfast.types.stores import JobStores, StoreDigest

__all__ = ["Bounds", "Snapshot", "Stores", "stores_of", "take_snapshot"]

Bounds = Mapping[int, tuple[int, int]]
Stores = JobStores | None
"""By query id and state partition; None: they cannot be read."""


@dataclass(frozen=True)
class Snapshot:
    """A unit's topics once no transaction is open.

    Attributes:
        inputs: bounds of the topics that the unit is recomputed from, by topic.
        groups: committed offsets of the queries' consumer groups, by query id and input topic.
    """

    inputs: Mapping[str, Bounds]
    sink: Bounds
    open_transactions: tuple[OpenTransaction, ...]
    groups: Mapping[tuple[str, str], Mapping[int, int]]


def take_snapshot(
    observer: Observer, unit: Unit, topics: Sequence[str], deadline: float
) -> Snapshot:
    """The topics once no transaction is open, or at `deadline` (monotonic s).

    Args:
        topics: the topics that the unit is recomputed from.
    """
    inputs = {topic: observer.bounds(topic) for topic in topics}
    written = {q.sink.topic for q in unit.queries}
    written |= {observer.marker_topic(q) for q in unit.queries}
    still_open = [
        transaction
        for topic in sorted(written)
        if observer.exists(topic)
        for transaction in observer.await_quiet(topic, deadline)
    ]
    sink = observer.bounds(unit.sink.topic)
    read_by = {
        (query.id, source.topic): query for query in unit.queries for source in query.sources
    }
    groups = {
        (query_id, topic): observer.group_offsets(query, topic)
        for (query_id, topic), query in read_by.items()
    }
    return Snapshot(inputs, sink, tuple(still_open), groups)


def stores_of(
    observer: Observer, query: Query, stores: Stores
) -> dict[int, Sequence[StoreDigest]] | None:
    """One query's stores, by state partition, of the generation that counts."""
    if stores is None:
        return None
    name = state_name(query.id, observer.generation(query))
    return {p: store for (of, p), store in stores.items() if of == name}
