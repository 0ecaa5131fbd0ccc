"""The VALUES statements of a case: records to insert, and records to expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.ingest.records import RecordDecoder
from holdfast.tasks.evaluate.constants import constants, inserted
from holdfast.testing.bytes_of import RawRecord
from holdfast.testing.topics import Topics
from holdfast.transport.reader import Chunk
from holdfast.types.columns.schemas import Schemas
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import Expectation, Insertion, NamedExpression, Source

__all__ = ["insertion_records", "unmet"]


def insertion_records(insertions: Sequence[Insertion]) -> list[tuple[str, RawRecord]]:
    """The records of INSERT INTO … VALUES and their topics."""
    made = map(inserted, insertions)
    return [(r.topic, RawRecord(r.key, r.value, r.timestamp)) for r in made]


def unmet(expectations: Sequence[Expectation], topics: Topics) -> list[str]:
    """ASSERT VALUES and ASSERT NULL VALUES that do not hold, one sentence each.

    Each statement checks the record after the one that the previous such statement of its topic
    checked.
    """
    read: Counter[str] = Counter()
    wrong = []
    for expectation in expectations:
        source, at = expectation.source, read[expectation.source.topic]
        read[source.topic] += 1
        records = topics.records(source.topic)
        where = f"line {expectation.line}, {source.name}, record {at}"
        if at >= len(records):
            wrong.append(f"{where}: there are only {len(records)} records in {source.topic}.")
        else:
            why = _difference(expectation, records[at], topics.schemas)
            wrong += [f"{where}: {why}."] if why else []
    return wrong


def _difference(expectation: Expectation, record: RawRecord, schemas: Schemas | None) -> str:
    if expectation.tombstone is not (record.value is None):
        return "it is no tombstone" if expectation.tombstone else "it is a tombstone"
    given = list(expectation.values)
    if expectation.timestamp is not None:
        given.append(NamedExpression("ROWTIME", expectation.timestamp))
    row = {**_row(expectation.source, record, schemas), "ROWTIME": record.timestamp}
    wanted = [array[0].as_py() for array in constants(given)]
    pairs = [
        (k.column.name, want, row[k.column.name]) for k, want in zip(given, wanted, strict=True)
    ]
    return ", ".join(f"{n} is {have!r}, not {want!r}" for n, want, have in pairs if have != want)


def _row(source: Source, record: RawRecord, schemas: Schemas | None) -> dict[str, Any]:
    """A record's columns, decoded as a query decodes them."""
    names = tuple(column.name for column in source.columns)
    chunk = Chunk([record.key], [record.value], [0], [record.timestamp], 1, [list(record.headers)])
    options = IngestOptions(source=source, kafka={}, columns=names)
    batch, bad = RecordDecoder(options, schemas).decode(chunk, 0)
    if bad:
        raise ValueError(f"{source.topic}: {bad[0].reason}")
    row: dict[str, Any] = batch.to_pylist()[0]
    return row
