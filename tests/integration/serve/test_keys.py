"""Keys of look-ups against Spark's own: a key that differed by a byte would never be found."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from holdfast.serve.tables.literals import state_key
from holdfast.transport.partitioner import state_partition
from holdfast.types.columns.schema import BIGINT, BOOLEAN, DOUBLE, STRING, Base, Column, SqlType
from tests.support.values.expressions import source_column
from tests.support.values.spark_keys import state_key_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRUCT = SqlType(Base.STRUCT, fields=(Column("A", STRING), Column("B", DOUBLE)))
VALUES: list[tuple[SqlType, list[Any]]] = [
    (BOOLEAN, [True, False]),
    (DOUBLE, [0.1, -0.0, 1e7, 12345678.9, 1e-5, 1e21, float("inf"), float("nan"), 5e-324]),
    (SqlType(Base.DECIMAL, precision=20, scale=8), [Decimal("0.00000001"), Decimal("-12.5")]),
    (SqlType(Base.BYTES), [b"", b"\0\xff" * 40]),
    (SqlType(Base.DATE), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    (
        SqlType(Base.TIMESTAMP),
        [dt.datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=dt.UTC)],
    ),
    (SqlType(Base.ARRAY, element=STRING), [[], ["a", None, "ä/\u2028"]]),
    (STRUCT, [{"A": "x", "B": 1.5}, {"A": None, "B": 2.0}]),
    (STRING, ['"\\/\b\f\n\r\t\x00\x1f\x7f', "ä€😀 </script>", ""]),
]


def test_keys_are_made_as_spark_makes_them(spark: SparkSession) -> None:
    for kind, values in VALUES:
        columns = [Column("C", kind), Column("N", BIGINT)]
        schema = f"`C` {kind.spark()}, `N` BIGINT"
        frame = spark.createDataFrame([(value, 7) for value in values], schema)
        keys = [source_column(c) for c in columns]
        sql = state_key_sql(keys)
        rows = frame.selectExpr(f"{sql} AS k", f"pmod(hash({sql}), 8) AS p").collect()
        made = [state_key(columns, [value, 7]) for value in values]
        assert made == [bytes(row["k"]) for row in rows], kind
        assert [state_partition(key, 8) for key in made] == [row["p"] for row in rows]
