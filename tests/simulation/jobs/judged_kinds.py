"""Statements of every kind run by the engine on the fakes, several partitions of everything, and
what the judge says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from holdfast.config.settings import Settings
from holdfast.judge.oracle import Oracle, OracleOptions
from holdfast.judge.read.observe import Observer
from holdfast.judge.verdict import JobVerdict
from holdfast.sql.plan.topology import compile_text
from holdfast.tasks import worker
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, TaskReport
from holdfast.transport.partitioner import murmur2_partition
from holdfast.types.ids import OffsetRange, changelog_topic, consumer_group
from holdfast.types.statements.topology import Query, Topology
from tests.simulation.fakes.executors import Bench
from tests.simulation.fakes.spark import Crash
from tests.simulation.jobs.kinds import Sent
from tests.simulation.jobs.payloads import payloads

__all__ = ["Inputs", "JudgedJob"]

STATE_PARTITIONS = TOPIC_PARTITIONS = 2
Inputs = Mapping[str, Sequence[Sequence[Sent]]]
"""Records by topic, and in it by batch; a record's topic partition follows from its key."""
_Places = dict[tuple[str, int], int]


@dataclass
class JudgedJob:
    """A job of one file of statements with state."""

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
        parts = payloads(self.settings, query, source, STATE_PARTITIONS)
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

    def _process(
        self, plan: QueryPlan, partition: int, batch: Batch, part: list[pa.Buffer]
    ) -> None:
        ordinal = self.bench.ordinal
        try:
            answer = worker.process_partition(plan, partition, Assigned(ordinal), batch, part)
        except Crash:
            self.bench.on(ordinal)
            answer = worker.process_partition(plan, partition, Assigned(ordinal), batch, part)
        assert isinstance(answer, TaskReport), answer
