"""Times in keys: at the end of a state key, and as sortable bytes in the index by time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from holdfast.types.columns.byte_columns import fixed, joined, tails
from holdfast.types.columns.pieces import as_array

__all__ = ["SIGN", "by_time", "ordered", "window_start_ms"]

# Added to a signed time, it gives a number whose eight bytes sort like the times.
SIGN = 1 << 63


def ordered(time_ms: int) -> bytes:
    """Eight bytes whose bytewise order is the order of signed times."""
    return (time_ms + SIGN).to_bytes(8, "big")


def window_start_ms(state_key: bytes) -> int:
    """The window start of a windowed state key: its last eight bytes, big-endian, signed."""
    return int.from_bytes(state_key[-8:], "big", signed=True)


def by_time(prefix: bytes, state_keys: Sequence[bytes]) -> list[bytes]:
    """Prefix, time and key of state keys that end in a time, ordered by time.

    Writing in key order is fastest.
    """
    keys = as_array(state_keys, pa.binary())
    times = tails(keys, ">u8") ^ np.uint64(SIGN)
    order = np.argsort(times, kind="stable")
    return joined(prefix, fixed(times[order].astype(">u8")), keys.take(pa.array(order)))
