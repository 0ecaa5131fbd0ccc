"""The topics of one case: their records, and the order in which a statement's queries read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.errors import InvalidTestCase
from holdfast.testing.bytes_of import RawRecord, TopicCodec
from holdfast.testing.cases import Spec
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.topology import Sink, Source, Topology

__all__ = ["Piped", "Topics"]


@dataclass
class Piped:
    """A topic's records for one statement's queries, with their places over all topics."""

    records: list[RawRecord] = field(default_factory=list)
    order: list[int] = field(default_factory=list)  # rising

    def add(self, record: RawRecord, place: int) -> None:
        self.records.append(record)
        self.order.append(place)


@dataclass(frozen=True)
class _Logged:
    record: RawRecord
    cause: int  # the place of the input or insertion that caused it


class Topics:
    """The records of every topic, as bytes.

    Attributes:
        given: the case's inputs, in order.
        written: the insertions, then the inputs.
        schemas: the registry of formats that have one.
    """

    def __init__(
        self,
        topology: Topology,
        inputs: Sequence[Spec],
        inserted: Sequence[tuple[str, RawRecord]] = (),
        schemas: Schemas | None = None,
    ) -> None:
        """Writes the records of INSERT INTO … VALUES, then the input records.

        Raises:
            InvalidTestCase: no statement knows an input's topic, or its formats cannot hold it.
        """
        self.schemas = schemas
        self._codecs = _codecs(topology, schemas)
        self._logs: dict[str, list[_Logged]] = {}
        self._one_by_one = bool(topology.expectations)
        self.given = [(spec.topic, self.codec(spec.topic).encode(spec)) for spec in inputs]
        self.written: list[tuple[str, RawRecord]] = []
        self.write([*inserted, *self.given])

    def write(self, records: Sequence[tuple[str, RawRecord]]) -> None:
        """Appends records to their topics."""
        for cause, (topic, record) in enumerate(records, len(self.written)):
            self.append(topic, record, cause)
        self.written += records

    def become(self, topology: Topology) -> None:
        """Replaces the topics' definitions by those of these statements."""
        self._codecs = _codecs(topology, self.schemas)
        self._one_by_one = bool(topology.expectations)

    def counts(self) -> dict[str, int]:
        """How many records each topic has."""
        return {topic: len(log) for topic, log in self._logs.items()}

    def codec(self, topic: str) -> TopicCodec:
        """The topic's codec; raises `InvalidTestCase` if no statement reads or writes it."""
        found = self._codecs.get(topic)
        if found is None:
            known = ", ".join(sorted(self._codecs)) or "none"
            raise InvalidTestCase(
                f"No stream or table has the topic {topic}.", action=f"the topics are: {known}"
            )
        return found

    def append(self, topic: str, record: RawRecord, cause: int) -> None:
        """Adds a record at a topic's end.

        Args:
            cause: the place of the input or insertion that caused it.
        """
        self._logs.setdefault(topic, []).append(_Logged(record, cause))

    def records(self, topic: str) -> list[RawRecord]:
        """All records of a topic, as bytes."""
        return [each.record for each in self._logs.get(topic, ())]

    def decoded(self, topic: str) -> list[Spec]:
        """All records of a topic.

        Raises:
            InvalidTestCase: see `codec`; or a record is not in the topic's formats.
        """
        codec = self.codec(topic)
        return [codec.decode(record) for record in self.records(topic)]

    def piped(
        self, topics: Iterable[str], after: Mapping[str, int]
    ) -> tuple[dict[str, Piped], list[int]]:
        """The records that a statement reads, in the order of ksqlDB's test runner.

        First the case's inputs, in order over all topics; then every topic without inputs, one
        after the other.  With ASSERT VALUES, everything that one insertion causes is read
        before the next insertion, in all topics.

        Returns:
            By topic, the records to read; and the cause of the record at each place.
        """
        wanted = list(dict.fromkeys(topics))
        by_cause = self._one_by_one or bool(after)
        found = self._by_cause(wanted, after) if by_cause else self._by_topic(wanted)
        piped = {topic: Piped() for topic in wanted}
        for place, (topic, logged) in enumerate(found):
            piped[topic].add(logged.record, place)
        return piped, [logged.cause for _, logged in found]

    def _by_cause(
        self, topics: Sequence[str], after: Mapping[str, int]
    ) -> list[tuple[str, _Logged]]:
        found = [(t, each) for t in topics for each in self._logs.get(t, [])[after.get(t, 0) :]]
        return sorted(found, key=lambda pair: pair[1].cause)

    def _by_topic(self, topics: Sequence[str]) -> list[tuple[str, _Logged]]:
        given = {topic for topic, _ in self.given}
        found = [
            (topic, _Logged(record, cause))
            for cause, (topic, record) in enumerate(self.given)
            if topic in topics
        ]
        for topic in _hash_order(t for t in topics if t not in given):
            found += [(topic, each) for each in self._logs.get(topic, ())]
        return found


def _hash_order(topics: Iterable[str]) -> list[str]:
    """The order of a small set of texts in ksqlDB's test runner, that of Java's HashSet."""

    def bucket(text: str) -> int:
        code = 0
        for char in text:
            code = (31 * code + ord(char)) & 0xFFFFFFFF
        return (code ^ code >> 16) & 15

    return sorted(topics, key=bucket)


def _codecs(topology: Topology, schemas: Schemas | None) -> dict[str, TopicCodec]:
    """The codec of each topic, from the first stream or table that declares it."""
    sinks: list[Source | Sink] = [q.sink for q in topology.queries if not q.sink.internal]
    found: dict[str, TopicCodec] = {}
    for each in [*topology.sources, *sinks]:
        found.setdefault(each.topic, TopicCodec(each, schemas))
    return found
