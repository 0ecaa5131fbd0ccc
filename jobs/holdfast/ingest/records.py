"""A chunk of Kafka records to an Arrow record batch, and the records that cannot be decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import InvalidStatement
from holdfast.ingest.event_time import EventTime, Times
from holdfast.ingest.formats import Decoded, key_decoder, value_decoder
from holdfast.transport.reader import Chunk
from holdfast.types.ingest import IngestOptions
from holdfast.types.schema import Column
from holdfast.types.topology import OFFSET, PARTITION, TIMESTAMP, TOMBSTONE, Source

__all__ = ["BadRecord", "RecordDecoder", "ddl"]

_META = (
    (PARTITION, pa.int32(), "INT"),
    (OFFSET, pa.int64(), "BIGINT"),
    (TIMESTAMP, pa.int64(), "BIGINT"),
    (TOMBSTONE, pa.bool_(), "BOOLEAN"),
)


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot be decoded: its bytes unchanged, its place, and the reason."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp: int  # of the Kafka record, ms; -1 for none
    reason: str


def ddl(options: IngestOptions) -> str:
    """The columns of a read as Spark DDL: the wanted ones, then those ingest adds."""
    wanted = [_declared(options.source, name) for name in options.columns]
    named = [f"`{c.name.replace('`', '``')}` {c.type.spark()}" for c in wanted]
    return ", ".join(named + [f"`{name}` {spark}" for name, _, spark in _META])


class RecordDecoder:
    """Knows the formats of one source and which columns are wanted."""

    def __init__(self, options: IngestOptions) -> None:
        """Raises `InvalidStatement`, `Unsupported`: the source cannot be decoded as declared."""
        source = options.source
        self._times = EventTime(source)
        names = list(options.columns)
        if self._times.column is not None and self._times.column.name not in names:
            names.append(self._times.column.name)
        wanted = [_declared(source, name) for name in names]
        keys = [c for c in wanted if c in source.key_columns]
        values = [c for c in wanted if c not in source.key_columns]
        self._keys = key_decoder(source.key_format, source.key_columns, keys)
        self._values = value_decoder(source.value_format, source.value_columns, values)
        order = [c.name for c in keys + values]
        self._places = [order.index(name) for name in options.columns]
        self._time_place = order.index(self._times.column.name) if self._times.column else -1
        fields = [(c.name, c.type.arrow()) for c in wanted[: len(options.columns)]]
        self._schema = pa.schema(fields + [(name, arrow) for name, arrow, _ in _META])

    def decode(self, chunk: Chunk, partition: int) -> tuple[pa.RecordBatch, list[BadRecord]]:
        """The good records in columns, in their order, and the bad ones in theirs."""
        keys, values = self._keys.decode(chunk.keys), self._values.decode(chunk.values)
        columns = keys.columns + values.columns
        tombstones = _absent(chunk.values)
        tombstones[list(values.nulls)] = True
        time_column = columns[self._time_place] if self._time_place >= 0 else None
        times, timeless = self._times.of(time_column, chunk.timestamps, tombstones)
        bad = _reasons(keys, values, timeless)
        meta = _meta(chunk, partition, times, tombstones)
        arrays = [columns[i] for i in self._places] + meta
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return _without(batch, bad), [_bad(chunk, i, why) for i, why in sorted(bad.items())]


def _absent(values: Sequence[bytes | None]) -> npt.NDArray[np.bool_]:
    if None not in values:
        return np.zeros(len(values), np.bool_)
    return np.fromiter((v is None for v in values), np.bool_, len(values))


def _declared(source: Source, name: str) -> Column:
    found = next((c for c in source.columns if c.name == name), None)
    if found is None:
        raise InvalidStatement(
            f"{source.name} has no column {name}.",
            action=f"its columns are {', '.join(c.name for c in source.columns) or 'none'}.",
        )
    return found


def _reasons(keys: Decoded, values: Decoded, timeless: dict[int, str]) -> dict[int, str]:
    """One reason per bad record; the first thing that went wrong."""
    return {
        **timeless,
        **{i: f"value: {why}" for i, why in values.bad.items()},
        **{i: f"key: {why}" for i, why in keys.bad.items()},
    }


def _meta(
    chunk: Chunk, partition: int, times: Times, tombstones: Sequence[bool] | np.ndarray
) -> list[pa.Array]:
    return [
        pa.array(np.full(len(chunk), partition, np.int32)),
        pa.array(chunk.offsets, pa.int64()),
        pa.array(times, pa.int64()),
        pa.array(tombstones, pa.bool_()),
    ]


def _without(batch: pa.RecordBatch, bad: dict[int, str]) -> pa.RecordBatch:
    if not bad:
        return batch
    keep = np.ones(batch.num_rows, np.bool_)
    keep[list(bad)] = False
    return batch.filter(pa.array(keep))


def _bad(chunk: Chunk, i: int, reason: str) -> BadRecord:
    return BadRecord(chunk.keys[i], chunk.values[i], chunk.offsets[i], chunk.timestamps[i], reason)
