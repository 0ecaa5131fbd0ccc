"""Rows of a stream-stream join that wait for a partner until their window has closed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.state.times import SIGN
from holdfast.tasks.processors.base import StoreView
from holdfast.tasks.processors.stream_joins.clock import CLOCK, FOREVER
from holdfast.tasks.processors.stream_joins.meetings import Arrived, Rows, Stored
from holdfast.tasks.processors.stream_joins.rows import key_of, ordered, reach_of
from holdfast.types.columns.byte_columns import fixed, joined
from holdfast.types.statements.topology import JoinKind, JoinStep

__all__ = ["NEVER", "Alone", "Settled", "Waiting", "home_of"]

NEVER = (1 << 63) - 1
_ORPHAN = b"O"
_HEAD = [("time", ">u8"), ("rank", "u1")]
_HEAD_BYTES = 9
_KEY = slice(1 + _HEAD_BYTES, -16)  # behind it: number, no time


def home_of(state_key: bytes) -> bytes | None:
    """The key of a join's row, waiting or not; None: the clock."""
    if state_key == CLOCK:
        return None
    return state_key[_KEY] if state_key.startswith(_ORPHAN) else key_of(state_key)


@dataclass(frozen=True)
class Alone:
    """Rows that have no partner, in one order for all attributes.

    Attributes:
        names: the state keys under which the rows wait.
        keys: each row's key, BINARY.
        side, time: each row's side, and its time in ms.
        since: each row's record in the batch, -1 for a stored row.
        until: the record at which each finds a partner, or `NEVER`.
        rows: the stored rows, which come first.
    """

    names: list[bytes]
    keys: pa.Array
    side: Rows
    time: Rows
    since: Rows
    until: Rows
    rows: list[bytes]

    def with_new(self, other: Alone) -> Alone:
        """These rows, followed by the batch's."""
        parts = ("side", "time", "since", "until")
        side, time, since, until = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in parts
        )
        names, keys = self.names + other.names, pa.concat_arrays([self.keys, other.keys])
        return Alone(names, keys, side, time, since, until, self.rows)


@dataclass(frozen=True)
class Settled:
    """The waiting rows after a batch; numbers are places in `of`.

    Attributes:
        told: the rows to emit because their window has closed, in order.
        causes: the places in `Arrived.order` of the records that closed them.
        added: the rows that start to wait.
        removed: state keys of the stored rows that no longer wait.
    """

    of: Alone
    told: Rows
    causes: Rows
    added: Rows
    removed: list[bytes]

    @staticmethod
    def nothing() -> Settled:
        """The result for a join in which no row waits."""
        none = np.array([], np.int64)
        alone = Alone([], pa.array([], pa.binary()), none, none, none, none, [])
        return Settled(alone, none, none, none, [])


class Waiting:
    """Knows one join's windows and the state keys under which rows wait."""

    def __init__(self, step: JoinStep) -> None:
        """Raises `TypeError`: the step has no window with GRACE PERIOD."""
        if step.window is None or step.window.grace_ms is None:
            raise TypeError(f"no row waits in a {step.form} join without grace")
        grace_ms = step.window.grace_ms
        self._waits = np.array([after + grace_ms for _, after in reach_of(step)])
        # Among equal times this side's rows come second, as in Kafka Streams' store.
        self._second = 1 if step.kind is JoinKind.RIGHT else 0

    def names(self, side: Rows, keys: pa.Array, time: Rows, number: Rows) -> list[bytes]:
        """The state keys under which rows with these sides, keys, times (ms) and numbers wait."""
        heads = np.empty(len(keys), _HEAD)
        heads["time"], heads["rank"] = ordered(time), side == self._second
        return joined(_ORPHAN, fixed(heads), keys, fixed(number.astype(">u8")), FOREVER)

    def partners(
        self,
        side: int,
        keys: pa.Array,
        rows: Stored,
        met: tuple[Rows, Rows],
        store: StoreView,
    ) -> dict[bytes, int]:
        """Rows that were waiting and have now found a partner: state keys, and the partner records.

        Args:
            keys: the keys that `rows.key` refers to.
            met: places in `rows`, and the record that each matched first.
        """
        at, first = met
        owner = keys.take(pa.array(rows.key[at]))
        names = self.names(np.full(len(at), side), owner, rows.time[at], rows.number[at])
        there = zip(names, first.tolist(), store.get_many(names), strict=True)
        return {name: record for name, record, row in there if row is not None}

    def settle(
        self, arrived: Arrived, new: Alone, partners: dict[bytes, int], store: StoreView
    ) -> Settled:
        """Settles the waiting rows of a batch.

        Args:
            new: the records that find no partner on arrival.
            partners: stored rows that found a partner: state keys, and the partner records.
        """
        waiting = self._stored(arrived, partners, store).with_new(new)
        closed = self._closed(arrived, waiting)
        is_told = closed <= waiting.until
        is_told &= closed < NEVER
        stays = ~is_told & (waiting.until == NEVER)
        told, by, names = np.flatnonzero(is_told).tolist(), closed.tolist(), waiting.names
        told.sort(key=lambda n: (by[n], names[n]))
        known = len(waiting.rows)
        told_keys = {names[n] for n in told if n < known}
        order = np.array(told, np.int64)
        return Settled(
            waiting,
            order,
            arrived.at[closed[order]],
            known + np.flatnonzero(stays[known:]),
            sorted(told_keys | partners.keys()),
        )

    def _stored(self, arrived: Arrived, partners: dict[bytes, int], store: StoreView) -> Alone:
        """The stored rows whose window may close."""
        newest = int(arrived.time.max(initial=0))
        end = max(newest - int(self._waits.min()) + SIGN, 0).to_bytes(8, "big")
        found = list(store.scan(_ORPHAN, _ORPHAN + end))
        names = [name for name, _ in found]
        heads = np.frombuffer(b"".join([name[1 : _KEY.start] for name in names]), _HEAD)
        second = heads["rank"] == 1
        return Alone(
            names,
            pa.array([name[_KEY] for name in names], pa.binary()),
            np.where(second, self._second, 1 - self._second),
            (heads["time"].astype(np.uint64) ^ np.uint64(SIGN)).astype(np.int64),
            np.full(len(names), -1),
            np.array([partners.get(name, NEVER) for name in names], np.int64),
            [row for _, row in found],
        )

    def _closed(self, arrived: Arrived, waiting: Alone) -> Rows:
        """The record that closes each window: the first later one that is the newest so far."""
        newest = arrived.now[arrived.at]
        asking = np.flatnonzero(arrived.time == newest)
        ends = waiting.time + self._waits[waiting.side]
        by_time = np.searchsorted(newest[asking], ends, "right")
        by_arrival = np.searchsorted(asking, waiting.since, "right")
        closed: Rows = np.append(asking, NEVER)[np.maximum(by_time, by_arrival)]
        return closed
