"""Record metadata beside the columns: headers, and the window at the end of a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from holdfast.tasks.evaluate.keys import split_windowed
from holdfast.types.statements.topology import (
    HEADERS,
    HEADERS_TYPE,
    WINDOW_END,
    WINDOW_START,
    Source,
)

__all__ = ["Windows", "header_columns", "split_windows"]

_Headers = Sequence[Sequence[tuple[str, bytes | None]]]


@dataclass(frozen=True)
class Windows:
    """Record keys without their windows.

    Attributes:
        keys: the key of each record, without window.
        bounds: WINDOW_START and WINDOW_END in ms, null without a key; empty without windows.
        bad: index and reason of every key that is too short for a window.
    """

    keys: Sequence[bytes | None]
    bounds: Mapping[str, pa.Array] = field(default_factory=dict)
    bad: Mapping[int, str] = field(default_factory=dict)


def split_windows(source: Source, keys: Sequence[bytes | None]) -> Windows:
    """Splits the windows off the keys of a windowed source."""
    if source.window is None:
        return Windows(keys)
    plain: list[bytes | None] = [None] * len(keys)
    starts: list[int | None] = [None] * len(keys)
    ends: list[int | None] = [None] * len(keys)
    bad: dict[int, str] = {}
    for i, key in enumerate(keys):
        try:
            if key is not None:
                plain[i], starts[i], ends[i] = split_windowed(
                    key, source.window, source.window_size_ms
                )
        except ValueError as error:
            bad[i] = f"key: {error}"
    bounds = {WINDOW_START: pa.array(starts, pa.int64()), WINDOW_END: pa.array(ends, pa.int64())}
    return Windows(plain, bounds, bad)


def header_columns(source: Source, headers: _Headers) -> dict[str, pa.Array]:
    """The source's header columns, and HEADERS with all headers of each record."""
    if not any(headers):
        return _no_headers(source, len(headers))
    pairs = [[{"KEY": name, "VALUE": value} for name, value in record] for record in headers]
    everything = pa.array(pairs, HEADERS_TYPE.arrow())
    found = {HEADERS: everything}
    for column in source.headers:
        name = column.key
        if name is None:
            found[column.column.name] = everything
        else:
            last = [dict(record).get(name) for record in headers]
            found[column.column.name] = pa.array(last, pa.binary())
    return found


def _no_headers(source: Source, count: int) -> dict[str, pa.Array]:
    """The header columns of records without headers: a fast path for the usual case."""
    kind = HEADERS_TYPE.arrow()
    nothing = pa.array([], kind.value_type)
    empty = pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), nothing, type=kind)
    found = {HEADERS: empty}
    for column in source.headers:
        missing = empty if column.key is None else pa.nulls(count, pa.binary())
        found[column.column.name] = missing
    return found
