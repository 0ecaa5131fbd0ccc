"""Rows of several inputs as ingest packs them: what reaches a processor, and where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from holdfast.ingest.used_columns import used_columns
from holdfast.tasks.evaluate.projected import Projected
from holdfast.tasks.processors.base import KEY, SIDE, row_schema
from holdfast.transport.partitioner import state_partition
from holdfast.types.columns.schema import BIGINT, STRING, Column
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    ChangesStep,
    Input,
    JoinForm,
    JoinKind,
    JoinStep,
    ProjectStep,
    Query,
    Sink,
    Source,
)
from tests.support.jobs.packed import packed_table, packed_tables
from tests.support.values.expressions import condition, duckdb_column, named, source_column

ORDERS = Source("ORDERS", "STREAM", "orders", (), (Column("WHO", STRING), Column("N", BIGINT)))
USERS = Source("USERS", "TABLE", "users", (Column("WHO", STRING),), (Column("CITY", STRING),))
META = {
    PARTITION: pa.int32(), OFFSET: pa.int64(), TIMESTAMP: pa.int64(), TOMBSTONE: pa.bool_(),
}  # fmt: skip
ORDER_COLUMNS = {"WHO": pa.string(), "N": pa.int64(), **META}
USER_COLUMNS = {"WHO": pa.string(), "CITY": pa.string(), **META}
WHO = (source_column(Column("WHO", STRING)),)


def _query(left_filter: str | None = None, right_filter: str | None = None) -> Query:
    left = Input(
        ORDERS, WHO, (named('"N" + 1', Column("L_N", BIGINT), "N"),), condition(left_filter, "N")
    )
    right = Input(
        USERS,
        WHO,
        (source_column(Column("CITY", STRING), "R_CITY"),),
        condition(right_filter, "CITY"),
    )
    city = Column("CITY", STRING)
    step = JoinStep(
        JoinForm.STREAM_TABLE, JoinKind.LEFT, left, right,
        (duckdb_column(WHO[0].column, "WHO"),), (duckdb_column(city, "R_CITY"),),
    )  # fmt: skip
    sink = Sink("OUT", "STREAM", "out", (WHO[0].column,), (city,))
    return Query("csas_out", "", ORDERS, None, step, sink)


def _batch(rows: list[Any], columns: dict[str, pa.DataType]) -> pa.RecordBatch:
    arrays = [pa.array([r[i] for r in rows], t) for i, t in enumerate(columns.values())]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _rows(orders: list[Any], users: list[Any], query: Query, partitions: int = 1) -> list[pa.Table]:
    """The rows of both sides, by state partition."""
    left = packed_tables(query, [_batch(orders, ORDER_COLUMNS)], partitions, 0)
    right = packed_tables(query, [_batch(users, USER_COLUMNS)], partitions, 1)
    return [pa.concat_tables(of) for of in zip(left, right, strict=True)]


def test_each_side_fills_its_own_columns() -> None:
    orders, users = [("a", 1, 2, 7, 50, False)], [("a", "Rome", 0, 3, 40, False)]
    (table,) = _rows(orders, users, _query())
    left, right = sorted(table.to_pylist(), key=lambda row: row[SIDE])
    assert left == {
        "__key": b"a", "__side": 0, "__partition": 2, "__offset": 7, "__timestamp": 50,
        "__tombstone": False, "__seq": None, "L_N": 2, "R_CITY": None,
    }  # fmt: skip
    assert (right["__side"], right["L_N"], right["R_CITY"]) == (1, None, "Rome")


def test_a_filter_drops_a_streams_record_and_buries_a_tables_row() -> None:
    orders = [("a", 1, 0, 0, 1, False), ("a", 5, 0, 1, 1, False), ("a", None, 0, 2, 1, True)]
    users = [
        ("a", "Rome", 0, 0, 1, False), ("b", "Oslo", 0, 1, 1, False),
        ("c", None, 0, 2, 1, False), ("d", None, 0, 3, 1, True),
    ]  # fmt: skip
    query = _query('"N" > 2', "\"CITY\" = 'Rome'")
    (table,) = _rows(orders, users, query)
    rows = [(r[SIDE], r[KEY], r["__tombstone"]) for r in table.to_pylist()]
    assert sorted(rows) == [
        (0, b"a", False),
        (1, b"a", False),
        (1, b"b", True),
        (1, b"c", True),
        (1, b"d", True),
    ]


def test_without_a_filter_every_record_comes_with_its_flag() -> None:
    orders = [(None, 1, 0, 0, 1, False), ("a", None, 0, 1, 1, True)]
    (table,) = _rows(orders, [], _query())
    assert sorted((r["__offset"], r[KEY], r["__tombstone"]) for r in table.to_pylist()) == [
        (0, None, False),
        (1, b"a", True),
    ]


def test_both_sides_of_a_key_share_a_state_partition() -> None:
    keys = [f"k{i}" for i in range(40)]
    orders = [(k, 1, 0, i, 1, False) for i, k in enumerate(keys)]
    users = [(k, "Rome", 0, i, 1, False) for i, k in enumerate(keys)]
    tables = _rows(orders, users, _query(), partitions=3)
    found = [(p, key) for p, t in enumerate(tables) for key in t[KEY].to_pylist()]
    assert len(found) == 80
    assert all(state_partition(key, 3) == p for p, key in found)


def test_a_given_order_is_carried() -> None:
    order = _batch([("a", 1, 0, 0, 1, False, 9)], {**ORDER_COLUMNS, SEQUENCE: pa.int64()})
    user = _batch([("a", "Rome", 0, 0, 1, False)], USER_COLUMNS)
    (left,), (right,) = (
        packed_tables(_query(), [batch], 1, side) for side, batch in enumerate((order, user))
    )
    assert (left[SEQUENCE].to_pylist(), right[SEQUENCE].to_pylist()) == ([9], [None])


def test_one_input_of_a_step_over_a_table() -> None:
    right = _query().inputs[1]
    sink = Sink("OUT", "STREAM", "out", (), (), internal=True)
    query = Query("ctas_out_1", "", USERS, None, ChangesStep(right, 1), sink)
    users = _batch([("a", "Rome", 0, 0, 1, False)], USER_COLUMNS)
    (table,) = packed_tables(query, [users], 1)
    assert table.column_names == row_schema([right]).names
    assert table["R_CITY"].to_pylist() == ["Rome"]


def test_used_columns_by_side() -> None:
    query = _query(right_filter='"CITY" IS NOT NULL')
    assert used_columns(query, 0) == ("WHO", "N")
    assert used_columns(query, 1) == ("WHO", "CITY")


def test_a_table_under_a_projection_keeps_its_tombstones() -> None:
    step = ProjectStep(WHO, (source_column(Column("CITY", STRING)),))
    sink = Sink("OUT", "TABLE", "out", (WHO[0].column,), (Column("CITY", STRING),))
    where = condition("\"CITY\" <> 'Oslo'", "CITY")
    query = Query("ctas_out", "", USERS, where, step, sink)
    rows = [
        ("a", "Rome", 0, 0, 1, False), ("b", "Oslo", 0, 1, 1, False),
        ("c", None, 0, 2, 1, True), (None, "Rome", 0, 3, 1, False),
    ]  # fmt: skip
    table = Projected(query).rows(_batch(rows, USER_COLUMNS))
    dead = dict(zip(table["k0"].to_pylist(), table["__tombstone"].to_pylist(), strict=True))
    assert dead == {"a": False, "b": True, "c": True}


def test_a_self_join_s_rows_are_read_once_for_both_sides() -> None:
    step = _query().step
    assert isinstance(step, JoinStep)
    twin = Input(
        ORDERS, WHO, (source_column(Column("N", BIGINT), "R_N"),), condition('"N" > 1', "N")
    )
    query = replace(_query(), step=replace(step, right=twin))
    batch = _batch([("a", 1, 0, 0, 1, False), ("a", 2, 0, 1, 1, False)], ORDER_COLUMNS)
    rows = packed_table(query, [batch]).to_pylist()
    found = [(r[SIDE], r["__offset"], r["L_N"], r["R_N"]) for r in rows]
    assert sorted(found, key=str) == [(0, 0, 2, None), (0, 1, 3, None), (1, 1, None, 2)]


def test_a_broadcast_table_is_everywhere_and_the_stream_goes_by_topic_partition() -> None:
    query = _query()
    assert isinstance(query.step, JoinStep)
    query = replace(query, step=replace(query.step, broadcast=True))
    orders = [("hot", n, n % 5, n, 1, False) for n in range(20)]
    users = [("hot", "Rome", 0, 0, 1, False), ("b", "Oslo", 1, 0, 1, False)]
    parts = [table.to_pylist() for table in _rows(orders, users, query, 4)]
    for place, rows in enumerate(parts):
        assert sorted(r["R_CITY"] for r in rows if r[SIDE] == 1) == ["Oslo", "Rome"]
        assert {r["__partition"] % 4 for r in rows if r[SIDE] == 0} == {place}
    assert sorted(r["L_N"] for rows in parts for r in rows if r[SIDE] == 0) == list(range(1, 21))
