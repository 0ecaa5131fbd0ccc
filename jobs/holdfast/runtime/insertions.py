"""Writes the INSERT INTO … VALUES of a job's file once, however often the job starts.

The compacted topic `<application.id>-insertions` has a record for each one that was written,
committed in the transaction of the inserted records.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.config.settings import Settings
from holdfast.runtime.topics import ensure_source
from holdfast.state.topics.source_progress import PROGRESS_CONFIG
from holdfast.tasks.evaluate.constants import InsertedRecord, inserted
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.partitioner import murmur2_partition
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import insertions_topic, insertions_transactional_id
from holdfast.types.statements.expressions import canonical
from holdfast.types.statements.topology import Insertion

__all__ = ["insertion_names", "take_over_insertions", "write_insertions", "written_insertions"]

_LOG = logging.getLogger(__name__)
_ENDED_S = 20.0
_WRITTEN = b"written"


def write_insertions(admin: Admin, settings: Settings, insertions: Sequence[Insertion]) -> int:
    """Writes the insertions that were not written before, in order, all or none.

    Returns:
        The number of insertions written by this call.

    Raises:
        TopicMissing: the topic does not exist and its statement gives no PARTITIONS.
        KafkaUnavailable, Refused, CommitUnknown: nothing is written, or it is unknown; start again.
    """
    if not insertions:
        return 0
    marks = insertions_topic(settings.application_id)
    admin.ensure_topic(marks, 1, settings.state.changelog_replicas, PROGRESS_CONFIG)
    counts = {i.source.topic: ensure_source(admin, i.source).partitions for i in insertions}
    with _producer(settings) as producer:
        producer.init()  # fences other writers before the written insertions are read
        admin.await_ended(marks, 0, _ENDED_S)
        written = _written(settings, marks)
        new = {n: i for n, i in insertion_names(insertions).items() if n not in written}
        records = [inserted(insertion) for insertion in new.values()]
        if records:
            _write(producer, marks, list(new), records, counts)
    _LOG.info("%d of %d INSERT INTO … VALUES written now", len(records), len(insertions))
    return len(records)


def written_insertions(admin: Admin, settings: Settings) -> set[bytes]:
    """The names of the insertions that the job has ever written.

    Raises:
        KafkaUnavailable: no broker answered.
    """
    marks = insertions_topic(settings.application_id)
    return _written(settings, marks) if admin.describe(marks) is not None else set()


def take_over_insertions(admin: Admin, settings: Settings, names: Sequence[bytes]) -> None:
    """Records the insertions of another job as written, so that this one does not repeat them.

    Raises:
        KafkaUnavailable, Refused, CommitUnknown: do it again; it may be done.
    """
    if not names:
        return
    marks = insertions_topic(settings.application_id)
    admin.ensure_topic(marks, 1, settings.state.changelog_replicas, PROGRESS_CONFIG)
    with _producer(settings) as producer:
        producer.init()
        producer.begin()
        producer.send(marks, 0, list(names), [_WRITTEN] * len(names))
        producer.commit()


def _producer(settings: Settings) -> TransactionalProducer:
    return TransactionalProducer(
        settings.client(),
        insertions_transactional_id(settings.application_id),
        settings.transaction_timeout_ms,
    )


def insertion_names(insertions: Sequence[Insertion]) -> dict[bytes, Insertion]:
    """Names insertions by their content; equal ones are numbered from the second on."""
    seen: Counter[str] = Counter()
    found = {}
    for insertion in insertions:
        values = [value.expression.canonical for value in insertion.values]
        text = repr((insertion.source.topic, values, canonical(insertion.timestamp)))
        seen[text] += 1
        name = hashlib.sha256(f"{text} {seen[text]}".encode()).hexdigest()[:16]
        found[name.encode()] = insertion
    return found


def _written(settings: Settings, marks: str) -> set[bytes]:
    reader = PartitionReader(settings.client(), marks, 0)
    try:
        start, end = reader.bounds()
        chunks = list(reader.read(start, end)) if start < end else []
    finally:
        reader.close()
    return {key for chunk in chunks for key in chunk.keys if key is not None}


def _write(
    producer: TransactionalProducer,
    marks: str,
    names: Sequence[bytes],
    records: Sequence[InsertedRecord],
    counts: Mapping[str, int],
) -> None:
    producer.begin()
    for record in records:
        key = record.key
        partition = 0 if key is None else murmur2_partition(key, counts[record.topic])
        producer.send(record.topic, partition, [key], [record.value], [record.timestamp])
    producer.send(marks, 0, list(names), [_WRITTEN] * len(names))
    producer.commit()
