"""Keeps all records of a topic that is about to be deleted, in a file of the run's folder.

`<run folder>/deleted-topic-<number>.arrow` has the records of every topic partition, by offset; the
schema's metadata tell the topic's name, id, and bounds.  It is there whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.judge.read.incarnations import Bounds, Incarnation
from holdfast.judge.read.observe import Observer, Record

__all__ = ["Archive", "archives", "keep"]

_CHUNK_ROWS = 20_000
_ABOUT = b"topic"
_FIELDS = [
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("timestamp_ms", pa.int64()),
    pa.field("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
]


@dataclass(frozen=True)
class Archive:
    """One deleted topic."""

    file: Path
    topic: Incarnation

    def records(self, bounds: Bounds) -> Iterator[Record]:
        """Records between the bounds, each topic partition in offset order."""
        with pa.OSFile(str(self.file)) as file, pa.ipc.open_file(file) as reader:
            for i in range(reader.num_record_batches):
                for row in reader.get_batch(i).to_pylist():
                    start, end = bounds.get(row["partition"], (0, 0))
                    if start <= row["offset"] < end:
                        headers = tuple((h["name"], h["value"]) for h in row["headers"])
                        yield Record(**{**row, "headers": headers})


def archives(folder: Path) -> list[Archive]:
    """Those of a run, in the order in which the topics were deleted."""
    files = sorted(folder.glob("deleted-topic-*.arrow"), key=lambda f: int(f.stem.split("-")[-1]))
    return [Archive(file, _about(file)) for file in files]


def keep(folder: Path, observer: Observer, topic: str, topic_id: str, bounds: Bounds) -> Archive:
    """Copies the topic; nobody may write to it meanwhile.

    Raises:
        KafkaUnavailable, DataLoss: it cannot be read.
    """
    about = Incarnation(topic, topic_id, bounds)
    there = archives(folder)
    again = [each.file for each in there if each.topic.topic_id == topic_id]  # it was not deleted
    file = again[0] if again else folder / f"deleted-topic-{len(there)}.arrow"
    beside = folder / f".{file.name}"
    told = {"topic": topic, "topic_id": topic_id, "bounds": sorted(bounds.items())}
    schema = pa.schema(_FIELDS, metadata={_ABOUT: json.dumps(told).encode()})
    with beside.open("wb") as out:
        with pa.ipc.new_file(out, schema) as writer:
            records = map(_row, observer.records(topic, bounds, headers=True))
            while rows := list(islice(records, _CHUNK_ROWS)):
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema))
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)
    return Archive(file, about)


def _row(record: Record) -> dict[str, Any]:
    headers = [{"name": name, "value": value} for name, value in record.headers]
    return {**vars(record), "headers": headers}


def _about(file: Path) -> Incarnation:
    with pa.OSFile(str(file)) as source, pa.ipc.open_file(source) as reader:
        told = json.loads(reader.schema.metadata[_ABOUT])
    bounds = {int(p): (int(start), int(end)) for p, (start, end) in told["bounds"]}
    return Incarnation(told["topic"], told["topic_id"], bounds)
