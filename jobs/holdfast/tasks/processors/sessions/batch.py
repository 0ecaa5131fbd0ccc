"""SESSION windows that emit one change per batch: all sessions at once, in columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.pack.folds import Folding, Groups, fold
from holdfast.tasks.processors.aggregates.results import Frame, SinkRows
from holdfast.tasks.processors.aggregates.rounds import in_order, order_of
from holdfast.tasks.processors.aggregates.state import Columns, chunk, combined, partial_columns
from holdfast.tasks.processors.base import Changes, StoreView, Watermark
from holdfast.tasks.processors.sessions.clusters import Clusters
from holdfast.tasks.processors.sessions.session import SessionProcessor
from holdfast.types.statements.topology import TIMESTAMP, AggregateStep, Query

__all__ = ["Merged", "SessionBatchProcessor"]

Rows: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class Merged:
    """A batch's records with keys, in order, and their sessions.

    Attributes:
        before: the states of `clusters.stored`.
        after: the states of `clusters`.
    """

    records: pa.Table
    clusters: Clusters
    before: Columns
    after: Columns


class SessionBatchProcessor(SessionProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        step = query.step
        columns = partial_columns(step) if isinstance(step, AggregateStep) else []
        self._foldings = {c.name: c.folding for c in columns}
        self._ordered = Folding.LIST in self._foldings.values()

    def process(
        self,
        payload: pa.Table,
        stream_time_ms: int,
        store: StoreView,
        watermark: Watermark | None = None,
    ) -> Changes:
        """Applies a batch, given the stream time before it."""
        keyed = in_order(payload, None)
        clusters = Clusters.of_batch(keyed, self._window, stream_time_ms, store)
        live = keyed.filter(pa.array(clusters.of >= 0))
        _, _, before = self._state.codec.decode(clusters.stored.rows)
        merged = Merged(keyed, clusters, before, self._after(clusters, before, live))
        sink, causes = self._told(merged, stream_time_ms, store)
        keys, stays = clusters.state_keys, clusters.stays
        gone = [clusters.stored.names[n] for n in np.flatnonzero(~stays).tolist()]
        none: list[bytes | None] = [None] * len(gone)
        is_new = self._new(clusters, keys, stream_time_ms, store)
        newest = pc.max(keyed[TIMESTAMP]).as_py()
        return Changes(
            keys=keys + gone,
            rows=[*self._state.codec.encode(clusters.ends, merged.after), *none],
            created=[keys[n] for n in np.flatnonzero(is_new).tolist()],
            removed=len(gone),
            sink_keys=list(sink.keys),
            sink_values=sink.values,
            sink_timestamps=sink.timestamps,
            sink_order=order_of(keyed, causes[sink.rows]),
            stream_time_ms=stream_time_ms if newest is None else max(stream_time_ms, newest),
            records=payload.num_rows,
            dropped_null_key=payload.num_rows - keyed.num_rows,
            dropped_late=keyed.num_rows - live.num_rows,
        )

    def _new(
        self, clusters: Clusters, keys: list[bytes], stream_time_ms: int, store: StoreView
    ) -> npt.NDArray[np.bool_]:
        """Which sessions had no row under their state keys."""
        is_new = np.ones(len(keys), np.bool_)
        is_new[clusters.stored.owner[clusters.stays]] = False
        # A session out of retention is not found, but may still be in the store.
        hidden = np.flatnonzero(clusters.ends <= stream_time_ms - self._window.retention_ms)
        there = store.get_many([keys[n] for n in hidden.tolist()]) if len(hidden) else []
        is_new[hidden] = [row is None for row in there]
        return is_new

    def _after(self, clusters: Clusters, before: Columns, live: pa.Table) -> Columns:
        """The state of each session: its stored state merged with its records in arrival order."""
        count = len(clusters.key)
        owner = clusters.stored.owner
        parents = np.bincount(owner, minlength=count)
        most_first = np.argsort(-parents, kind="stable")
        place = np.empty(count, np.int64)
        place[most_first] = np.arange(count)
        at = pa.array(np.argsort(place[owner], kind="stable"))
        old = combined(self._state, [c.take(at) for c in before], parents[most_first])
        old = [column.take(pa.array(place)) for column in old]
        of = clusters.of[clusters.of >= 0]
        new = self._state.merge(old, self._folded(live, of, count))
        self._state.check(new, clusters.keys.take(pa.array(clusters.key)))
        return new

    def _folded(self, live: pa.Table, of: Rows, count: int) -> pa.Table:
        """Folds the partials of each session's records into one row."""
        order = np.argsort(of, kind="stable")
        rows = live.take(pa.array(order))
        sessions = Groups(of[order], count)
        return pa.table(
            {
                name: fold(folding, chunk(rows[name]), sessions)
                for name, folding in self._foldings.items()
            }
        )

    def _told(self, merged: Merged, stream_time_ms: int, store: StoreView) -> tuple[SinkRows, Rows]:
        """Tombstones of sessions that were merged, and rows of the merged sessions; causes."""
        clusters, stored = merged.clusters, merged.clusters.stored
        key = np.concatenate([stored.key, clusters.key])
        starts = np.concatenate([stored.starts, clusters.starts])
        ends = np.concatenate([stored.ends, clusters.ends])
        pairs = zip(merged.before, merged.after, strict=True)
        finished = self._state.finish([pa.concat_arrays(pair) for pair in pairs])
        passes = self._results.passes(_frame(clusters.keys, key, starts, ends), finished)
        nodes, alive, causes = _changes(clusters, passes)
        at = pa.array(nodes)
        frame = _frame(clusters.keys, key[nodes], starts[nodes], ends[nodes])
        shown = {name: array.take(at) for name, array in finished.items()}
        return self._results.write(frame, shown, ends[nodes].tolist(), alive), causes


def _frame(keys: pa.Array, key: Rows, starts: Rows, ends: Rows) -> Frame:
    return Frame(keys.take(pa.array(key)).to_pylist(), starts.tolist(), ends.tolist())


def _changes(
    clusters: Clusters, passes: npt.NDArray[np.bool_]
) -> tuple[Rows, npt.NDArray[np.bool_], Rows]:
    """The rows to emit in order, whether each is a row or a tombstone, and its cause.

    Rows are numbered: the stored sessions, then the clusters.
    """
    owner, stays = clusters.stored.owner, clusters.stays
    count = len(owner)
    was, now = passes[:count], passes[count:]
    is_told = now.copy()
    is_told[owner[stays & was]] = True
    dead, told = np.flatnonzero(~stays & was), np.flatnonzero(is_told)
    nodes = np.concatenate([dead, told + count])
    alive = np.concatenate([np.zeros(len(dead), np.bool_), now[told]])
    causes = clusters.last[np.concatenate([owner[dead], told])]
    order = np.argsort(causes, kind="stable")
    return nodes[order], alive[order], causes[order]
