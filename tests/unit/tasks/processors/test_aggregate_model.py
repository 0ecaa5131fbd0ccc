"""Partials and the state task's merge together give what a plain model gives.

Records go through the real packer, batch by batch, and through the real processor over a dict; the
model sees all of them at once.
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pytest

from holdfast.ingest.used_columns import used_columns
from holdfast.tasks.aggregates.registry import lookup
from holdfast.tasks.evaluate.keys import split_window, split_windowed
from holdfast.tasks.evaluate.projected import Projected
from holdfast.tasks.processors.base import Changes
from holdfast.tasks.processors.kinds import processor_of
from holdfast.transport.partitioner import state_partition
from holdfast.types.columns.schema import BIGINT, STRING, Column, SqlType
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOMBSTONE,
    AggregateCall,
    AggregateStep,
    Emit,
    ProjectStep,
    Query,
    Sink,
    Source,
    Window,
    WindowKind,
)
from tests.support.jobs.packed import packed_tables
from tests.support.jobs.rows_view import RowsView
from tests.support.values.expressions import condition, duckdb_column, named, source_column

SOURCE = Source("S", "STREAM", "s", (), (Column("K", STRING), Column("X", BIGINT)))
SCHEMA = pa.schema(
    [
        ("K", pa.string()), ("X", pa.int64()), (PARTITION, pa.int32()), (OFFSET, pa.int64()),
        (TIMESTAMP, pa.int64()), (TOMBSTONE, pa.bool_()),
    ]
)  # fmt: skip
CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("COUNT", ()), ("SUM", ()), ("AVG", ()), ("MIN", ()), ("MAX", ()),
    ("EARLIEST_BY_OFFSET", ()), ("LATEST_BY_OFFSET", ()),
    ("EARLIEST_BY_OFFSET", (False,)), ("LATEST_BY_OFFSET", (False,)),
    ("EARLIEST_BY_OFFSET", (2,)), ("LATEST_BY_OFFSET", (2,)),
    ("COLLECT_LIST", ()), ("COLLECT_SET", ()), ("COUNT_DISTINCT", ()),
    ("TOPK", (3,)), ("TOPKDISTINCT", (3,)), ("STDDEV_SAMPLE", ()), ("ATTR", ()),
]  # fmt: skip


X = source_column(Column("X", BIGINT))


def _call(index: int, function: str, literals: tuple[Any, ...]) -> AggregateCall:
    found = lookup(function)
    assert found is not None
    kind: SqlType = found.result_type([BIGINT], literals)
    return AggregateCall(f"__a{index}", function, (X.expression,), literals, kind)


def _query(
    window: Window | None = None, having: str | None = None, emit: Emit = Emit.BATCH
) -> Query:
    calls = tuple(_call(i, f, args) for i, (f, args) in enumerate(CALLS))
    outputs = tuple(duckdb_column(Column(f"C{i}", c.type), c.name) for i, c in enumerate(calls))
    keys = (source_column(Column("K", STRING)),)
    step = AggregateStep(keys, window, calls, outputs, condition(having), emit)
    columns = tuple(o.column for o in outputs)
    sink = Sink("T", "TABLE", "T", (Column("K", STRING),), columns)
    return Query("ctas_t", "", SOURCE, None, step, sink)


Row = tuple[str | None, int | None, int, int, int, bool]


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = [[row[i] for row in rows] for i in range(len(SCHEMA))]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _records(seed: int, count: int, keys: int = 6) -> list[Row]:
    rng = random.Random(seed)
    rows: list[Row] = []
    for offset in range(count):
        key = rng.choice([None, *[f"k{i}" for i in range(keys)]])
        value = rng.choice([None, *range(-4, 9)])
        rows.append((key, value, 0, offset, rng.randrange(0, 20_000), rng.random() < 0.05))
    return rows


def _model(values: list[int | None]) -> list[Any]:
    known = [v for v in values if v is not None]
    distinct = list(dict.fromkeys(values))
    top = sorted(known, reverse=True)
    return [
        len(known), sum(known), sum(known) / len(known) if known else 0.0,
        min(known, default=None), max(known, default=None),
        known[0] if known else None, known[-1] if known else None, values[0], values[-1],
        known[:2], known[-2:], values, distinct, len(set(known)),
        top[:3], sorted(set(known), reverse=True)[:3],
        pytest.approx(statistics.stdev(known)) if len(known) > 1 else 0.0,
        distinct[0] if len(distinct) == 1 else None,
    ]  # fmt: skip


class _Table:
    """All state partitions of one query over dicts, fed by real packers of several tasks."""

    def __init__(self, query: Query, partitions: int) -> None:
        self._query = query
        self._processor = processor_of(query)
        self.stores: list[dict[bytes, bytes]] = [{} for _ in range(partitions)]
        self.elements: list[dict[bytes, bytes | None]] = [{} for _ in range(partitions)]
        self.sinks: list[dict[bytes, Any]] = [{} for _ in range(partitions)]
        self.stream_time = [-(1 << 62)] * partitions
        self.dropped_null_key = self.dropped_late = 0

    def feed(self, rows: list[Row]) -> None:
        tasks = [_batch(rows[n::3]) for n in range(3)]
        for partition, table in enumerate(packed_tables(self._query, tasks, len(self.stores))):
            self._apply(partition, self._process(partition, table))

    def _process(self, partition: int, table: pa.Table) -> Changes:
        rows = RowsView(self.stores[partition], self.elements[partition])
        return self._processor.process(table, self.stream_time[partition], rows)

    def _apply(self, partition: int, changes: Changes) -> None:
        for key, row in zip(changes.keys, changes.rows, strict=True):
            if row is None:
                del self.stores[partition][key]
            else:
                self.stores[partition][key] = row
        self.elements[partition] |= changes.elements
        for of, value in zip(changes.sink_keys, changes.sink_values, strict=True):
            assert of is not None
            self.sinks[partition][of] = orjson.loads(value) if value is not None else None
        self.stream_time[partition] = changes.stream_time_ms
        self.dropped_null_key += changes.dropped_null_key
        self.dropped_late += changes.dropped_late

    def rows(self) -> dict[bytes, Any]:
        return {k: v for sink in self.sinks for k, v in sink.items()}


@pytest.mark.parametrize("emit", [Emit.BATCH, Emit.RECORD])
@pytest.mark.parametrize("batches", [1, 4])
def test_every_aggregate_equals_the_model(batches: int, emit: Emit) -> None:
    records = _records(seed=7, count=400)
    table = _Table(_query(emit=emit), partitions=3)
    size = len(records) // batches
    for at in range(0, len(records), size):
        table.feed(records[at : at + size])
    expected: dict[bytes, list[int | None]] = defaultdict(list)
    for key, value, _, _, _, tombstone in records:
        if key is not None and not tombstone:
            expected[key.encode()].append(value)
    actual = table.rows()
    assert set(actual) == set(expected)
    for name, values in expected.items():
        assert list(actual[name].values()) == _model(values), name
    assert table.dropped_null_key == sum(r[0] is None and not r[5] for r in records)


def test_keys_live_where_the_python_partitioner_says() -> None:
    table = _Table(_query(), partitions=5)
    records = _records(seed=1, count=300, keys=60)
    table.feed(records)
    for partition, store in enumerate(table.stores):
        assert {state_partition(k, 5) for k in store} <= {partition}
    assert sum(map(len, table.stores)) == len({r[0] for r in records if r[0] and not r[5]})


@pytest.mark.parametrize("emit", [Emit.BATCH, Emit.RECORD])
@pytest.mark.parametrize(("size", "advance"), [(1000, 1000), (3000, 1000)])
def test_windows_equal_the_model(size: int, advance: int, emit: Emit) -> None:
    kind = WindowKind.TUMBLING if size == advance else WindowKind.HOPPING
    window = Window(kind, size, advance, grace_ms=100_000, retention_ms=200_000)
    records = _records(seed=3, count=200)
    table = _Table(_query(window, emit=emit), partitions=2)
    table.feed(records[:90])
    table.feed(records[90:])
    expected: dict[tuple[bytes, int], int] = defaultdict(int)
    for key, value, _, _, time, tombstone in records:
        for start in range(0, time + 1, advance):
            if key is not None and not tombstone and start <= time < start + size:
                expected[key.encode(), start] += value is not None
    keys, starts = split_window(list(table.rows()))
    actual = dict(
        zip(
            zip(keys, starts, strict=True),
            (v["C0"] for v in table.rows().values()),
            strict=True,
        )
    )
    assert actual == dict(expected)
    homes = [{k[:-8] for k in store} for store in table.stores]
    assert not homes[0] & homes[1], "all windows of a key share a state partition"


def _sessions(records: list[Row], gap: int) -> dict[tuple[str, int, int], list[int | None]]:
    """Values by key and bounds of the session, in the order of offsets."""
    found: dict[tuple[str, int, int], list[int | None]] = {}
    for key in {r[0] for r in records if r[0] is not None}:
        rows = sorted((r[4], r[3], r[1]) for r in records if r[0] == key and not r[5])
        cuts = [n for n in range(1, len(rows)) if rows[n][0] - rows[n - 1][0] > gap]
        for start, end in pairwise([0, *cuts, len(rows)]):
            each = rows[start:end]
            if each:
                by_offset = sorted(each, key=lambda row: row[1])
                found[key, each[0][0], each[-1][0]] = [value for _, _, value in by_offset]
    return found


@pytest.mark.parametrize("emit", [Emit.BATCH, Emit.RECORD])
def test_sessions_equal_the_model(emit: Emit) -> None:
    window = Window(WindowKind.SESSION, 300, 300, grace_ms=100_000, retention_ms=200_000)
    records = _records(seed=5, count=150)
    table = _Table(_query(window, emit=emit), partitions=2)
    table.feed(records[:80])
    table.feed(records[80:])
    expected = _sessions(records, 300)
    actual = {
        split_windowed(key, WindowKind.SESSION, 0): value
        for key, value in table.rows().items()
        if value is not None
    }
    assert {(k.decode(), start, end) for k, start, end in actual} == set(expected)
    # Sessions that merge are put one after the other, so what depends on the order is left out.
    free = [i for i, (name, _) in enumerate(CALLS) if "BY_OFFSET" not in name]
    for (key, start, end), value in actual.items():
        got, want = list(value.values()), _model(expected[key.decode(), start, end])
        for i in free:
            ordered = CALLS[i][0].startswith("COLLECT")
            a, b = (sorted(v, key=str) if ordered else v for v in (got[i], want[i]))
            assert a == b, (CALLS[i], key, start, end)


def test_late_records_are_dropped_and_counted() -> None:
    window = Window(WindowKind.TUMBLING, 1000, 1000, grace_ms=500, retention_ms=5000)
    table = _Table(_query(window), partitions=1)
    table.feed([("a", 1, 0, 0, 2_499, False)])
    table.feed([("a", 1, 0, 1, 1_999, False), ("a", 1, 0, 2, 999, False)])  # grace holds, is over
    assert table.dropped_late == 1
    assert set(split_window(list(table.rows()))[1]) == {1000, 2000}


def test_having_sends_a_tombstone_when_a_row_leaves() -> None:
    table = _Table(_query(having='"__a1" > 10'), partitions=1)
    table.feed([("a", 11, 0, 0, 1, False), ("b", 5, 0, 1, 1, False)])
    assert set(table.rows()) == {b"a"}
    table.feed([("a", -4, 0, 2, 2, False), ("b", 1, 0, 3, 2, False)])
    assert table.rows() == {b"a": None}


def test_where_and_used_columns() -> None:
    query = replace(_query(), filter=condition('"X" > 0', "X"))
    assert used_columns(query) == ("K", "X")
    table = _Table(query, partitions=1)
    table.feed([("a", 1, 0, 0, 1, False), ("a", -1, 0, 1, 1, False), ("a", None, 0, 2, 1, False)])
    assert table.rows()[b"a"]["C0"] == 1


def test_stateless_projection_keeps_partitions_and_tombstones() -> None:
    step = ProjectStep(
        (source_column(Column("K", STRING)),),
        (named('"X" * 2', Column("DOUBLE_X", BIGINT), "X"),),
    )
    query = replace(_query(), step=step)
    rows: list[Row] = [("a", 1, 0, 0, 5, False), ("b", None, 0, 1, 6, True)]
    assert Projected(query).rows(_batch(rows)).to_pylist() == [
        {"k0": "a", "v0": 2, "__timestamp": 5, "__tombstone": False, "__headers": None},
        {"k0": "b", "v0": None, "__timestamp": 6, "__tombstone": True, "__headers": None},
    ]
