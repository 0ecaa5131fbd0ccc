"""A job without Kafka: real processors fill RocksDB stores, which are archived in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from holdfast.config.settings import RocksDbSettings
from holdfast.ingest.records import RecordDecoder
from holdfast.ingest.used_columns import used_columns
from holdfast.sql import compile_text
from holdfast.state.changelog import FORMAT_VERSION, CommitMarker
from holdfast.state.rocksdb import RocksDbStore
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.snapshots.savepoints import (
    SavedQuery,
    SavedStore,
    Savepoint,
    SavepointPlace,
    folder_of,
)
from holdfast.state.table_store import StorePosition, TableStore, store_name
from holdfast.tasks.aggregates.user import load_functions
from holdfast.tasks.processors.base import NO_TIME
from holdfast.tasks.processors.kinds import processor_of
from holdfast.tasks.processors.layout import layout_of
from holdfast.transport.partitioner import PARTITIONER
from holdfast.transport.reader import Chunk
from holdfast.types.ids import OffsetRange
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.internal_topics import for_application
from holdfast.types.statements.topology import AggregateStep, Query
from tests.support.jobs.packed import packed_tables

__all__ = ["Event", "SavedJob"]

TOPIC_ID = "4VPab5/8RoCls6+oUepmWg=="
ATTEMPT = "attempt1"
_SETTINGS = RocksDbSettings(memtable_bytes=64 << 10, write_buffer_bytes=1 << 20)


@dataclass(frozen=True)
class Event:
    """A record of the stream: key, value as JSON, event time in ms."""

    key: str
    value: Mapping[str, Any]
    time_ms: int


@dataclass
class SavedJob:
    """Owns the stores of all aggregates of a job, by (query id, state partition).

    Attributes:
        folder: of the stores; `uri` is the place of savepoints and snapshots.
        text: statements over one stream.
    """

    folder: Path
    text: str
    application_id: str = "shop"
    partitions: int = 3
    functions: tuple[str, ...] = ()
    _stores: dict[tuple[str, int], TableStore] = field(default_factory=dict)
    _markers: dict[tuple[str, int], CommitMarker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.uri = str(self.folder / "place")
        topology = compile_text(self.text, extra_aggregates=load_functions(self.functions))
        self.topology = for_application(topology, self.application_id)
        self._copies = count()
        self._offset = 0
        for query in self._aggregates():
            layout = layout_of(query)
            for partition in range(self.partitions):
                path = self.folder / "stores" / query.id / str(partition)
                self._stores[query.id, partition] = TableStore(
                    RocksDbStore(path, _SETTINGS),
                    windowed=layout.windowed,
                    segmented=layout.segmented,
                    name=store_name(self.application_id, query.id, partition),
                )

    def _aggregates(self) -> list[Query]:
        return [q for q in self.topology.queries if isinstance(q.step, AggregateStep)]

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def feed(self, events: Sequence[Event]) -> None:
        """One batch, through every aggregate of a stream."""
        start, self._offset = self._offset, self._offset + len(events)
        for query in self._aggregates():
            if query.source.kind == "TABLE":
                continue
            payloads = packed_tables(query, [_decoded(query, events, start)], self.partitions)
            for partition, payload in enumerate(payloads):
                self._process(query, partition, payload)

    def _process(self, query: Query, partition: int, payload: Any) -> None:
        store, last = self._stores[query.id, partition], self._markers.get((query.id, partition))
        stream_time = last.stream_time_ms if last is not None else NO_TIME
        changes = processor_of(query).process(payload, stream_time, store)
        marker = self._marker(query, partition, changes.stream_time_ms)
        store.apply(
            changes.keys,
            changes.rows,
            created=changes.created,
            removed=changes.removed,
            position=StorePosition(TOPIC_ID, self._offset, 1_000, query.fingerprint()),
            marker=marker,
        )
        self._markers[query.id, partition] = marker

    def _marker(self, query: Query, partition: int, stream_time_ms: int) -> CommitMarker:
        ends = {0: self._offset}
        return CommitMarker(
            FORMAT_VERSION,
            self.application_id,
            query.id,
            partition,
            self.partitions,
            PARTITIONER,
            query.fingerprint(),
            query.canonical(),
            OffsetRange.of(query.source.topic, ends, ends),
            stream_time_ms,
            0,
            facts=statement_facts(query),
        )

    # -- what is saved ---------------------------------------------------------------------------

    def save(self, name: str, *, uncommitted: Sequence[str] = ()) -> Savepoint:
        """A savepoint; tables that are `uncommitted` have no stores in it."""
        queries = [self._saved(q, name, q.sink.name in uncommitted) for q in self.topology.queries]
        made = Savepoint(name, self.application_id, ATTEMPT, 5_000, self.text, tuple(queries))
        SavepointPlace(self.uri, self.application_id).write(made)
        return made

    def _saved(self, query: Query, name: str, uncommitted: bool) -> SavedQuery:
        kept = (query.id, 0) in self._stores and not uncommitted
        marker = self._markers.get((query.id, 0)) if kept else None
        partitions = range(self.partitions if kept else 0)
        return SavedQuery(
            id=query.id,
            statement=query.statement,
            sink=query.sink.name,
            sink_topic=query.sink.topic,
            internal=query.sink.internal,
            stateful=query.stateful,
            state_partitions=self.partitions if query.stateful else 0,
            facts=marker.facts if marker is not None else "",
            sources=(),
            stores=tuple(self._saved_store(query, name, p) for p in partitions),
        )

    def _saved_store(self, query: Query, name: str, partition: int) -> SavedStore:
        key, root = (
            (query.id, partition),
            f"{folder_of(self.application_id, name, ATTEMPT)}/{query.id}",
        )
        return SavedStore(
            partition=partition,
            rows=self._stores[key].rows,
            marker=self._markers[key].to_bytes().decode(),
            manifest=self._uploaded(query, partition, Archive(self.uri, f"{root}/{partition}")),
        )

    def snapshot(
        self, query_id: str, partition: int, *, taken_ms: int = 1_000, topic_id: str = TOPIC_ID
    ) -> Manifest:
        """A snapshot of one store, as the running job takes them."""
        query = next(q for q in self._aggregates() if q.id == query_id)
        name = store_name(self.application_id, query_id, partition)
        archive = Archive(self.uri, name)
        manifest = self._uploaded(query, partition, archive)
        position = replace(manifest.position, topic_id=topic_id)
        manifest = replace(manifest, taken_ms=taken_ms, position=position)
        assert archive.name(manifest)
        return manifest

    def _uploaded(self, query: Query, partition: int, archive: Archive) -> Manifest:
        copy = self.folder / f"copy{next(self._copies)}"
        store = self._stores[query.id, partition]
        store.copy_to(copy)
        files = archive.files_of(copy)
        archive.upload(copy, files)
        assert store.position is not None
        name = store_name(self.application_id, query.id, partition)
        return Manifest(name, store.position, 2_000, files)


def _decoded(query: Query, events: Sequence[Event], start: int) -> Any:
    options = IngestOptions(query.source, {}, used_columns(query, 0), query=query, side=0)
    chunk = Chunk(
        keys=[e.key.encode() for e in events],
        values=[orjson.dumps(e.value) for e in events],
        offsets=list(range(start, start + len(events))),
        timestamps=[e.time_ms for e in events],
        position=start + len(events),
        headers=[[] for _ in events],
    )
    batch, bad = RecordDecoder(options).decode(chunk, 0)[:2]
    assert not bad
    return batch
