"""A job's topics as Kafka has them: offsets, settings, groups, and their messages as they are.

A message may hold more than the columns that a statement declares, so only clients that may read
every table are told any of this, and only of topics that the served statements name.  What a look
costs is bounded: few messages, cut values, few looks at a time, and what all clients ask for often
is kept for some seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import BadRequest, HoldfastError, Refused
from holdfast.serve.console.looks import Looks
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.view import ClusterView
from holdfast.transport.reader import Chunk, PartitionReader
from holdfast.types.ids import changelog_topic, consumer_group, dead_letter_topic
from holdfast.types.statements.topology import Topology

__all__ = [
    "MESSAGES_MAX",
    "VALUE_BYTES_MAX",
    "JobTopic",
    "Look",
    "Topics",
    "topic_named",
    "topics_of",
]

MESSAGES_MAX = 100
VALUE_BYTES_MAX = 4_096  # of a key, a value or a header; its whole size is told
_BINARY_BYTES_MAX = 256
_HEADERS_MAX = 50
_TIMEOUT_S = 10.0
_OTHERS_S = 3.0  # to ask groups of other applications, one by one
_ROUNDS = 4  # each reads twice as far back: transaction markers and gaps take offsets as well


@dataclass(frozen=True)
class JobTopic:
    """A topic that the statements name.

    Attributes:
        kinds: source, result, changelog or dead letters.
        relations: streams and tables over it.
        readers: (consumer group, result) of each query that reads it.
    """

    name: str
    kinds: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    readers: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"topic": self.name, "kinds": self.kinds, "relations": self.relations}


@dataclass
class _Found:
    kinds: dict[str, None] = field(default_factory=dict)
    relations: dict[str, None] = field(default_factory=dict)
    readers: dict[tuple[str, str], None] = field(default_factory=dict)


def topics_of(
    topology: Topology,
    job_of: Mapping[str, str],
    changelogs: Mapping[str, str],
    main: str,
    letters: str = "",
) -> dict[str, JobTopic]:
    """The topics of all statements, by name.

    Args:
        job_of: the application id of each query whose job is known; the others are `main`'s.
        changelogs: the changelog of each query with state that has told it.
        letters: the dead-letter topic of `main`, if it is not named after the job.
    """
    found: dict[str, _Found] = {}

    def add(topic: str, kind: str, relation: str = "") -> _Found:
        one = found.setdefault(topic, _Found())
        one.kinds[kind] = None
        if relation:
            one.relations[relation] = None
        return one

    for source in topology.sources:
        add(source.topic, "source", source.name)
    for query in topology.queries:
        add(query.sink.topic, "result", query.sink.name)
        job = job_of.get(query.id, main)
        for source in query.sources:
            reader = consumer_group(job, query.id), query.sink.name
            found.setdefault(source.topic, _Found()).readers[reader] = None
        if query.stateful:
            add(changelogs.get(query.id) or changelog_topic(job, query.id), "changelog")
    add(letters or dead_letter_topic(main), "dead letters")
    for job in dict.fromkeys(job_of.values()):
        if job != main:
            add(dead_letter_topic(job), "dead letters")
    return {
        name: JobTopic(name, tuple(one.kinds), tuple(one.relations), tuple(one.readers))
        for name, one in found.items()
    }


@dataclass(frozen=True)
class Look:
    """Which messages are wanted: the newest `limit`, or those before an offset of a partition."""

    limit: int
    partition: int | None = None
    before: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MESSAGES_MAX:
            raise BadRequest(f"limit={self.limit} is not between 1 and {MESSAGES_MAX}.")
        if self.before is not None and self.partition is None:
            raise BadRequest("`before` is an offset of one partition; `partition` is missing.")


class Topics:
    """Reads topics from the cluster for the console.

    Args:
        client: librdkafka properties.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = dict(client)
        self._made: Admin | None = None
        self._looks = Looks("topics")

    @property
    def _admin(self) -> Admin:
        if self._made is None:
            self._made = Admin(self._client, _TIMEOUT_S)
        return self._made

    async def listed(self, topics: Mapping[str, JobTopic]) -> list[dict[str, Any]]:
        """Every topic with its partitions and the offsets that it holds; without, if it is missing.

        Raises:
            KafkaUnavailable, Overloaded: a retry may succeed.
        """
        key = "\n".join(sorted(topics))
        return await self._looks.once(key, lambda: [self._line(t) for t in topics.values()])

    def _line(self, topic: JobTopic) -> dict[str, Any]:
        info = self._admin.describe(topic.name)
        line = topic.as_json() | {"exists": info is not None}
        if info is None:
            return line
        bounds = self._admin.bounds(topic.name)
        held = sum(high - low for low, high in bounds.values())
        return line | {"partitions": info.partitions, "replicas": info.replicas, "offsets": held}

    async def told(self, topic: JobTopic) -> dict[str, Any]:
        """One topic: offsets of its partitions, its settings, and how far its readers are.

        Raises:
            TopicMissing: it does not exist.
            KafkaUnavailable, Overloaded: a retry may succeed.
        """
        return await self._looks.once(f"told {topic.name}", lambda: self._told(topic))

    def _told(self, topic: JobTopic) -> dict[str, Any]:
        bounds = self._admin.bounds(topic.name)
        settings = self._admin.config(topic.name)
        return {
            **topic.as_json(),
            "partitions": [
                {"partition": p, "start": low, "end": high}
                for p, (low, high) in sorted(bounds.items())
            ],
            "settings": dict(sorted(settings.items())),
            "groups": [self._group(topic.name, *reader, bounds) for reader in topic.readers],
            **self._others(topic, bounds),
        }

    def _others(self, topic: JobTopic, bounds: Mapping[int, tuple[int, int]]) -> dict[str, Any]:
        """The groups of other applications that read the topic, as far as there is time to ask.

        Returns:
            `others`, and `unasked`: how many groups were left.
        """
        view, deadline = ClusterView(self._client, _TIMEOUT_S), time.monotonic() + _OTHERS_S
        found: list[dict[str, Any]] = []
        try:
            names = [*set(view.groups()) - {group for group, _ in topic.readers}]
        except HoldfastError:  # the other facts about the topic need no right on groups
            names = []
        names.sort(key=lambda name: topic.name not in name)  # a likely one is asked first
        places = [(topic.name, partition) for partition in bounds]
        for number, name in enumerate(names):
            if time.monotonic() > deadline:
                return {"others": found, "unasked": len(names) - number}
            with suppress(HoldfastError):
                at = {p: offset for (_, p), offset in view.committed_by(name, places).items()}
                found += [_progress(name, "", at, bounds)] if at else []
        return {"others": sorted(found, key=lambda group: str(group["group"])), "unasked": 0}

    def _group(
        self, topic: str, group: str, result: str, bounds: Mapping[int, tuple[int, int]]
    ) -> dict[str, Any]:
        try:
            at = self._admin.committed(group, topic)
        except Refused as error:  # the other facts about the topic need no right on groups
            return {
                "group": group, "result": result, "committed": {}, "lag": None, "error": error.fact,
            }  # fmt: skip
        return _progress(group, result, at, bounds)

    async def messages(self, topic: JobTopic, look: Look) -> list[dict[str, Any]]:
        """Committed messages, newest first.

        Raises:
            BadRequest: there is no such partition.
            TopicMissing: the topic does not exist.
            KafkaUnavailable, Overloaded: a retry may succeed.
        """
        return await self._looks.alone(lambda: self._messages(topic.name, look))

    def _messages(self, topic: str, look: Look) -> list[dict[str, Any]]:
        bounds = self._admin.bounds(topic)
        if look.partition is not None:
            if look.partition not in bounds:
                raise BadRequest(f"{topic} has no partition {look.partition}.", status=404)
            bounds = {look.partition: bounds[look.partition]}
        filled = {p: (low, high) for p, (low, high) in bounds.items() if high > low}
        each = -(-look.limit // max(1, len(filled)))
        found: list[dict[str, Any]] = []
        reader: PartitionReader | None = None
        try:
            for partition, (low, high) in list(filled.items())[: look.limit]:
                if reader is None:
                    reader = PartitionReader(
                        self._client, topic, partition, timeout_s=_TIMEOUT_S, headers=True
                    )
                reader.turn_to(topic, partition)
                end = high if look.before is None else min(high, max(low, look.before))
                found += _last(reader, low, end, each)
        finally:
            if reader is not None:
                reader.close()
        return sorted(found, key=_newest_first)[: look.limit]


def _progress(
    group: str, result: str, at: Mapping[int, int], bounds: Mapping[int, tuple[int, int]]
) -> dict[str, Any]:
    """The offsets of a group, and how many it has before it."""
    lags = {p: max(0, high - at.get(p, low)) for p, (low, high) in bounds.items()}
    return {
        "group": group,
        "result": result,
        "committed": {str(p): offset for p, offset in at.items()},
        "lag": sum(lags.values()) if at else None,
    }


def _last(reader: PartitionReader, low: int, end: int, most: int) -> list[dict[str, Any]]:
    """The last messages before an offset, searched further back as long as there are too few."""
    for round_ in range(_ROUNDS):
        start = max(low, end - (most << round_))
        found: list[dict[str, Any]] = []
        for chunk in reader.read(start, end, MESSAGES_MAX):
            found = [*found, *_shown(chunk, reader.partition)][-most:]
        if len(found) == most or start == low:
            return found
    return found


def _shown(chunk: Chunk, partition: int) -> Iterator[dict[str, Any]]:
    for i, offset in enumerate(chunk.offsets):
        yield {
            "partition": partition,
            "offset": offset,
            "at_ms": chunk.timestamps[i],
            "key": _text(chunk.keys[i]),
            "value": _text(chunk.values[i]),
            "headers": [[name, _text(value)] for name, value in chunk.headers[i][:_HEADERS_MAX]],
        }


def _text(data: bytes | None) -> dict[str, Any] | None:
    """Bytes as text; as hexadecimal digits if they are no UTF-8; None for null."""
    if data is None:
        return None
    cut = data[:VALUE_BYTES_MAX]
    try:
        # A cut may go through a character, which takes up to four bytes.
        text = cut.decode(errors="strict" if cut == data else "ignore")
    except UnicodeDecodeError:
        text = ""
    if cut and ("\0" in text or not text):
        return {"hex": data[:_BINARY_BYTES_MAX].hex(" "), "bytes": len(data)}
    return {"text": text, "bytes": len(data)}


def _newest_first(message: Mapping[str, Any]) -> tuple[int, int, int]:
    return -message["at_ms"], message["partition"], -message["offset"]


def topic_named(topics: Mapping[str, JobTopic], name: str) -> JobTopic:
    """The topic of that name.

    Raises:
        Refused: no statement names it, whether or not the cluster has it.
    """
    found = topics.get(name)
    if found is None:
        raise Refused(
            f"{name[:100]} is no topic of the served statements.", action="see the list of topics"
        )
    return found
