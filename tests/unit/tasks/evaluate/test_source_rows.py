"""Expressions before the shuffle over decoded records: values, filters, exploded rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast.sql import compile_text
from holdfast.tasks.evaluate.projected import Projected
from holdfast.tasks.evaluate.source_rows import values_of, with_primary_key
from holdfast.types.columns.schema import BIGINT, INTEGER, STRING
from holdfast.types.statements.expressions import Expression
from holdfast.types.statements.topology import HEADERS, SEQUENCE, TIMESTAMP, TOMBSTONE, ProjectStep

SOURCE = (
    "CREATE STREAM s (k STRING KEY, i INTEGER, v STRING, l ARRAY<INTEGER>, m ARRAY<STRING>, "
    "`a` INTEGER, `A` INTEGER, t TIMESTAMP) "
    "WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
)
TYPES = {
    "K": pa.string(), "I": pa.int32(), "V": pa.string(), "L": pa.list_(pa.int32()),
    "M": pa.list_(pa.string()), "a": pa.int32(), "A": pa.int32(),
    "T": pa.timestamp("us", tz="UTC"),
}  # fmt: skip


def records(*rows: dict[str, Any]) -> pa.RecordBatch:
    columns = {n: pa.array([r.get(n) for r in rows], t) for n, t in TYPES.items()}
    columns[TIMESTAMP] = pa.array([r.get("time", 0) for r in rows], pa.int64())
    columns[TOMBSTONE] = pa.array([r.get("dead", False) for r in rows], pa.bool_())
    return pa.RecordBatch.from_pydict(columns)


def projected(select: str, *rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The value columns of a stateless statement over the records."""
    query = compile_text(f"{SOURCE} CREATE STREAM o AS SELECT {select};").queries[0]
    step = query.step
    assert isinstance(step, ProjectStep)
    made = Projected(query).rows(records(*rows))
    columns = [made[f"v{i}"].to_pylist() for i in range(len(step.outputs))]
    return list(zip(*columns, strict=True))


def test_a_plain_column_is_not_evaluated() -> None:
    rows = records({"I": 1}, {"I": None})
    plain = Expression('"I"', INTEGER, columns=("I",), ref="I")
    assert values_of(rows, [plain])[plain] is rows["I"] or values_of(rows, [plain])[plain].equals(
        rows["I"]
    )


def test_an_expression_that_fails_is_null_and_the_row_stays() -> None:
    assert projected("k, CAST(v AS INTEGER) AS n FROM s", {"V": "7"}, {"V": "x"}) == [(7,), (None,)]
    big = 2**31 - 1
    assert projected("k, i + 1 AS n FROM s", {"I": big}, {"I": 1})[1] == (2,)


def test_columns_whose_names_differ_in_case_are_told_apart() -> None:
    assert projected("k, `a` - `A` AS d FROM s", {"a": 5, "A": 3}) == [(2,)]


def test_an_expression_over_no_column_has_a_value_for_each_row() -> None:
    assert projected("k, 'x' AS c FROM s", {}, {}, {}) == [("x",)] * 3
    nothing = Expression("1 + 1", BIGINT)
    assert len(values_of(records(), [nothing])[nothing]) == 0


def test_where_drops_what_does_not_pass_and_what_has_no_value() -> None:
    rows: list[dict[str, Any]] = [{"I": 1}, {"I": 5}, {"I": None}, {"I": 9, "dead": True}]
    assert projected("k, i AS n FROM s WHERE i > 2", *rows) == [(5,)]


def test_without_where_a_record_without_a_value_stays() -> None:
    assert len(projected("k, i AS n FROM s", {"I": 1}, {"dead": True})) == 2


def test_exploded_arrays_stand_side_by_side() -> None:
    rows: list[dict[str, Any]] = [
        {"V": "x", "L": [1, 2, None], "M": ["a"]},
        {"V": "none", "L": [], "M": None},
        {"V": "y", "L": None, "M": ["b", "c"]},
    ]
    assert projected("k, v AS c, EXPLODE(l) AS n, EXPLODE(m) AS s FROM s", *rows) == [
        ("x", 1, "a"), ("x", 2, None), ("x", None, None), ("y", None, "b"), ("y", None, "c"),
    ]  # fmt: skip


def test_exploded_slices_do_not_mix_their_rows() -> None:
    query = compile_text(f"{SOURCE} CREATE STREAM o AS SELECT k, EXPLODE(l) AS n FROM s;").queries[
        0
    ]
    whole = records({"L": [1]}, {"L": [2, 3]}, {"L": None}, {"L": [4]})
    assert Projected(query).rows(whole.slice(1, 3))["v0"].to_pylist() == [2, 3, 4]


def test_times_keep_their_zone() -> None:
    made = projected("k, t AS c, TIMESTAMPADD(DAYS, 1, t) AS d FROM s", {"T": 1_000_000})
    assert [str(v) for v in made[0]] == ["1970-01-01 00:00:01+00:00", "1970-01-02 00:00:01+00:00"]


@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_headers_and_sequence_stay_with_their_rows(count: int) -> None:
    query = compile_text(f"{SOURCE} CREATE STREAM o AS SELECT k, UCASE(v) AS u FROM s;").queries[0]
    rows = records(*({"V": f"v{i}"} for i in range(count)))
    made = Projected(query).rows(rows.append_column(SEQUENCE, pa.array(range(count), pa.int64())))
    assert made[SEQUENCE].to_pylist() == list(range(count))
    assert made["v0"].to_pylist() == [f"V{i}" for i in range(count)]
    assert made[HEADERS].null_count == count


def test_text_that_is_typed_as_text_stays_text() -> None:
    upper = Expression('upper("V")', STRING, columns=("V",))
    assert values_of(records({"V": "é"}), [upper])[upper].to_pylist() == ["É"]


def test_fields_whose_names_differ_in_case_are_told_apart() -> None:
    select = "k, STRUCT(`x` := i, x := v) AS s, STRUCT(`x` := 1, x := 2)->`x` AS one FROM s"
    made = projected(select, {"I": 7, "V": "seven"}, {"I": None, "V": None})
    assert made == [({"x": 7, "X": "seven"}, 1), ({"x": None, "X": None}, 1)]


def test_a_column_with_such_fields_is_read_and_written() -> None:
    declared = (
        "CREATE STREAM d (k STRING KEY, s STRUCT<`x` INTEGER, x STRING>, "
        "l ARRAY<STRUCT<`y` INTEGER, y INTEGER>>) WITH (KAFKA_TOPIC='d', VALUE_FORMAT='JSON');"
    )
    query = compile_text(f"{declared} CREATE STREAM o AS SELECT k, s->`x` + 1 AS n, s->x AS t, "
                         "l[1]->y AS y, l AS l FROM d;").queries[0]  # fmt: skip
    types = {c.name: c.type.arrow() for c in query.source.columns}
    rows = pa.RecordBatch.from_pydict(
        {
            "K": pa.array(["a", "b"]),
            "S": pa.array([{"x": 1, "X": "one"}, None], types["S"]),
            "L": pa.array([[{"y": 1, "Y": 2}], []], types["L"]),
            TIMESTAMP: pa.array([0, 0], pa.int64()),
            TOMBSTONE: pa.array([False, False]),
        }
    )
    made = Projected(query).rows(rows)
    assert [made[f"v{i}"].to_pylist() for i in range(3)] == [[2, None], ["one", None], [2, None]]
    assert made["v3"].equals(rows["L"])


def test_a_struct_may_be_empty() -> None:
    assert projected("k, STRUCT() AS s FROM s", {}, {}) == [({},), ({},)]


def test_what_the_planner_takes_is_not_too_deep_for_duckdb() -> None:
    assert projected(f"k, v {'|| v ' * 400} AS c FROM s", {"V": "x"}) == [("x" * 401,)]
    assert projected(f"k, i {'- 2 ' * 340} AS n FROM s", {"I": 1}) == [(-679,)]


def test_a_record_without_any_key_column_is_no_row_of_a_table() -> None:
    declared = (
        "CREATE TABLE d (a STRING PRIMARY KEY, b INTEGER PRIMARY KEY, v STRING) "
        "WITH (KAFKA_TOPIC='d', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');"
    )
    query = compile_text(f"{declared} CREATE TABLE o AS SELECT * FROM d;").queries[0]
    keys = {"A": ["x", None, None, ""], "B": [None, 0, None, None]}
    rows = pa.RecordBatch.from_pydict(keys | {"V": ["1", "2", "3", "4"]})
    assert with_primary_key(rows, query.source)["V"].to_pylist() == ["1", "2", "4"]
