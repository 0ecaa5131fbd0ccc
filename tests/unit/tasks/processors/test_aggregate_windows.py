"""Windowed aggregates: which rows are asked for, and which leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from holdfast.sql import compile_text
from holdfast.state.memory import MemoryStore
from holdfast.state.segments import SEGMENT_MS
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.tasks.evaluate.keys import window_key
from holdfast.tasks.expiry import expiring
from holdfast.tasks.processors.base import NO_TIME, Changes, Watermark
from holdfast.tasks.processors.kinds import processor_of
from holdfast.tasks.processors.layout import layout_of
from holdfast.tasks.processors.timed import processed
from tests.support.jobs.rows_view import RowsView

SECOND = 1_000
STATEMENT = """
CREATE STREAM s (k VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s
    WINDOW TUMBLING (SIZE 10 SECONDS, RETENTION 60 SECONDS, GRACE PERIOD 0 SECONDS)
    GROUP BY k EMIT CHANGES;
"""
_QUERY = compile_text(STATEMENT).query("T")
assert _QUERY is not None
PROCESSOR, LAYOUT = processor_of(_QUERY), layout_of(_QUERY)


class _Asked(RowsView):
    """Notes which keys it was asked for."""

    asked: tuple[bytes, ...] = ()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.asked += tuple(keys)
        return super().get_many(keys)


def _payload(*counts: tuple[bytes, int, int]) -> pa.Table:
    """(key, window start in s, records), the newest of each a second into the window."""
    schema = PROCESSOR.schema
    rows = [
        {"__key": k, "__window": s * SECOND, "__n": n, "__ts": s * SECOND + SECOND}
        for k, s, n in counts
    ]
    return pa.Table.from_pylist(
        [{**dict.fromkeys(schema.names, r["__n"]), **r} for r in rows], schema
    )


def _key(key: bytes, start_s: int) -> bytes:
    return window_key(key, start_s * SECOND)


def test_windows_that_start_after_all_records_are_not_asked_for() -> None:
    first = PROCESSOR.process(_payload((b"a", 10, 2)), NO_TIME, RowsView({}))
    view = _Asked(dict(zip(first.keys, first.rows, strict=True)))
    batch = _payload((b"a", 10, 3), (b"a", 20, 1), (b"b", 10, 1))
    changes = PROCESSOR.process(batch, first.stream_time_ms, view)
    assert view.asked == (_key(b"a", 10), _key(b"b", 10))
    assert list(changes.created) == [_key(b"a", 20), _key(b"b", 10)]
    values = dict(zip(changes.sink_keys, changes.sink_values, strict=True))
    assert values == {
        _key(b"a", 10): b'{"N":5}',
        _key(b"a", 20): b'{"N":1}',
        _key(b"b", 10): b'{"N":1}',
    }


def test_a_window_beyond_a_stream_time_that_was_held_back_is_asked_for() -> None:
    first = processed(PROCESSOR, _payload((b"a", 50, 1)), NO_TIME, RowsView({}), Watermark(NO_TIME))
    assert (first.stream_time_ms, first.newest_ms) == (NO_TIME, 51 * SECOND)
    view = _Asked(dict(zip(first.keys, first.rows, strict=True)))
    held = Watermark(9 * SECOND, 51 * SECOND)
    changes = processed(PROCESSOR, _payload((b"a", 50, 2)), 5 * SECOND, view, held)
    assert list(changes.sink_values) == [b'{"N":3}']
    assert (changes.stream_time_ms, changes.newest_ms) == (9 * SECOND, 51 * SECOND)


def test_windows_leave_with_their_segment() -> None:
    store = TableStore(MemoryStore(), windowed=True, segmented=LAYOUT.segmented)
    changes = PROCESSOR.process(
        _payload((b"a", 0, 1), (b"b", 60, 1), (b"a", 70, 1)), NO_TIME, store
    )
    _apply(store, changes)
    none = replace(changes, keys=[], rows=[])
    assert expiring(store, none, SEGMENT_MS - 1) == []
    assert expiring(store, none, SEGMENT_MS) == [_key(b"a", 0), _key(b"b", 60)]
    every = [_key(b"a", 0), _key(b"b", 60), _key(b"a", 70)]
    assert expiring(store, none, 2 * SEGMENT_MS) == every


def _apply(store: TableStore, changes: Changes) -> None:
    store.apply(
        changes.keys,
        changes.rows,
        created=changes.created,
        removed=changes.removed,
        position=StorePosition("id", 1, 0, ""),
        marker=None,
    )
