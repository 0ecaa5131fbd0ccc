"""The first query of a foreign-key join: sends left rows to the foreign key they point to.

State: the left rows with their versions, by primary key, and the last version assigned.  Versions
grow within a state partition, so a row that is inserted again after a delete is newer than all
of its earlier records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.records import (
    Emitted,
    Overlay,
    Records,
    RowProcessor,
    Side,
    sink_rows,
)
from holdfast.types.statements.topology import (
    INSTRUCTION,
    LEFT_KEY,
    VERSION,
    JoinKind,
    Query,
    SubscribeStep,
)

__all__ = ["Instruction", "SubscribeProcessor", "home_of", "merged_versions"]

_ROW, _LAST = b"L", b"V"
_VERSION = struct.Struct(">q")


def home_of(state_key: bytes) -> bytes | None:
    """The primary key of a left row, from its state key; None: the last version."""
    return None if state_key == _LAST else state_key[len(_ROW) :]


def merged_versions(rows: Sequence[bytes]) -> bytes:
    """The last version of a state partition that continues with left rows of all these."""
    return _VERSION.pack(max(_VERSION.unpack(row)[0] for row in rows))


class Instruction(IntEnum):
    """The instruction to the foreign key's side, named as in Kafka Streams' foreign-key join."""

    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 0
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 1
    DELETE_KEY_AND_PROPAGATE = 2
    DELETE_KEY_NO_PROPAGATE = 3


@dataclass(frozen=True, slots=True)
class _Change:
    """A left row before and after a change, its primary key, version, time and cause."""

    key: bytes
    old: bytes | None
    new: bytes | None
    version: int
    time: int
    cause: int


@dataclass(frozen=True, slots=True)
class _Told:
    """A sink record: the row whose columns it carries, and the foreign key it goes to."""

    change: _Change
    row: bytes | None
    keyed: bool
    instruction: Instruction


class SubscribeProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        if not isinstance(query.step, SubscribeStep):
            raise TypeError(f"{query.id} has no subscribe step")
        self._side = Side(query.step.input)
        self._foreign = self._side.columns[0].name
        self._values = query.sink.value_columns
        self._tell = _left if query.step.kind is JoinKind.LEFT else _inner
        self._sink = SinkRecords(query.sink)

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        records = Records.read(payload, (self._side,))
        table = Overlay(store, [_LAST, *(_ROW + k for k in records.keys if k is not None)])
        emitted = self._emitted(list(_changes(records, table)))
        return emitted.changes(
            table, records, stream_time_ms, dropped_null_key=records.keys.count(None)
        )

    def _emitted(self, changes: list[_Change]) -> Emitted:
        """Compares foreign keys as the sink's serialized keys, as Kafka Streams does."""
        old = self._foreign_keys([c.old for c in changes])
        new = self._foreign_keys([c.new for c in changes])
        told = [
            each
            for change, before, after in zip(changes, old, new, strict=True)
            for each in self._tell(change, before, after)
        ]
        named = self._side.decode([t.row for t in told])
        keyed = pa.array([t.keyed for t in told], pa.bool_())
        foreign = named[self._foreign]
        nothing = pa.nulls(len(told), foreign.type)
        named[LEFT_KEY.name] = pa.array([t.change.key for t in told], pa.binary())
        named[VERSION.name] = pa.array([t.change.version for t in told], pa.int64())
        named[INSTRUCTION.name] = pa.array([t.instruction for t in told], pa.int32())
        return sink_rows(
            self._sink,
            [pc.if_else(keyed, foreign, nothing)],
            [named[c.name] for c in self._values],
            [False] * len(told),
            ([t.change.time for t in told], [t.change.cause for t in told]),
        )

    def _foreign_keys(self, rows: list[bytes | None]) -> list[bytes | None]:
        return self._sink.keys([self._side.decode(rows)[self._foreign]])


def _changes(records: Records, table: Overlay) -> Iterator[_Change]:
    stored = table.get(_LAST)
    version: int = 0 if stored is None else _VERSION.unpack(stored)[0]
    for _, key, row, time, cause in records:
        if key is None:
            continue
        old = table.get(_ROW + key)
        if row is None and old is None:
            continue
        version += 1
        table.put(_ROW + key, row)
        yield _Change(key, old, row, version, time, cause)
    table.put(_LAST, _VERSION.pack(version))


def _left(change: _Change, old: bytes | None, new: bytes | None) -> Iterator[_Told]:
    """LEFT join: every change gets an answer because a left row always has a result.

    A deleted row is sent to no foreign key; its answer is the tombstone.
    """
    if old is not None and old != new:
        yield _Told(change, change.old, True, Instruction.DELETE_KEY_NO_PROPAGATE)
    if change.new is None:
        yield _Told(change, change.old, False, Instruction.DELETE_KEY_AND_PROPAGATE)
    else:
        wanted = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
        yield _Told(change, change.new, new is not None, wanted)


def _inner(change: _Change, old: bytes | None, new: bytes | None) -> Iterator[_Told]:
    """INNER join: a change gets an answer if there may have been, or may now be, a result."""
    if new is None:
        if old is not None:
            yield _Told(change, change.old, True, Instruction.DELETE_KEY_AND_PROPAGATE)
        return
    wanted = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE
    if old is not None and old != new:
        yield _Told(change, change.old, True, Instruction.DELETE_KEY_NO_PROPAGATE)
        wanted = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
    yield _Told(change, change.new, True, wanted)
