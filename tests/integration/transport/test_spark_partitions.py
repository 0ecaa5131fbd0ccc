from __future__ import annotations

import random
from typing import TYPE_CHECKING

from holdfast.transport.partitioner import state_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_s_shuffle_puts_every_key_where_queries_look_for_it(spark: SparkSession) -> None:
    chance = random.Random(20)
    keys = {chance.randbytes(chance.randrange(30)) for _ in range(500)}
    shuffled = spark.createDataFrame([(key,) for key in keys], "k binary").repartition(7, "k")
    rows = shuffled.selectExpr("k", "spark_partition_id() AS p").collect()
    assert len(rows) == len(keys)
    assert {bytes(k): p for k, p in rows} == {key: state_partition(key, 7) for key in keys}
