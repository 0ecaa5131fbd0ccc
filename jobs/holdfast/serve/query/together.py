"""Batches look-ups that arrive in the same iteration of the event loop into one read.

Reading and decoding one row costs nearly as much as sixty rows, so batching makes look-ups of many
concurrent clients cheap.  No look-up waits longer than the current iteration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.serve.contract import EVERY_WINDOW, PRESENT, PartitionState, Reader, Rows
from holdfast.serve.query.plans import Plan
from holdfast.serve.values import values_of

__all__ = ["Found", "Together", "plain_rows"]

_KEYS_MAX = 64  # the reader looks up so many keys on the loop itself
_Row = Sequence[Any]


@dataclass(frozen=True)
class Found:
    """Rows by key, and the states of the partitions that were read."""

    rows: Mapping[bytes, _Row]
    states: Mapping[int, PartitionState]


@dataclass
class _Waiting:
    plan: Plan
    max_lag: int | None
    keys: dict[bytes, None] = field(default_factory=dict)
    found: asyncio.Future[Found] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Together:
    """Batches look-ups of plain rows by key, in tables without windows."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._waiting: dict[tuple[int, int | None], _Waiting] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def look_up(
        self, plan: Plan, keys: Sequence[bytes], max_lag: int | None
    ) -> tuple[list[_Row], Mapping[int, PartitionState]]:
        """The rows of the keys that exist, and the states of their partitions."""
        # The waiting look-up keeps the plan alive, so its id stays unique.
        place = (id(plan), max_lag)
        waiting = self._waiting.get(place)
        if waiting is None:
            waiting = self._waiting[place] = _Waiting(plan, max_lag)
            asyncio.get_running_loop().call_soon(self._begin, place, waiting)
        waiting.keys.update(dict.fromkeys(keys))
        if len(waiting.keys) >= _KEYS_MAX:
            self._begin(place, waiting)
        try:
            found = await asyncio.shield(waiting.found)
        except HoldfastError:
            if len(waiting.keys) == len(keys):
                raise
            # Another look-up of the batch may have caused the error.
            found = await self._read(plan, keys, max_lag)
        return [found.rows[k] for k in keys if k in found.rows], _states(plan, keys, found)

    def _begin(self, place: tuple[int, int | None], waiting: _Waiting) -> None:
        if self._waiting.get(place) is waiting:
            del self._waiting[place]
            task = asyncio.ensure_future(self._answer(waiting))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _answer(self, waiting: _Waiting) -> None:
        try:
            found = await self._read(waiting.plan, list(waiting.keys), waiting.max_lag)
        except BaseException as error:
            if not waiting.found.done():
                waiting.found.set_exception(error)
                waiting.found.exception()  # all callers may have been cancelled
            if not isinstance(error, Exception):
                raise
        else:
            waiting.found.set_result(found)

    async def _read(self, plan: Plan, keys: Sequence[bytes], max_lag: int | None) -> Found:
        read = await self._reader.get(plan.table, keys, EVERY_WINDOW, max_lag=max_lag)
        return Found(plain_rows(plan, read), read.states)


def plain_rows(plan: Plan, read: Rows) -> dict[bytes, _Row]:
    """The selected columns of a plain read, by stored key, of the rows that the table has."""
    if not read.keys:
        return {}
    decoded = plan.table.decode(read.keys, read.rows)
    columns = [values_of(decoded.column(name)) for name in plan.evaluation.refs]
    there = decoded.column(PRESENT).to_pylist()
    rows = zip(read.keys, zip(*columns, strict=True), there, strict=True)
    return {key: row for key, row, is_there in rows if is_there}


def _states(plan: Plan, keys: Sequence[bytes], found: Found) -> Mapping[int, PartitionState]:
    if len(found.states) <= 1:
        return found.states
    places = {plan.table.partition_of(key) for key in keys}
    if None in places:
        return found.states
    return {p: state for p, state in found.states.items() if p in places}
