"""Decodes a chunk of Kafka records to an Arrow record batch and a list of bad records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import InvalidStatement
from holdfast.ingest.formats import Decoded, key_decoder, value_decoder
from holdfast.ingest.record_metadata import Windows, header_columns, split_windows
from holdfast.tasks.evaluate.event_time import EventTime, Times
from holdfast.tasks.pack.packing import added
from holdfast.transport.reader import Chunk
from holdfast.transport.registry import registry_of
from holdfast.types.columns.schema import BIGINT, BOOLEAN, INTEGER, Column
from holdfast.types.columns.schemas import Schemas
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import (
    HEADERS,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOMBSTONE,
    Source,
)

__all__ = ["BadRecord", "RecordDecoder", "wants_headers"]

_META = (
    Column(PARTITION, INTEGER),
    Column(OFFSET, BIGINT),
    Column(TIMESTAMP, BIGINT),
    Column(TOMBSTONE, BOOLEAN),
)


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot be decoded: its original bytes, its place, and the reason."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp: int  # the Kafka record's, ms; -1 for none
    reason: str


def wants_headers(options: IngestOptions) -> bool:
    """Whether a wanted column comes from record headers."""
    made = {HEADERS, *(h.column.name for h in options.source.headers)}
    return not made.isdisjoint(options.columns)


class RecordDecoder:
    """Decodes the wanted columns of one source by its formats."""

    def __init__(self, options: IngestOptions, schemas: Schemas | None = None) -> None:
        """Raises `InvalidStatement`, `Unsupported`: the source cannot be decoded as declared.

        Args:
            schemas: the registry; None: the one of the options, if there is one.
        """
        source = options.source
        if schemas is None:
            schemas = registry_of(options.registry)
        self._source = source
        self._times = EventTime(source.name, source.columns, source.timestamp)
        wanted = [_declared(source, name) for name in options.columns]
        stamp = self._times.column
        decoded = [c for c in wanted if c in source.columns]
        if stamp is not None and stamp not in decoded:
            decoded.append(stamp)
        keys = [c for c in decoded if c in source.key_columns]
        values = [c for c in decoded if c not in source.key_columns]
        self._keys = key_decoder(
            source.key_format,
            source.key_columns,
            keys,
            source.key_delimiter,
            source.key_nullable,
            schemas,
            source.key_schema,
        )
        self._values = value_decoder(
            source.value_format,
            source.value_columns,
            values,
            wrap=source.wrap_single,
            delimiter=source.delimiter,
            nullable=source.nullable,
            schemas=schemas,
            own=source.value_schema,
        )
        self._with_keys = bool(source.key_columns) or source.window is not None
        self._decoded = [c.name for c in keys + values]
        self._wanted = [c.name for c in wanted]
        self._headers = wants_headers(options)
        fields = [(c.name, c.type.arrow()) for c in wanted]
        query = options.query
        needed = None if query is None or not query.stateful else added(query, options.side)
        beside = [c for c in _META if needed is None or c.name in needed]
        self._beside = [c.name for c in beside]
        self._schema = pa.schema(fields + [(c.name, c.type.arrow()) for c in beside])

    def decode(self, chunk: Chunk, partition: int) -> tuple[pa.RecordBatch, list[BadRecord]]:
        """The good records in columns, and the bad records, both in order."""
        windows = split_windows(self._source, chunk.keys) if self._with_keys else Windows(())
        keys, values = self._keys.decode(windows.keys), self._values.decode(chunk.values)
        columns = dict(zip(self._decoded, keys.columns + values.columns, strict=True))
        tombstones = _absent(chunk.values)
        tombstones[list(values.nulls)] = True
        stamp = self._times.column
        time_column = columns[stamp.name] if stamp is not None else None
        times, timeless = self._times.of(time_column, chunk.timestamps, tombstones)
        bad = _reasons(keys, values, {**timeless, **windows.bad})
        columns |= windows.bounds
        if self._headers:
            columns |= header_columns(self._source, chunk.headers)
        make = _beside(chunk, partition, times, tombstones)
        arrays = [columns[name] for name in self._wanted] + [make[n]() for n in self._beside]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return _without(batch, bad), [_bad(chunk, i, why) for i, why in sorted(bad.items())]


def _absent(values: Sequence[bytes | None]) -> npt.NDArray[np.bool_]:
    if all(values) or None not in values:
        return np.zeros(len(values), np.bool_)
    return np.fromiter((v is None for v in values), np.bool_, len(values))


def _declared(source: Source, name: str) -> Column:
    found = next((c for c in source.readable if c.name == name), None)
    if found is None:
        raise InvalidStatement(
            f"{source.name} has no column {name}.",
            action=f"its columns are {', '.join(c.name for c in source.columns) or 'none'}.",
        )
    return found


def _reasons(keys: Decoded, values: Decoded, timeless: dict[int, str]) -> dict[int, str]:
    """The first reason for each bad record."""
    return {
        **timeless,
        **{i: f"value: {why}" for i, why in values.bad.items()},
        **{i: f"key: {why}" for i, why in keys.bad.items()},
    }


def _beside(
    chunk: Chunk, partition: int, times: Times, tombstones: npt.NDArray[np.bool_]
) -> dict[str, Callable[[], pa.Array]]:
    """The functions that make the columns added by ingest."""
    return {
        PARTITION: lambda: pa.array(np.full(len(chunk), partition, np.int32)),
        OFFSET: lambda: pa.array(chunk.offsets, pa.int64()),
        TIMESTAMP: lambda: pa.array(times, pa.int64()),
        TOMBSTONE: lambda: pa.array(tombstones, pa.bool_()),
    }


def _without(batch: pa.RecordBatch, bad: dict[int, str]) -> pa.RecordBatch:
    if not bad:
        return batch
    keep = np.ones(batch.num_rows, np.bool_)
    keep[list(bad)] = False
    return batch.filter(pa.array(keep))


def _bad(chunk: Chunk, i: int, reason: str) -> BadRecord:
    reason = reason.encode(errors="backslashreplace").decode()  # may contain a lone surrogate
    return BadRecord(chunk.keys[i], chunk.values[i], chunk.offsets[i], chunk.timestamps[i], reason)
