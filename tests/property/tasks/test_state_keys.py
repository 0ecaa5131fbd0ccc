"""State keys of generated columns: Spark's bytes, and read as the values they were made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings

from holdfast.tasks.evaluate.as_numbers import as_numbers
from holdfast.tasks.evaluate.keys import decode_keys
from holdfast.tasks.pack.key_columns import state_keys
from tests.support.values.expressions import source_column
from tests.support.values.key_values import KeyRows, key_rows
from tests.support.values.spark_keys import state_key_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERIES = 40  # each takes Spark a second


def _made(rows: KeyRows) -> pa.Array:
    return state_keys(rows.arrays, rows.kinds, parts_may_miss=rows.parts_may_miss)


@settings(max_examples=_QUERIES)
@given(rows=key_rows())
def test_state_keys_are_those_that_spark_makes(spark: SparkSession, rows: KeyRows) -> None:
    table = pa.table(list(rows.arrays), [c.name for c in rows.columns])
    keys = [source_column(column) for column in rows.columns]
    sql = state_key_sql(keys, parts_may_miss=rows.parts_may_miss)
    found = spark.createDataFrame(table).selectExpr(f"{sql} AS k").collect()
    expected = [None if row.k is None else bytes(row.k) for row in found]
    assert _made(rows).to_pylist() == expected


@given(key_rows())
def test_state_keys_are_read_as_the_values_they_were_made_of(rows: KeyRows) -> None:
    keys = _made(rows)
    present = keys.is_valid()
    decoded = decode_keys(keys.drop_null().to_pylist(), rows.columns)
    for ours, theirs in zip(decoded, rows.arrays, strict=True):
        assert ours.type == theirs.type
        # As text NaN equals itself, and 0.0 is not -0.0.
        expected = as_numbers(theirs.filter(present)).to_pylist()
        assert repr(as_numbers(ours).to_pylist()) == repr(expected)


@given(key_rows())
def test_only_a_missing_part_leaves_a_row_without_a_key(rows: KeyRows) -> None:
    either = pc.or_ if rows.parts_may_miss else pc.and_
    present = rows.arrays[0].is_valid()
    for each in rows.arrays[1:]:
        present = either(present, each.is_valid())
    assert _made(rows).is_valid() == present


@given(key_rows())
def test_a_row_s_key_does_not_depend_on_the_rows_around_it(rows: KeyRows) -> None:
    keys, width = _made(rows), len(rows.arrays[0])
    for start in range(width):
        part = KeyRows(rows.kinds, [a.slice(start, 2) for a in rows.arrays], rows.parts_may_miss)
        assert _made(part) == keys.slice(start, 2)
