"""The results of joins: pairs of rows, decoded and evaluated in columns, one batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.tasks.evaluate.keys import decode_keys
from holdfast.tasks.evaluate.outputs import Expressions
from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.tasks.processors.records import Emitted, Side, sink_rows
from holdfast.types.columns.schema import Column
from holdfast.types.statements.topology import JoinStep, Sink

__all__ = ["ROWTIME", "Pair", "Pairs", "key_arrays"]

ROWTIME = "ROWTIME"


@dataclass(slots=True)
class Pair:
    """One result: its join key, both rows, its time in ms and the record that caused it.

    `was`: the pair before it, for the result of a table.
    """

    key: bytes | None
    left: bytes | None
    right: bytes | None
    time: int
    cause: int
    gone: bool = False
    was: tuple[bytes | None, bytes | None] | None = None


def key_arrays(keys: Sequence[bytes | None], columns: Sequence[Column]) -> list[pa.Array]:
    """The key columns of state keys; nulls for a missing key."""
    present = [k for k in keys if k is not None]
    arrays = decode_keys(present, columns)
    if len(present) == len(keys):
        return arrays
    places = iter(range(len(present)))
    taken = pa.array([None if k is None else next(places) for k in keys], pa.int64())
    return [a.take(taken) for a in arrays]


class Pairs:
    """Turns pairs into sink records: WHERE, keys and outputs."""

    def __init__(self, step: JoinStep, sink: Sink) -> None:
        self.left, self.right = Side(step.left), Side(step.right)
        self._filtered = step.filter is not None
        self._keys = Expressions(step.keys)
        self._outputs = Expressions(step.outputs, step.filter)
        self.key_columns = self.left.keys
        self._sink = SinkRecords(sink)

    def of_stream(self, pairs: Sequence[Pair]) -> Emitted:
        """A stream's records: pairs that fail WHERE are dropped."""
        if self._filtered and pairs:
            passes = self._outputs.passes(self.frame(pairs))
            pairs = [p for p, passed in zip(pairs, passes, strict=True) if passed]
        return self._emitted(pairs, [False] * len(pairs))

    def of_frame(self, frame: dict[str, pa.Array], causes: Sequence[int]) -> Emitted:
        """A stream's records from the columns that keys, outputs and WHERE may name."""
        if not causes:
            return Emitted([], [], [], [])
        if self._filtered:
            passes = pa.array(self._outputs.passes(frame))
            frame = {name: array.filter(passes) for name, array in frame.items()}
            causes = pa.array(causes).filter(passes).to_pylist()
        return self._written(frame, [False] * len(causes), causes)

    def of_table(self, pairs: Sequence[Pair]) -> Emitted:
        """A table's changes.

        A pair that fails WHERE is a deletion; if the pair before it failed, too, nothing changes.
        """
        if not self._filtered or not pairs:
            return self._emitted(pairs, [p.gone for p in pairs])
        gone = self.gone(pairs)
        kept = [i for i, was in enumerate(self._passed(pairs)) if was or not gone[i]]
        return self._emitted([pairs[i] for i in kept], [gone[i] for i in kept])

    def gone(self, pairs: Sequence[Pair]) -> list[bool]:
        """Which pairs give no row: they did not join, or they fail WHERE."""
        if not self._filtered or not pairs:
            return [p.gone for p in pairs]
        passes = self._outputs.passes(self.frame(pairs))
        return [p.gone or not passed for p, passed in zip(pairs, passes, strict=True)]

    def keys(self, frame: dict[str, pa.Array]) -> list[pa.Array]:
        """The sink's key columns, and its window's bounds."""
        return self._keys.columns(frame)

    def values(self, frame: dict[str, pa.Array]) -> list[pa.Array]:
        """The sink's value columns."""
        return self._outputs.columns(frame)

    def frame(self, pairs: Sequence[Pair]) -> dict[str, pa.Array]:
        """All columns that keys, outputs and WHERE may name."""
        named = {
            **self.left.decode([p.left for p in pairs]),
            **self.right.decode([p.right for p in pairs]),
        }
        keys = key_arrays([p.key for p in pairs], self.key_columns)
        named.update(zip((c.name for c in self.key_columns), keys, strict=True))
        named[ROWTIME] = pa.array([p.time for p in pairs], pa.int64())
        return named

    def _passed(self, pairs: Sequence[Pair]) -> list[bool]:
        """Which pairs replace a row that passed WHERE."""
        before = [
            Pair(p.key, *(p.was or (None, None)), p.time, p.cause, gone=p.was is None)
            for p in pairs
        ]
        return [not gone for gone in self.gone(before)]

    def _emitted(self, pairs: Sequence[Pair], gone: Sequence[bool]) -> Emitted:
        if not pairs:
            return Emitted([], [], [], [])
        return self._written(self.frame(pairs), gone, [p.cause for p in pairs])

    def _written(
        self, frame: dict[str, pa.Array], gone: Sequence[bool], causes: Sequence[int]
    ) -> Emitted:
        if not causes:
            return Emitted([], [], [], [])
        facts = (frame[ROWTIME].to_pylist(), causes)
        return sink_rows(self._sink, self.keys(frame), self.values(frame), gone, facts)
