"""The topics of one case: what is in them, and in which order a statement's queries read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.errors import InvalidTestCase
from holdfast.testing.bytes_of import RawRecord, TopicCodec
from holdfast.testing.cases import Spec
from holdfast.types.topology import Query, Sink, Source, Topology

__all__ = ["Piped", "Topics", "statements_of"]


@dataclass
class Piped:
    """What one statement's queries read from a topic, with each record's place over all topics."""

    records: list[RawRecord] = field(default_factory=list)
    order: list[int] = field(default_factory=list)


class Topics:
    """The records of every topic, as bytes."""

    def __init__(self, topology: Topology, inputs: Sequence[Spec]) -> None:
        """Writes the input records.

        Raises:
            InvalidTestCase: no statement knows an input's topic, or its formats cannot hold it.
        """
        self._codecs = _codecs(topology)
        self._logs: dict[str, list[RawRecord]] = {}
        self._inputs = [(spec.topic, self.codec(spec.topic).encode(spec)) for spec in inputs]
        self._input_topics = {topic for topic, _ in self._inputs}
        for topic, record in self._inputs:
            self.append(topic, record)

    def codec(self, topic: str) -> TopicCodec:
        """Raises `InvalidTestCase`: no statement reads or writes the topic."""
        found = self._codecs.get(topic)
        if found is None:
            known = ", ".join(sorted(self._codecs)) or "none"
            raise InvalidTestCase(
                f"No stream or table has the topic {topic}.", action=f"the topics are: {known}"
            )
        return found

    def append(self, topic: str, record: RawRecord) -> None:
        """Adds a record at a topic's end."""
        self._logs.setdefault(topic, []).append(record)

    @property
    def given(self) -> Sequence[tuple[str, RawRecord]]:
        """The case's inputs, in their order."""
        return tuple(self._inputs)

    def count(self, topic: str) -> int:
        """How many records a topic has."""
        return len(self._logs.get(topic, ()))

    def decoded(self, topic: str) -> list[Spec]:
        """All records of a topic.

        Raises:
            InvalidTestCase: see `codec`; or a record is not in the topic's formats.
        """
        codec = self.codec(topic)
        return [codec.decode(record) for record in self._logs.get(topic, [])]

    def piped(self, topics: Iterable[str]) -> dict[str, Piped]:
        """What a statement reads, as ksqlDB's test runner pipes it.

        First the case's inputs, in their order over all topics; then every topic that has none
        of them, one after the other.
        """
        wanted = list(dict.fromkeys(topics))
        piped = {topic: Piped() for topic in wanted}
        order = 0
        for topic, record in self._inputs:
            if topic in piped:
                order = _pipe(piped[topic], record, order)
        for topic in _hash_order(t for t in wanted if t not in self._input_topics):
            for record in self._logs.get(topic, []):
                order = _pipe(piped[topic], record, order)
        return piped


def _pipe(to: Piped, record: RawRecord, order: int) -> int:
    to.records.append(record)
    to.order.append(order)
    return order + 1


def _hash_order(topics: Iterable[str]) -> list[str]:
    """The order of a small set of texts in ksqlDB's test runner: that of Java's HashSet."""

    def bucket(text: str) -> int:
        code = 0
        for char in text:
            code = (31 * code + ord(char)) & 0xFFFFFFFF
        return (code ^ code >> 16) & 15

    return sorted(topics, key=bucket)


def _codecs(topology: Topology) -> dict[str, TopicCodec]:
    """The first stream or table that declares a topic says what is in it."""
    sinks: list[Source | Sink] = [q.sink for q in topology.queries if not q.sink.internal]
    found: dict[str, TopicCodec] = {}
    for each in [*topology.sources, *sinks]:
        found.setdefault(each.topic, TopicCodec(each))
    return found


def statements_of(topology: Topology) -> list[list[Query]]:
    """The queries of each statement: those before its last one write internal topics."""
    groups: list[list[Query]] = []
    open_group: list[Query] = []
    for query in topology.queries:
        open_group.append(query)
        if not query.sink.internal:
            groups.append(open_group)
            open_group = []
    return groups
