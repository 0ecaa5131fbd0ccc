"""Element rows: COUNT_DISTINCT over any cut of batches, restarts, rescales and expired windows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sql.plan.topology import compile_text
from holdfast.state.changelog import data_key
from holdfast.state.elements import element_head, is_row, state_key_of
from holdfast.state.memory import MemoryStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.tasks import expiry
from holdfast.tasks.aggregates.lists import hashable
from holdfast.tasks.pack.canonical import canonical_bytes
from holdfast.tasks.pack.rows import RowCodec
from holdfast.tasks.processors.aggregates.elements import keeps_elements
from holdfast.tasks.processors.aggregates.state import StateColumns
from holdfast.tasks.processors.base import NO_TIME, Changes
from holdfast.tasks.processors.homes import homes
from holdfast.tasks.processors.kinds import processor_of
from holdfast.tasks.processors.layout import layout_of
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOMBSTONE,
    AggregateStep,
    Query,
)
from tests.support.jobs.packed import packed_table

_DECLARED = """
CREATE STREAM s (k VARCHAR KEY, v BIGINT, t VARCHAR)
  WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
"""
_AT = StorePosition("topic", 1, 0, "")
_WINDOW = "WINDOW TUMBLING (SIZE 10 SECONDS, RETENTION 20 SECONDS, GRACE PERIOD 0 SECONDS)"
Record = tuple[str, int | None, int]
"""Key, value, time in ms."""


def _query(window: str = "", emit: str = "batch") -> Query:
    end = "EMIT FINAL" if emit == "final" else "EMIT CHANGES"
    emits = "batch" if emit == "final" else emit
    text = (
        f"SET 'emit' = '{emits}'; {_DECLARED} CREATE TABLE d AS SELECT k, COUNT_DISTINCT(v) AS n, "
        f"COUNT(*) AS c, COUNT_DISTINCT(t) AS m FROM s {window} GROUP BY k {end};"
    )
    return compile_text(text).queries[0]


class _Table:
    """One state partition with a real store; every batch may be followed by a restore."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._layout = layout_of(query)
        self._time = NO_TIME
        self._offset = 0
        self.store = self._empty()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.sink: dict[bytes, Any] = {}

    def _empty(self) -> TableStore:
        windowed, segmented = self._layout.windowed, self._layout.segmented
        return TableStore(MemoryStore(), windowed=windowed, segmented=segmented)

    def feed(self, records: Sequence[Record]) -> Changes:
        rows = [
            {"K": key, "V": value, "T": None if value is None else str(value), PARTITION: 0,
             OFFSET: self._offset + n, TIMESTAMP: time, TOMBSTONE: False}
            for n, (key, value, time) in enumerate(records)
        ]  # fmt: skip
        self._offset += len(records)
        schema = pa.schema(
            [("K", pa.string()), ("V", pa.int64()), ("T", pa.string()), (PARTITION, pa.int32()),
             (OFFSET, pa.int64()), (TIMESTAMP, pa.int64()), (TOMBSTONE, pa.bool_())]
        )  # fmt: skip
        batch = pa.RecordBatch.from_pylist(rows, schema)
        processor = processor_of(self._query)
        changes = processor.process(packed_table(self._query, [batch]), self._time, self.store)
        self._time = changes.stream_time_ms
        gone, changes = expiry.expired(self.store, self._layout, changes)
        keys, values = [*changes.keys, *gone], [*changes.rows, *([None] * len(gone))]
        self.store.apply(
            keys, values, created=changes.created, removed=len(gone), position=_AT, marker=None,
            elements=changes.elements,
        )  # fmt: skip
        self.log += [*zip(map(data_key, keys), values, strict=True), *changes.elements.items()]
        for key, value in zip(changes.sink_keys, changes.sink_values, strict=True):
            self.sink[key or b""] = orjson.loads(value or b"null")
        return changes

    def restore(self) -> None:
        """Another store, from the changelog, by the last record of each key."""
        last = dict(self.log)
        rows = {state_key_of(k): v for k, v in last.items() if k[:1] == b"\x01"}
        elements = {k: v for k, v in last.items() if k[:1] == b"\x02"}
        restored = self._empty()
        restored.load(list(rows), list(rows.values()), position=_AT, marker=None, elements=elements)
        restored.end_load()
        assert list(restored.scan()) == list(self.store.scan())
        assert list(restored.scan_elements()) == list(self.store.scan_elements())
        assert restored.rows == self.store.rows
        self.store = restored


_RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", "a\0"]),
        st.none() | st.integers(0, 6),
        st.integers(0, 9_999),
    ),
    max_size=24,
)
_CUTS = st.sets(st.integers(0, 23))


@given(_RECORDS, _CUTS, _CUTS, st.sampled_from(["batch", "record"]))
def test_distinct_values_are_counted_exactly(
    records: list[Record], cuts: set[int], restored: set[int], emit: str
) -> None:
    table, seen = _Table(_query(emit=emit)), defaultdict[str, list[int | None]](list)
    edges = sorted({0, len(records), *(c for c in cuts if c < len(records))})
    for start, end in pairwise(edges):
        known = {(k, v) for k, each in seen.items() for v in each if v is not None}
        changes = table.feed(records[start:end])
        new = {(k, v) for k, v, _ in records[start:end] if v is not None} - known
        assert len(changes.elements) == 2 * len(new), "a batch writes what is new, and no more"
        for key, value, _ in records[start:end]:
            seen[key].append(value)
        if start in restored:
            table.restore()
    expected = {
        key.encode(): {"N": len(set(v) - {None}), "C": len(v), "M": len(set(v) - {None})}
        for key, v in seen.items()
    }
    assert table.sink == expected
    assert table.store.rows == len(expected)


@pytest.mark.parametrize("emit", ["batch", "record", "final"])
def test_windows_count_apart_and_take_their_elements_along(emit: str) -> None:
    table = _Table(_query(_WINDOW, emit))
    minute = 100_000  # windows of batches leave by segments of a minute
    table.feed([("a", n % 3, 1_000 + n) for n in range(9)])
    table.feed([("a", n, 11_000 + n) for n in range(4)] + [("b", 1, 12_000)])
    table.restore()
    assert sum(1 for _ in table.store.scan_elements()) == 2 * (3 + 4 + 1)
    table.feed([("a", 1, minute * 2)])
    table.restore()
    table.feed([("c", 1, minute * 2)])
    left = {state_key_of(name) for name, _ in table.store.scan_elements()}
    assert left == {key for key, _ in table.store.scan()}
    assert {key[:-8] for key in left} == {b"a", b"c"}
    counts = sorted((v["N"], v["C"]) for v in table.sink.values())
    closed = [(1, 1), (3, 9), (4, 4)]
    assert counts == (closed if emit == "final" else sorted([*closed, (1, 1), (1, 1)]))


def test_a_row_with_many_elements_goes_after_the_last_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiry, "_ELEMENTS_MAX", 5)
    table = _Table(_query(_WINDOW))
    table.feed([("a", n, 1_000) for n in range(6)] + [("b", 1, 1_000)])
    rows = []
    for n in range(4):
        table.feed([("z", 1, 500_000 + n)])
        left = sum(1 for name, _ in table.store.scan_elements() if state_key_of(name)[:1] != b"z")
        rows.append((left, table.store.rows))
        table.restore()
    assert rows == [(9, 3), (4, 3), (0, 1), (0, 1)]


def test_elements_are_no_rows_and_live_where_their_row_does() -> None:
    query = _query()
    table = _Table(query)
    table.feed([("a", n, 0) for n in range(300)] + [("b", 1, 0)])
    assert table.store.rows == 2
    assert [key for key, _ in table.store.scan()] == [b"a", b"b"]
    names = [name for name, _ in table.store.scan_elements()]
    assert len(names) == 602
    assert all(map(is_row, names))
    of = homes(query, list(map(state_key_of, names)))
    assert set(of) == {b"a", b"b"}
    records = [key for keys, _ in table.store.records(100, 1 << 20) for key in keys]
    assert records == [data_key(b"a"), data_key(b"b"), *names]


def test_no_head_of_elements_begins_another() -> None:
    keys = [b"", b"\0", b"\0\0\0\1", b"a", b"ab", b"\xff" * 8]
    heads = [element_head(key) for key in keys]
    for key, head in zip(keys, heads, strict=True):
        assert state_key_of(head + b"\0\0\0v") == key
        assert sum(each.startswith(head) for each in heads) == 1


def test_sessions_keep_their_values_inside() -> None:
    step = _query("WINDOW SESSION (5 SECONDS)").step
    assert isinstance(step, AggregateStep)
    assert not keeps_elements(step)


def test_elements_of_some_rows_are_found_up_to_a_limit() -> None:
    store = TableStore(MemoryStore(), windowed=False)
    names = {element_head(key) + b"\0\0\0%d" % n: b"\1" for key in (b"a", b"b") for n in range(3)}
    store.apply([b"a", b"b"], [b"1"] * 2, created=[b"a", b"b"], removed=0, position=_AT,
                marker=None, elements=names)  # fmt: skip
    assert store.elements_of([b"a", b"b", b"c"], 6) == (3, list(names))
    assert store.elements_of([b"a", b"b"], 4) == (1, list(names)[:4])
    assert store.elements_of([b"a", b"b"], 3) == (1, list(names)[:3])
    assert store.elements_of([b"a"], 2) == (0, list(names)[:2])


# -- canonical bytes -------------------------------------------------------------------------------

_NAN = math.nan
_DOUBLE = SqlType(Base.DOUBLE)
_FIELDS = (Column("x", _DOUBLE), Column("t", SqlType(Base.STRING)))
_TEXTS = ["", "a", "a\0", "é", "x" * 96, "x" * 97, "x" * 5_000_000]
_DECIMALS = [Decimal("0.00"), Decimal("-0.01"), Decimal("9" * 36 + ".99")]
_LISTS = [[], [None], [_NAN], [0.0], [-0.0], [1.0, 2.0], [2.0, 1.0]]
_MAPS = [[], [("a", 1.0), ("b", _NAN)], [("b", _NAN), ("a", 1.0)], [("a", None)]]
_STRUCTS = [{"x": 0.0, "t": None}, {"x": -0.0, "t": None}, {"x": None, "t": "0"}]
_VALUES: list[tuple[SqlType, list[Any]]] = [
    (_DOUBLE, [_NAN, math.copysign(_NAN, -1), 0.0, -0.0, math.inf, -math.inf, 1.5, 5e-324]),
    (SqlType(Base.BIGINT), [0, 1, -1, 2**63 - 1, -(2**63)]),
    (SqlType(Base.INTEGER), [0, 1, -1, 2**31 - 1]),
    (SqlType(Base.BOOLEAN), [True, False]),
    (SqlType(Base.STRING), _TEXTS),
    (SqlType(Base.BYTES), [b"", b"\0", b"\xff" * 200, b"\xff" * 201]),
    (SqlType(Base.DECIMAL, precision=38, scale=2), _DECIMALS),
    (SqlType(Base.ARRAY, element=_DOUBLE), _LISTS),
    (SqlType(Base.MAP, element=_DOUBLE), _MAPS),
    (SqlType(Base.STRUCT, fields=_FIELDS), _STRUCTS),
]


@pytest.mark.parametrize(("kind", "values"), _VALUES, ids=lambda v: str(v)[:20])
def test_values_are_equal_where_javas_are(kind: SqlType, values: list[Any]) -> None:
    twice = [*values, *values]
    found = canonical_bytes(pa.array(twice, kind.arrow())).to_pylist()
    for a, one in zip(twice, found, strict=True):
        for b, two in zip(twice, found, strict=True):
            assert (one == two) == (hashable(a) == hashable(b)), (a, b)
    assert max(map(len, found)) <= 97


# -- rows of the version before --------------------------------------------------------------------


@pytest.mark.parametrize("emit", ["batch", "record"])
def test_rows_with_their_values_inside_are_read_and_moved_when_touched(emit: str) -> None:
    table = _Table(_query(emit=emit))
    numbers, texts = pa.list_(pa.int64()), pa.list_(pa.string())
    inside = [[1, 1, 2], None, [5]]  # an earlier rule may have kept a value twice
    former = RowCodec([pa.int64(), texts, numbers]).encode(  # in the planner's order
        np.zeros(3, np.int64),
        [pa.array([9, 9, 9]), pa.array([["1", "2"], None, []], texts), pa.array(inside, numbers)],
    )
    keys = [b"a", b"b", b"c"]
    table.store.apply(keys, list(former), created=keys, removed=0, position=_AT, marker=None)
    table.log += zip(map(data_key, keys), former, strict=True)
    assert [_counts(table, key) for key in keys] == [(9, 2, 2), (9, 0, 0), (9, 0, 1)]

    changes = table.feed([("a", 2, 0), ("a", 3, 0), ("b", 1, 0), ("d", 1, 0)])
    assert list(changes.created) == [b"d"]
    assert len(changes.elements) == 2 * (3 + 1 + 1)
    table.restore()
    assert table.feed([("a", 1, 1), ("a", 3, 1), ("b", 1, 1)]).elements == {}
    rows = [_counts(table, key) for key in (b"a", b"b", b"c", b"d")]
    assert rows == [(13, 3, 3), (11, 1, 1), (9, 0, 1), (1, 1, 1)]
    assert table.store.get_many([b"c"]) == [former[2]]


def _counts(table: _Table, key: bytes) -> tuple[int, ...]:
    step = _query().step
    assert isinstance(step, AggregateStep)
    state = StateColumns(step)
    _, _, columns = state.codec.decode(table.store.get_many([key]))
    return tuple(column[0].as_py() for column in state.finish(columns).values())
