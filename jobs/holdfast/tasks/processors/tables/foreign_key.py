"""The second query of a foreign-key join: left rows meet the right row they point to.

State: the right table's rows under `R` and the key; under `S`, length and bytes of the key and the
left primary key, the left rows that point to it.  A left row without a foreign key is answered
at once and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from holdfast.tasks.evaluate.keys import first_measured, measured
from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.tasks.pack.rows import row_time
from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.pairs import Pair, Pairs
from holdfast.tasks.processors.records import (
    Emitted,
    Overlay,
    Records,
    RowProcessor,
    sink_rows,
)
from holdfast.tasks.processors.tables.subscribe import Instruction
from holdfast.types.statements.topology import (
    INSTRUCTION,
    LEFT_KEY,
    VERSION,
    JoinKind,
    JoinStep,
    Query,
)

__all__ = ["ForeignKeyProcessor", "home_of"]

_RIGHT, _LEFT = b"R", b"S"


class ForeignKeyProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        if not isinstance(query.step, JoinStep):
            raise TypeError(f"{query.id} has no join step")
        self._outer = query.step.kind is JoinKind.LEFT
        self._pairs = Pairs(query.step, query.sink)
        self._sink = SinkRecords(query.sink)

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        records = Records.read(payload, (self._pairs.left, self._pairs.right))
        subscriptions = self._subscriptions(records)
        state = Overlay(store, (_RIGHT + k for k in records.keys if k is not None))
        pointing = _Pointing(state, store, {k for k in records.keys if k is not None})
        pairs: list[Pair] = []
        for side, key, row, time, cause in records:
            if side == 1 and key is not None:
                state.put(_RIGHT + key, row)
                rows = pointing.rows(key)
                pairs += [self._pair(key, left, row, time, cause) for left in rows]
            elif side == 0 and row is not None:
                left_key, instruction = next(subscriptions)
                _keep(pointing, key, left_key, row, instruction)
                pairs += self._answer(state, key, row, instruction, time, cause)
        return self._emitted(pairs).changes(state, records, stream_time_ms)

    def _subscriptions(self, records: Records) -> Iterator[tuple[bytes, Instruction]]:
        """(left primary key, instruction) of the left records, in order."""
        both = zip(records.rows, records.sides, strict=True)
        named = self._pairs.left.decode([r for r, side in both if side == 0 and r is not None])
        keys: list[bytes] = named[LEFT_KEY.name].to_pylist()
        return zip(keys, map(Instruction, named[INSTRUCTION.name].to_pylist()), strict=True)

    def _answer(
        self,
        state: Overlay,
        key: bytes | None,
        row: bytes,
        instruction: Instruction,
        time: int,
        cause: int,
    ) -> Iterator[Pair]:
        right = None if key is None else state.get(_RIGHT + key)
        at = time if right is None else max(time, row_time(right))
        if instruction is Instruction.DELETE_KEY_AND_PROPAGATE:
            yield Pair(key, row, None, at, cause, gone=True)
        elif instruction is Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE or (
            instruction is Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE and right is not None
        ):
            yield self._pair(key, row, right, at, cause)

    def _pair(
        self, key: bytes | None, left: bytes, right: bytes | None, time: int, cause: int
    ) -> Pair:
        gone = right is None and not self._outer
        return Pair(key, left, right, time, cause, gone=gone)

    def _emitted(self, pairs: Sequence[Pair]) -> Emitted:
        gone = self._pairs.gone(pairs)
        frame = self._pairs.frame(pairs)
        values = [*self._pairs.values(frame), frame[VERSION.name], pa.array(gone, pa.bool_())]
        facts = ([p.time for p in pairs], [p.cause for p in pairs])
        return sink_rows(self._sink, self._pairs.keys(frame), values, [False] * len(pairs), facts)


def _keep(
    pointing: _Pointing, key: bytes | None, left_key: bytes, row: bytes, instruction: Instruction
) -> None:
    if key is None:
        return
    deletes = (Instruction.DELETE_KEY_AND_PROPAGATE, Instruction.DELETE_KEY_NO_PROPAGATE)
    pointing.put(key, left_key, None if instruction in deletes else row)


class _Pointing:
    """The left rows that point to the foreign keys of a batch."""

    def __init__(self, state: Overlay, store: StoreView, keys: set[bytes]) -> None:
        self._state = state
        prefixes = sorted((_prefix(key), key) for key in keys)
        found = store.scan_many([(prefix, _after(prefix)) for prefix, _ in prefixes])
        self._rows: dict[bytes, dict[bytes, bytes]] = {}
        for (prefix, key), rows in zip(prefixes, found, strict=True):
            self._rows[key] = {state_key[len(prefix) :]: row for state_key, row in rows}
            for state_key, row in rows:
                state.known(state_key, row)

    def rows(self, key: bytes) -> list[bytes]:
        """The left rows that point to the key, ordered by primary key."""
        found = self._rows[key]
        return [found[left_key] for left_key in sorted(found)]

    def put(self, key: bytes, left_key: bytes, row: bytes | None) -> None:
        """Sets the left row that points to the key; None removes it."""
        if row is None:
            self._rows[key].pop(left_key, None)
        else:
            self._rows[key][left_key] = row
        self._state.put(_prefix(key) + left_key, row)


def home_of(state_key: bytes) -> bytes:
    """The foreign key of a row, from its state key: the right row's own, or where a left points."""
    if state_key.startswith(_RIGHT):
        return state_key[len(_RIGHT) :]
    return first_measured(state_key[len(_LEFT) :])


def _prefix(key: bytes) -> bytes:
    return _LEFT + measured(key)


def _after(prefix: bytes) -> bytes:
    """The smallest key after all keys with that prefix, which starts with a letter."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes((head[-1] + 1,))
