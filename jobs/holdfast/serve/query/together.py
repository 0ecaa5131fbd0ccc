"""Look-ups that are asked for in the same turn of the event loop are read and decoded as one.

To read and decode one row costs nearly as much as sixty: with many clients at a time this is what
makes a look-up cheap.  Nobody waits for more than the turn of the loop that has begun.
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

_KEYS_MAX = 64  # the reader takes so many on the loop itself
_Row = Sequence[Any]


@dataclass(frozen=True)
class Found:
    """Rows of keys, and the states of the partitions that they were looked for in."""

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
    """Gathers look-ups of plain rows by key, of tables without windows."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._waiting: dict[tuple[int, int | None], _Waiting] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def look_up(
        self, plan: Plan, keys: Sequence[bytes], max_lag: int | None
    ) -> tuple[list[_Row], Mapping[int, PartitionState]]:
        """The rows of the keys that are there, and the states of their partitions."""
        place = (id(plan), max_lag)  # what waits holds the plan, so that its id is its own
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
            found = await self._read(plan, keys, max_lag)  # its fault may be one of the others
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
                waiting.found.exception()  # all who waited may have gone
            if not isinstance(error, Exception):
                raise
        else:
            waiting.found.set_result(found)

    async def _read(self, plan: Plan, keys: Sequence[bytes], max_lag: int | None) -> Found:
        read = await self._reader.get(plan.table, keys, EVERY_WINDOW, max_lag=max_lag)
        return Found(plain_rows(plan, read), read.states)


def plain_rows(plan: Plan, read: Rows) -> dict[bytes, _Row]:
    """The columns of a plain read, of the rows that the table has, by stored key."""
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
