"""The processor of GROUP BY: merges one batch's partials into the stored rows, in columns.

Pure: it is given old rows and returns what to write.  `StateTask` does the reading and writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.registry import bind
from holdfast.tasks.keys import decode_keys, sink_keys, split_window, window_key
from holdfast.tasks.outputs import Expressions
from holdfast.tasks.processors.base import KEY, Changes, Processor, StoreView
from holdfast.tasks.rows import RowCodec
from holdfast.tasks.values import encode_values
from holdfast.types.topology import AggregateStep, Query

__all__ = ["AggregateProcessor", "PartialColumn", "partial_columns"]

WINDOW, COUNT, ROWTIME = "__window", "__n", "__ts"


@dataclass(frozen=True)
class PartialColumn:
    """A column of the shuffled payload: its name, Spark SQL aggregate and Arrow type."""

    name: str
    spark: str
    type: pa.DataType


def partial_columns(step: AggregateStep) -> list[PartialColumn]:
    """What Spark computes per key (and window) beside the key itself."""
    columns = [
        PartialColumn(COUNT, "count(1)", pa.int64()),
        PartialColumn(ROWTIME, "max(`__timestamp`)", pa.int64()),
    ]
    for i, call in enumerate(step.aggregates):
        for j, partial in enumerate(bind(call).partials):
            columns.append(PartialColumn(f"p{i}_{j}", partial.spark, partial.type))
    return columns


class AggregateProcessor(Processor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        step = query.step
        if not isinstance(step, AggregateStep):
            raise TypeError(f"{query.id} has no aggregate step")
        self._step = step
        self._sink = query.sink
        self._calls = [bind(call) for call in step.aggregates]
        self._codec = RowCodec([t for call in self._calls for t in call.state])
        self._outputs = Expressions(step.outputs, step.having)
        columns = partial_columns(step)
        fields = [pa.field(KEY, pa.binary())]
        if step.window is not None:
            fields.append(pa.field(WINDOW, pa.int64()))
        fields += [pa.field(c.name, c.type) for c in columns]
        self._schema = pa.schema(fields)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def windowed(self) -> bool:
        return self._step.window is not None

    @property
    def retention_ms(self) -> int | None:
        return self._step.window.retention_ms if self._step.window is not None else None

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        """Merges a payload (one row per key and window) given the stream time before the batch."""
        records = pc.sum(payload[COUNT]).as_py() or 0
        newest = pc.max(payload[ROWTIME]).as_py()
        keyed = payload.filter(pc.is_valid(payload[KEY]))
        live = self._sorted(self._drop_late(keyed, stream_time_ms))
        keys = self._state_keys(live)
        old_rows = store.get_many(keys)
        rowtime, rows, old, new = self._merge(live, old_rows)
        sink = self._emit(keys, old_rows, old, new, rowtime)
        return Changes(
            keys=keys,
            rows=list(rows),
            created=[k for k, r in zip(keys, old_rows, strict=True) if r is None],
            sink_keys=sink[0],
            sink_values=sink[1],
            sink_timestamps=sink[2],
            stream_time_ms=stream_time_ms if newest is None else max(stream_time_ms, newest),
            records=records,
            dropped_null_key=records - (pc.sum(keyed[COUNT]).as_py() or 0),
            dropped_late=(pc.sum(keyed[COUNT]).as_py() or 0) - (pc.sum(live[COUNT]).as_py() or 0),
        )

    def _drop_late(self, payload: pa.Table, stream_time_ms: int) -> pa.Table:
        """Records of windows that closed: end + grace <= stream time (Kafka Streams' rule)."""
        window = self._step.window
        if window is None:
            return payload
        closed_before = stream_time_ms - window.grace_ms - window.size_ms
        return payload.filter(pc.greater(payload[WINDOW], closed_before))

    def _sorted(self, payload: pa.Table) -> pa.Table:
        """By key: neighbours share blocks of the store, which halves reading and writing."""
        by = [KEY] if self._step.window is None else [KEY, WINDOW]
        return payload.take(pc.sort_indices(payload, [(name, "ascending") for name in by]))

    def _state_keys(self, payload: pa.Table) -> list[bytes]:
        keys: list[bytes] = payload[KEY].to_pylist()
        if self._step.window is None:
            return keys
        starts = payload[WINDOW].to_pylist()
        return [window_key(k, s) for k, s in zip(keys, starts, strict=True)]

    def _merge(
        self, payload: pa.Table, old_rows: Sequence[bytes | None]
    ) -> tuple[npt.NDArray[np.int64], list[bytes], list[pa.Array], list[pa.Array]]:
        old_time, present, old = self._codec.decode(old_rows)
        new: list[pa.Array] = []
        at = 0
        for i, call in enumerate(self._calls):
            width = len(call.state)
            partials = [_chunk(payload[f"p{i}_{j}"]) for j in range(len(call.partials))]
            new += call.merge(old[at : at + width], partials)
            at += width
        newest = _chunk(payload[ROWTIME]).to_numpy(zero_copy_only=False)
        rowtime = np.where(present, np.maximum(old_time, newest), newest).astype(np.int64)
        return rowtime, self._codec.encode(rowtime, new), old, new

    def _finish(self, state: Sequence[pa.Array]) -> dict[str, pa.Array]:
        finished: dict[str, pa.Array] = {}
        at = 0
        for call, planned in zip(self._calls, self._step.aggregates, strict=True):
            width = len(call.state)
            finished[planned.name] = call.finish(state[at : at + width])
            at += width
        return finished

    def _emit(
        self,
        keys: list[bytes],
        old_rows: Sequence[bytes | None],
        old: list[pa.Array],
        new: list[pa.Array],
        rowtime: npt.NDArray[np.int64],
    ) -> tuple[list[bytes], list[bytes | None], list[int]]:
        """Sink keys, values (null: the row left the table by HAVING) and timestamps."""
        if not keys:
            return [], [], []
        frame, plain, starts = self._frame(keys)
        after = {**frame, **self._finish(new)}
        columns = [o.column for o in self._step.outputs]
        values = encode_values(columns, self._outputs.columns(after), self._sink.value_format)
        encoded = sink_keys(
            plain, self._sink.key_columns, self._key_arrays(frame), self._sink.key_format
        )
        if starts is not None:
            encoded = [window_key(k, s) for k, s in zip(encoded, starts, strict=True)]
        times = rowtime.tolist()
        if self._step.having is None:
            return encoded, list(values), times
        passes = self._outputs.passes(after)
        passed = self._outputs.passes({**frame, **self._finish(old)})
        was = [p and r is not None for p, r in zip(passed, old_rows, strict=True)]
        kept = [i for i, (a, b) in enumerate(zip(passes, was, strict=True)) if a or b]
        return (
            [encoded[i] for i in kept],
            [values[i] if passes[i] else None for i in kept],
            [times[i] for i in kept],
        )

    def _frame(
        self, keys: list[bytes]
    ) -> tuple[dict[str, pa.Array], list[bytes], list[int] | None]:
        """(key columns and window bounds by name, keys without window, window starts)."""
        window = self._step.window
        key_columns = [k.column for k in self._step.keys]
        if window is None:
            plain, starts = keys, None
        else:
            plain, starts = split_window(keys)
        arrays = decode_keys(plain, key_columns)
        frame = {c.name: a for c, a in zip(key_columns, arrays, strict=True)}
        if window is not None and starts is not None:
            frame["WINDOWSTART"] = pa.array(starts, pa.int64())
            frame["WINDOWEND"] = pa.array([s + window.size_ms for s in starts], pa.int64())
        return frame, plain, starts

    def _key_arrays(self, frame: dict[str, pa.Array]) -> list[pa.Array]:
        return [frame[k.column.name] for k in self._step.keys]


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else combined.chunk(0)
