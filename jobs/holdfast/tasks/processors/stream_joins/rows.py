"""The rows of a stream-stream join in the store: by side, key and time.

State, all under state keys that end in eight bytes by which they can be found in time:

    L or R, length and bytes of the key, time, number, time of its side    a record's row
    O, time, side, key, number, no time                                    a row without partner yet
    T, no time                                                             the `Clock`

`stream_waiting` handles the rows under `O`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.state.times import SIGN
from holdfast.tasks.evaluate.keys import measured_all, unmeasured
from holdfast.tasks.processors.base import StoreView
from holdfast.types.columns.byte_columns import Parts, fixed, joined
from holdfast.types.statements.topology import JoinKind, JoinStep, JoinWindow

__all__ = [
    "Reach",
    "expired_rows",
    "key_of",
    "ordered",
    "places_of",
    "ranges_of",
    "reach_of",
    "retention_of",
    "row_keys",
]

_SIDES = (b"L", b"R")
_APART = (0, 1 << 61)  # added to the times of the sides' rows, to find each side's alone
_EARLIEST = -(1 << 60)
Times: TypeAlias = "npt.NDArray[np.int64]"
Reach = tuple[tuple[int, int], tuple[int, int]]
_TAIL = [("time", ">u8"), ("number", ">u8"), ("expires", ">i8")]
_TAIL_BYTES = 24
_DAY_MS = 86_400_000  # how late a record may be without GRACE PERIOD, as in ksqlDB


def reach_of(step: JoinStep) -> Reach:
    """By side: how far before and after a record its partners may be, ms.

    ksqlDB swaps the sides of a right join but keeps the window: BEFORE then counts from the right
    record.
    """
    if step.window is None:
        raise TypeError(f"a {step.form} join has no window")
    pair = step.window.before_ms, step.window.after_ms
    back = pair[1], pair[0]
    return (back, pair) if step.kind is JoinKind.RIGHT else (pair, back)


def retention_of(window: JoinWindow) -> int:
    """How long a row is kept behind the newest record of its side, ms."""
    grace = _DAY_MS if window.grace_ms is None else window.grace_ms
    return window.before_ms + window.after_ms + grace


def ordered(times: Times) -> npt.NDArray[np.uint64]:
    """Numbers whose eight bytes, big-endian, sort like the signed times (ms)."""
    return times.astype(np.uint64) ^ np.uint64(SIGN)


def ranges_of(side: int, keys: pa.Array, first: Times, last: Times) -> tuple[Parts, Parts]:
    """The state key ranges of a side's rows with `first <= time <= last` (ms, from 0)."""
    heads = _SIDES[side], *measured_all(keys)
    start, end = (fixed(ordered(times).astype(">u8")) for times in (first, last + 1))
    return (*heads, start), (*heads, end)


def row_keys(side: int, keys: pa.Array, times: Times, numbers: Times) -> list[bytes]:
    """The state keys of a side's rows with these keys, times (ms) and numbers."""
    tails = np.empty(len(keys), _TAIL)
    tails["time"], tails["number"] = ordered(times), numbers
    tails["expires"] = times + _APART[side]
    return joined(_SIDES[side], *measured_all(keys), fixed(tails))


def places_of(state_keys: Sequence[bytes]) -> tuple[Times, Times]:
    """Times in ms and numbers of rows, from their state keys."""
    tails = np.frombuffer(b"".join([key[-_TAIL_BYTES:] for key in state_keys]), _TAIL)
    times = (tails["time"].astype(np.uint64) ^ np.uint64(SIGN)).astype(np.int64)
    return times, tails["number"].astype(np.int64)


def key_of(state_key: bytes) -> bytes:
    """The key of a row, from its state key."""
    return unmeasured(state_key[len(_SIDES[0]) : -_TAIL_BYTES])


def expired_rows(store: StoreView, side: int, last: int, limit: int) -> list[bytes]:
    """The state keys of about `limit` of the side's rows up to this time (ms), in order."""
    apart = _APART[side]
    return sorted(store.in_segments(_EARLIEST + apart, last + 1 + apart, limit))
