"""SESSION windows where one change a batch is enough: all sessions at once, in columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.processors.aggregate_results import Frame, SinkRows
from holdfast.tasks.processors.aggregate_rounds import Groups, in_order, order_of, run
from holdfast.tasks.processors.aggregate_state import Columns, combined
from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.session import SessionProcessor
from holdfast.tasks.processors.session_clusters import Clusters
from holdfast.tasks.processors.session_plan import split_session
from holdfast.types.topology import TIMESTAMP

__all__ = ["SessionBatchProcessor"]

Rows = npt.NDArray[np.int64]


class SessionBatchProcessor(SessionProcessor):
    """Knows one query's columns; holds no data between calls."""

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        """Applies a batch; stream time is what it was before it."""
        keyed = in_order(payload, None)
        clusters = Clusters.of_batch(keyed, self._window, stream_time_ms, store)
        live = keyed.filter(pa.array(clusters.of >= 0))
        _, _, before = self._state.codec.decode(clusters.stored.rows)
        after = self._after(clusters, before, live)
        keys = clusters.state_keys
        sink, causes = self._sink(clusters, keys, before, after)
        was = set(clusters.stored.keys)
        gone = sorted(was - set(keys))
        none: list[bytes | None] = [None] * len(gone)
        newest = pc.max(keyed[TIMESTAMP]).as_py()
        return Changes(
            keys=keys + gone,
            rows=[*self._state.codec.encode(clusters.ends, after), *none],
            created=[k for k in keys if k not in was],
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

    def _after(self, clusters: Clusters, before: Columns, live: pa.Table) -> Columns:
        """The state of each session: what is stored of it, then its records as they arrived."""
        count = len(clusters.keys)
        old = self._state.empty(count)
        if clusters.parents:
            owners = sorted(clusters.parents, key=lambda c: -len(clusters.parents[c]))
            stored = combined(self._state, before, [clusters.parents[c] for c in owners])
            place = np.full(count, len(owners), np.int64)
            place[owners] = np.arange(len(owners))
            blank = self._state.empty(1)
            old = [
                pa.concat_arrays(pair).take(pa.array(place))
                for pair in zip(stored, blank, strict=True)
            ]
        groups = Groups.of_numbers(clusters.of[clusters.of >= 0], clusters.keys)
        never = np.full(count, np.iinfo(np.int64).min)
        return run(self._state, groups, live, old, never).take(groups.last).columns

    def _sink(
        self, clusters: Clusters, keys: list[bytes], before: Columns, after: Columns
    ) -> tuple[SinkRows, Rows]:
        """Tombstones of sessions that are in others now, and the rows of those; causes."""
        stored = [split_session(key) for key in clusters.stored.keys]
        frame = Frame(
            [key for key, _, _ in stored] + clusters.keys,
            [start for _, start, _ in stored] + clusters.starts.tolist(),
            [end for _, _, end in stored] + clusters.ends.tolist(),
        )
        whole = [pa.concat_arrays(pair) for pair in zip(before, after, strict=True)]
        finished = self._state.finish(whole)
        passes = self._results.passes(frame, finished)
        nodes, alive, causes = _told(clusters, keys, passes)
        at = pa.array(nodes)
        ends = frame.ends or []
        sink = self._results.write(
            frame.take(nodes),
            {name: array.take(at) for name, array in finished.items()},
            [ends[n] for n in nodes.tolist()],
            alive,
        )
        return sink, causes


def _told(
    clusters: Clusters, keys: list[bytes], passes: npt.NDArray[np.bool_]
) -> tuple[Rows, npt.NDArray[np.bool_], Rows]:
    """Which rows are told in which order, whether they are there, and the records that caused it.

    Rows are numbered: the stored sessions, then the clusters.
    """
    count = len(clusters.stored.keys)
    is_told = passes[count:].copy()
    dead: list[int] = []
    for cluster, parents in clusters.parents.items():
        for parent in parents:
            if clusters.stored.keys[parent] == keys[cluster]:
                is_told[cluster] |= passes[parent]
            elif passes[parent]:
                dead.append(parent)
    owner = {p: c for c, parents in clusters.parents.items() for p in parents}
    told = np.flatnonzero(is_told)
    nodes = np.concatenate([np.array(dead, np.int64), told + count])
    alive = np.concatenate([np.zeros(len(dead), np.bool_), passes[count:][told]])
    causes = clusters.last[np.array([owner[p] for p in dead] + told.tolist(), np.int64)]
    order = np.argsort(causes, kind="stable")
    return nodes[order], alive[order], causes[order]
