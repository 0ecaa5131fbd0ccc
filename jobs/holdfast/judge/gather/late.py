"""The bound on late records of a source topic's present content; see `lateness`."""

from __future__ import annotations

from holdfast.judge.read.decode import InputDecoder
from holdfast.judge.read.observe import Observer
from holdfast.judge.recompute.lateness import ReadTimes, late_most
from holdfast.judge.statement.statement import WindowClause
from holdfast.types.statements.topology import Source

__all__ = ["late_bound"]


def late_bound(
    observer: Observer, origin: Source | None, window: WindowClause | None, dropped: int | None
) -> int | None:
    """The most records that can have been dropped as late, once per window.

    None where nothing was dropped (there is nothing to check), or where the bound cannot be
    derived: for sessions, and for records that do not come from one declared source.
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
