"""How many records may be late of what is in a source topic now; see `lateness`."""

from __future__ import annotations

from holdfast.judge.read.decode import InputDecoder
from holdfast.judge.read.observe import Observer
from holdfast.judge.recompute.lateness import ReadTimes, late_most
from holdfast.judge.statement.statement import WindowClause
from holdfast.types.topology import Source

__all__ = ["late_bound"]


def late_bound(
    observer: Observer, origin: Source | None, window: WindowClause | None, dropped: int | None
) -> int | None:
    """The most that can have been dropped, once per window.

    None where nothing was dropped, for then there is nothing to ask, or where it does not follow:
    of sessions, and of records that do not come from one declared source.
    """
    if not dropped or origin is None or window is None or window.session:
        return None
    column = origin.timestamp.column if origin.timestamp is not None else None
    decoder = InputDecoder(origin, [column] if column is not None else [])
    rows = []
    for record in observer.records(origin.topic, observer.bounds(origin.topic)):
        if record.value is None:
            continue
        row = decoder.row(record.key, record.value, record.timestamp_ms)
        if row is not None:
            rows.append((record.partition, record.timestamp_ms, int(row[0])))
    return late_most(ReadTimes.of(rows), window.size_ms, window.advance_ms, window.grace_ms)
