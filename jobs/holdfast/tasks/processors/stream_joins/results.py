"""The results of a stream-stream join's batch: the cause and the content of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.keys import decode_keys
from holdfast.tasks.processors.base import SIDE
from holdfast.tasks.processors.pairs import ROWTIME, Pairs
from holdfast.tasks.processors.records import Emitted, one_array
from holdfast.tasks.processors.stream_joins.meetings import Arrived, Meetings, Rows, Stored
from holdfast.tasks.processors.stream_joins.waiting import Settled
from holdfast.types.topology import SEQUENCE, TIMESTAMP

__all__ = ["Results"]

_NONE = -1  # no row, no key


class Results:
    """Collects the results kind by kind and puts them in order at the end.

    A row's source is its place in the payload or, counted on from the payload's end, among the
    stored rows of its side.
    """

    def __init__(self, payload: pa.Table, arrived: Arrived, stored: tuple[Stored, Stored]) -> None:
        self._payload, self._arrived = payload, arrived
        self._rows = tuple(list(side.rows) for side in stored)
        self._more_keys: list[pa.Array] = [arrived.keys]
        self._parts: list[tuple[Rows, Rows, Rows, Rows, Rows]] = []

    def add_told(self, settled: Settled) -> None:
        """Adds rows whose window has closed; these come first among the results of one cause."""
        if not len(settled.told):
            return
        of = settled.of
        since, side = of.since[settled.told], of.side[settled.told]
        new = since >= 0
        source, key = np.empty_like(since), np.empty_like(since)
        source[new] = self._arrived.place[since[new]]
        key[new] = self._arrived.key[since[new]]
        old = settled.told[~new]
        key[~new] = len(self._arrived.keys) + np.arange(len(old))
        self._more_keys.append(of.keys.take(pa.array(old)))
        for own in (0, 1):
            here = np.flatnonzero(~new & (side == own))
            first = self._payload.num_rows + len(self._rows[own])
            source[here] = first + np.arange(len(here))
            self._rows[own].extend(of.rows[n] for n in settled.told[here].tolist())
        self._add_single(settled.causes, key, side, source, of.time[settled.told])

    def add_met(self, met: tuple[Meetings, Meetings]) -> None:
        """Adds pairs, by the side of the record that caused them."""
        arrived, place = self._arrived, self._arrived.place
        for side, each in enumerate(met):
            own = place[each.cause]
            left, right = (own, each.source) if side == 0 else (each.source, own)
            time = np.maximum(each.time, arrived.time[each.cause])
            self._parts.append((arrived.at[each.cause], arrived.key[each.cause], left, right, time))

    def add_alone(self, records: Rows, outer: npt.NDArray[np.bool_]) -> None:
        """Adds records emitted at once: these, and keyless ones of a side that is `outer`."""
        arrived = self._arrived
        side, time = arrived.side[records], arrived.time[records]
        at, place = arrived.at[records], arrived.place[records]
        self._add_single(at, arrived.key[records], side, place, time)
        sides = self._payload[SIDE].to_numpy()[arrived.order[arrived.keyless]]
        at = arrived.keyless[outer[sides]]
        place = arrived.order[at]
        time = self._payload[TIMESTAMP].to_numpy()[place]
        self._add_single(at, np.full(len(at), _NONE), sides[outer[sides]], place, time)

    def emitted(self, pairs: Pairs) -> Emitted:
        """The sink's records, ordered by cause, then as they were added."""
        cause, key, left, right, time = (
            np.concatenate(columns) for columns in zip(*self._parts, strict=True)
        )
        if not len(cause):
            return Emitted([], [], [], [])
        order = np.argsort(cause, kind="stable")
        frame: dict[str, pa.Array] = {}
        sides = zip((pairs.left, pairs.right), self._rows, (left, right), strict=True)
        for side, rows, source in sides:
            at = _places(source[order])
            for name, kept in side.decode(rows).items():
                whole = pa.concat_arrays([one_array(self._payload[name]), kept])
                frame[name] = whole.take(at)
        keys = pa.concat_arrays(self._more_keys).to_pylist()
        at = _places(key[order])
        decoded = decode_keys(keys, pairs.key_columns)
        for column, values in zip(pairs.key_columns, decoded, strict=True):
            frame[column.name] = values.take(at)
        frame[ROWTIME] = pa.array(time[order])
        caused = self._arrived.order[cause[order]]
        sequence = self._payload[SEQUENCE].take(pa.array(caused))
        return pairs.of_frame(frame, pc.fill_null(sequence, 0).to_pylist())

    def _add_single(self, cause: Rows, key: Rows, side: Rows, source: Rows, time: Rows) -> None:
        left, right = np.where(side == 0, source, _NONE), np.where(side == 1, source, _NONE)
        self._parts.append((cause, key, left, right, time))


def _places(numbers: Rows) -> pa.Array:
    """Indices for `take`, null for none."""
    missing = numbers == _NONE
    return pa.array(numbers, mask=missing) if missing.any() else pa.array(numbers)
