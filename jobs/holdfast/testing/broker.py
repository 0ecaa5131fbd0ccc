"""Runs a Topology over a case's records as a job on a real broker, in topics of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory

from holdfast.config.settings import PlacementSettings, Settings, StateSettings
from holdfast.errors import InvalidTestCase
from holdfast.runtime.job import run
from holdfast.testing.bytes_of import RawRecord
from holdfast.testing.emit import with_emit
from holdfast.testing.phases import Life
from holdfast.testing.topics import Topics
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import (
    changelog_topic,
    dead_letter_topic,
    orders_topic,
    progress_topic,
)
from holdfast.types.statements.internal_topics import for_application
from holdfast.types.statements.topology import Emit, Topology

__all__ = ["BrokerEngine"]

_READY_S = 30.0
# Kafka's clients read 0 as "now": a record of time 0 is written, and read back, with this time.
_FIRST_MS = 1
# Records of 1970 fill a segment as soon as a commit of today follows them: in a compacted topic
# the cleaner would soon remove records that a later record of the key replaces.
_KEPT = {"cleanup.policy": "delete", "retention.ms": "-1"}


class BrokerEngine:
    """Each case is a job that starts, catches up and stops; its topics are deleted afterwards.

    Records of several topics are processed in timestamp order, as in any job.
    """

    def __init__(self, bootstrap: str, emit: Emit) -> None:
        self._bootstrap = bootstrap
        self._emit = emit

    def run(self, topology: Topology, topics: Topics, life: Life) -> list[str]:
        """Runs all queries until they have read everything; adds their output to the topics.

        Cases with several phases are refused: the job would restart for each of them.

        Raises:
            InvalidTestCase: one of the case's topics exists.
            HoldfastError: the job cannot start or continue.
        """
        if life.there:
            raise InvalidTestCase(
                "Statements come after records here, which are the job's from its start.",
                action="run the case without --broker",
            )
        queries = tuple(with_emit(query, self._emit) for query in topology.queries)
        wanted = replace(topology, queries=queries, insertions=())
        with TemporaryDirectory(prefix="holdfast-test-") as home:
            settings = _settings(self._bootstrap, home)
            admin = Admin(settings.client())
            admin.wait_ready(_READY_S)
            job = for_application(wanted, settings.application_id)
            with _topics_of(admin, settings, job):
                _write(settings, topics)
                run(job, settings, stop_when_caught_up=True)
                for sink in {q.sink.topic: None for q in queries if not q.sink.internal}:
                    # Readers see a commit a moment after the producer does.
                    admin.await_ended(sink, 0, _READY_S)
                    written = _read(settings, sink)[len(topics.records(sink)) :]
                    for cause, record in enumerate(written):
                        topics.append(sink, record, cause)
        return []


def _settings(bootstrap: str, home: str) -> Settings:
    return Settings(
        application_id=f"holdfast-test-{uuid.uuid4().hex[:12]}",
        bootstrap_servers=bootstrap,
        home=home,
        state=StateSettings(backend="memory", partitions=1),
        placement=PlacementSettings(executors=1),
    )


@contextmanager
def _topics_of(admin: Admin, settings: Settings, topology: Topology) -> Iterator[None]:
    """Creates the topics to read, one partition each; deletes them and the job's own at the end."""
    read = {s.topic for q in topology.queries for s in q.sources}
    written = {q.sink.topic for q in topology.queries}
    known = read | written
    there = sorted(topic for topic in known if admin.describe(topic) is not None)
    if there:
        raise InvalidTestCase(
            f"The broker has the topic {', '.join(there)} already.",
            cause="another case runs there, or it holds somebody's data",
            action="use a broker without the case's topics",
        )
    try:
        for topic in sorted(read - written):
            admin.ensure_topic(topic, 1)
        for sink in (q.sink for q in topology.queries if not q.sink.internal):
            admin.ensure_topic(sink.topic, sink.partitions or 1, config=_KEPT)
        yield
    finally:
        for topic in sorted(known | _own(settings.application_id, topology)):
            if admin.describe(topic) is not None:
                admin.delete_topic(topic)


def _own(application_id: str, topology: Topology) -> set[str]:
    """The topics that a job creates for itself."""
    ids = [query.id for query in topology.queries]
    changelogs = {changelog_topic(application_id, i) for i in ids}
    progress = {progress_topic(application_id, i) for i in ids}
    return changelogs | progress | {dead_letter_topic(application_id), orders_topic(application_id)}


def _write(settings: Settings, topics: Topics) -> None:
    producer = Producer(settings.client())
    try:
        for topic, record in topics.written:
            time = record.timestamp or _FIRST_MS
            headers = dict(record.headers)
            producer.send(topic, record.key, record.value, time, 0, headers=headers)
        producer.flush()
    finally:
        producer.close()


def _read(settings: Settings, topic: str) -> list[RawRecord]:
    """All records of a topic's only partition."""
    reader = PartitionReader(settings.client(), topic, 0, headers=True)
    try:
        start, end = reader.bounds()
        records = []
        for chunk in reader.read(start, end):
            rows = zip(chunk.keys, chunk.values, chunk.timestamps, chunk.headers, strict=True)
            records += [
                RawRecord(k, v, 0 if t == _FIRST_MS else t, tuple(h)) for k, v, t, h in rows
            ]
        return records
    finally:
        reader.close()
