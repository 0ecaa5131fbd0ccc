"""SESSION windows with EMIT FINAL: in columns unless a record may be late within the batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdfast.tasks.processors.aggregates.results import Frame, SinkRows
from holdfast.tasks.processors.aggregates.rounds import in_order, running_time
from holdfast.tasks.processors.base import Changes, StoreView, Watermark
from holdfast.tasks.processors.sessions.batch import Merged, Rows, SessionBatchProcessor
from holdfast.tasks.processors.sessions.plan import split_session
from holdfast.tasks.processors.sessions.session import SessionProcessor
from holdfast.types.statements.topology import TIMESTAMP

__all__ = ["SessionFinalProcessor"]


class SessionFinalProcessor(SessionBatchProcessor):
    """Knows one query's columns; holds no data between calls.

    A record that is behind stream time by at most the grace is out of reach of every closed
    session, and in time for its own.  If this holds for a whole batch, the order of its records
    only decides when a session closes.  Otherwise, and for aggregates that depend on order,
    records are applied one by one.
    """

    def process(
        self,
        payload: pa.Table,
        stream_time_ms: int,
        store: StoreView,
        watermark: Watermark | None = None,
    ) -> Changes:
        """Applies a batch, given the stream time before it."""
        keyed = in_order(payload, None)
        window = self._window
        # In the last millisecond of its retention an open session is not found any more.
        edge = 1 if window.retention_ms <= window.size_ms + window.grace_ms else 0
        least = running_time(keyed, stream_time_ms) - window.grace_ms + edge
        late = self._ordered or (keyed[TIMESTAMP].to_numpy() < least).any()
        if late or watermark is not None:
            return SessionProcessor.process(self, payload, stream_time_ms, store, watermark)
        return super().process(payload, stream_time_ms, store)

    def _told(self, merged: Merged, stream_time_ms: int, store: StoreView) -> tuple[SinkRows, Rows]:
        """The rows of sessions that have closed, and the records that closed them."""
        now = running_time(merged.records, stream_time_ms)
        open_ms = self._window.size_ms + self._window.grace_ms
        close = int(now[-1]) - open_ms if len(now) else stream_time_ms - open_ms
        taken = set(merged.clusters.stored.names)
        due = store.in_time(stream_time_ms - open_ms, close)
        names = [name for name in due if name not in taken]
        _, _, waiting = self._state.codec.decode(store.get_many(names))
        clusters = merged.clusters
        closed = np.flatnonzero(clusters.ends < close)
        at = pa.array(closed)
        keys = clusters.keys.take(pa.array(clusters.key[closed])).to_pylist()
        bounds = zip(
            keys, clusters.starts[closed].tolist(), clusters.ends[closed].tolist(), strict=True
        )
        rows = [*map(split_session, names), *bounds]
        ends = np.array([end for _, _, end in rows], np.int64)
        by = np.searchsorted(now, ends + open_ms, "right")
        pairs = zip(waiting, merged.after, strict=True)
        finished = self._state.finish([pa.concat_arrays([a, b.take(at)]) for a, b in pairs])
        passes = self._results.passes(_frame(rows), finished)
        order = sorted(
            np.flatnonzero(passes).tolist(),
            key=lambda n: (by[n], rows[n][2], rows[n][1], rows[n][0]),
        )
        shown = {name: array.take(pa.array(order, pa.int64())) for name, array in finished.items()}
        frame = _frame([rows[n] for n in order])
        return self._results.write(frame, shown, ends[order].tolist()), by[order]


def _frame(rows: list[tuple[bytes, int, int]]) -> Frame:
    return Frame([key for key, _, _ in rows], [s for _, s, _ in rows], [e for _, _, e in rows])
