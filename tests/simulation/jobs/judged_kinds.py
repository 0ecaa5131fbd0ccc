"""Statements of every kind run by the engine on the fakes, several partitions of everything, and
what the judge says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from holdfast.config.settings import Settings
from holdfast.ingest.records import RecordDecoder
from holdfast.judge.oracle import Oracle, OracleOptions
from holdfast.judge.read.observe import Observer
from holdfast.judge.verdict import JobVerdict
from holdfast.runtime.jvm.inline_session import SmallSession
from holdfast.runtime.queries.frames import row_frame, used_columns
from holdfast.sql.plan.topology import compile_text
from holdfast.tasks import worker
from holdfast.tasks.plan import Batch, QueryPlan, TaskReport
from holdfast.tasks.processors.base import KEY, SIDE
from holdfast.tasks.processors.kinds import processor_of
from holdfast.transport.partitioner import murmur2_partition, state_partition
from holdfast.transport.reader import Chunk
from holdfast.types.ids import OffsetRange, changelog_topic, consumer_group
from holdfast.types.ingest import IngestOptions
from holdfast.types.topology import PARTITION, JoinStep, Query, Topology
from tests.simulation.fakes.executors import Bench
from tests.simulation.fakes.log import Entry
from tests.simulation.fakes.spark import Crash
from tests.simulation.jobs.kinds import Sent
from tests.simulation.jobs.statements import HASH_OF_NULL
from tests.support.packed import packed_parts

__all__ = ["Inputs", "JudgedJob"]

STATE_PARTITIONS = TOPIC_PARTITIONS = 2
Inputs = Mapping[str, Sequence[Sequence[Sent]]]
"""Records by topic, and in it by batch; a record's topic partition follows from its key."""
_Places = dict[tuple[str, int], int]
_PAYLOADS: dict[object, list[list[bytes]]] = {}  # Spark makes each of them once


@dataclass
class JudgedJob:
    """A job of one file of statements with state; `session` evaluates what Spark does."""

    session: SmallSession
    patch: pytest.MonkeyPatch
    text: str
    broken: Callable[[Query], Query] = lambda query: query
    bench: Bench = field(init=False)
    topology: Topology = field(init=False)
    _taken: dict[str, _Places] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bench = Bench(self.patch)
        self.topology = compile_text(self.text)
        topics = {source.topic for source in self.topology.sources}
        topics |= {query.sink.topic for query in self.topology.queries}
        for topic in sorted(topics):
            self.bench.kafka.make_topic(topic, TOPIC_PARTITIONS, {})
        for query in self.topology.queries:
            self.bench.kafka.make_topic(self._changelog(query), STATE_PARTITIONS, {})

    @property
    def settings(self) -> Settings:
        settings = self.bench.settings
        return replace(settings, state=replace(settings.state, partitions=STATE_PARTITIONS))

    def run(self, inputs: Inputs, trouble: Callable[[int], None] = lambda _: None) -> None:
        """All batches; `trouble` is told each batch's number before it."""
        self.bench.on(0)
        for number in range(max(map(len, inputs.values()))):
            for topic, batches in inputs.items():
                for sent in batches[number]:
                    partition = murmur2_partition(sent.key, TOPIC_PARTITIONS)
                    log = self.bench.kafka.log(topic, partition)
                    log.append(sent.key, sent.value, sent.timestamp_ms)
            for query in self.topology.queries:
                trouble(number)
                self._batch(query, number)

    def judged(self) -> JobVerdict:
        """The oracle's verdict."""
        self.bench.kafka.settle()
        application_id = self.settings.application_id
        oracle = Oracle(
            application_id, Observer({}, application_id), options=OracleOptions(5.0, 5.0)
        )
        return oracle.judge(self.topology)

    def _changelog(self, query: Query) -> str:
        return changelog_topic(self.settings.application_id, query.id)

    def _batch(self, query: Query, number: int) -> None:
        """Runs a query's batch until it is committed; restarts processes that die."""
        kafka = self.bench.kafka
        kafka.settle()
        topics = [source.topic for source in query.sources]
        starts = self._taken.setdefault(query.id, {})
        places = [(t, p) for t in dict.fromkeys(topics) for p in range(TOPIC_PARTITIONS)]
        ends = {place: kafka.log(*place).stable_end for place in places}
        starts = {place: starts.get(place, 0) for place in places}
        source = OffsetRange.over(topics, starts, ends)
        parts = self._payloads(query, starts, ends)
        changelog = self._changelog(query)
        topic_id = kafka.topics[changelog].topic_id
        plan = QueryPlan(
            self.settings, self.broken(query), changelog, topic_id, TOPIC_PARTITIONS, "state"
        )
        for partition, part in enumerate(parts):
            self._process(plan, partition, Batch(number, source), part)
        self._taken[query.id] = ends
        group = consumer_group(self.settings.application_id, query.id)
        for topic in topics:
            offsets = {p: end for (t, p), end in ends.items() if t == topic}
            kafka.groups.setdefault((group, topic), {}).update(offsets)

    def _process(self, plan: QueryPlan, partition: int, batch: Batch, part: list[bytes]) -> None:
        ordinal = self.bench.ordinal
        try:
            answer = worker.process_partition(plan, partition, ordinal, batch, part)
        except Crash:
            self.bench.on(ordinal)
            answer = worker.process_partition(plan, partition, ordinal, batch, part)
        assert isinstance(answer, TaskReport), answer

    def _payloads(self, query: Query, starts: _Places, ends: _Places) -> list[list[bytes]]:
        kafka = self.bench.kafka
        read = {
            place: kafka.log(*place).visible(starts[place], ends[place], 1 << 30)
            for place in starts
        }
        told = {
            place: [(e.offset, e.key, e.value, e.timestamp_ms) for e in entries]
            for place, entries in read.items()
        }
        known = (query, repr(sorted(told.items())))
        if known not in _PAYLOADS:
            tables = [
                self._decoded(query, side, {p: e for (t, p), e in read.items() if t == s.topic})
                for side, s in enumerate(query.sources)
            ]
            _PAYLOADS[known] = self._shuffled(query, tables)
        return _PAYLOADS[known]

    def _shuffled(self, query: Query, tables: Sequence[pa.Table]) -> list[list[bytes]]:
        if not query.inputs:
            return packed_parts(query, tables[0].to_batches(), STATE_PARTITIONS)
        return list(_shuffled(query, self.session, [self.session.frame(t) for t in tables]))

    def _decoded(self, query: Query, side: int, entries: Mapping[int, list[Entry]]) -> pa.Table:
        options = IngestOptions(query.sources[side], {}, used_columns(query, side))
        decoder = RecordDecoder(options)
        batches = []
        for partition, found in entries.items():
            chunk = Chunk(
                keys=[e.key for e in found],
                values=[e.value for e in found],
                offsets=[e.offset for e in found],
                timestamps=[e.timestamp_ms for e in found],
                position=found[-1].offset + 1 if found else 0,
            )
            batch, bad = decoder.decode(chunk, partition)
            assert not bad
            batches.append(batch)
        return pa.Table.from_batches(batches)


def _shuffled(
    query: Query, session: SmallSession, frames: Sequence[DataFrame]
) -> Iterator[list[bytes]]:
    """Each state partition's payload: evaluated by Spark, placed as its shuffle would."""
    frame = row_frame(frames, query, 1)
    schema = processor_of(query).schema
    rows = session.collect(frame).select(schema.names).cast(schema)
    homes = [_homes(query, row) for row in rows.select([KEY, SIDE, PARTITION]).to_pylist()]
    for partition in range(STATE_PARTITIONS):
        places = [i for i, found in enumerate(homes) if partition in found]
        mine = rows.take(pa.array(places, pa.int64()))
        yield [bytes(b.serialize().to_pybytes()) for b in mine.combine_chunks().to_batches()]


def _homes(query: Query, row: Mapping[str, Any]) -> Collection[int]:
    if isinstance(query.step, JoinStep) and query.step.broadcast:
        everywhere = range(STATE_PARTITIONS)
        return everywhere if row[SIDE] == 1 else (row[PARTITION] % STATE_PARTITIONS,)
    if row[KEY] is None:
        return (HASH_OF_NULL % STATE_PARTITIONS,)
    return (state_partition(row[KEY], STATE_PARTITIONS),)
