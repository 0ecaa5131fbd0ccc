"""What the tests take for Spark's partials is what Spark makes of the values engines differ at."""

from __future__ import annotations

import itertools
import random
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.runtime.jvm.spark_internals import payload
from holdfast.runtime.queries.frames import aggregate_frame
from holdfast.tasks.pack.packing import from_arrow
from holdfast.tasks.processors.base import NO_TIME
from holdfast.tasks.processors.kinds import processor_of
from holdfast.types.topology import Query
from tests.support.cut_runner import CutRunner
from tests.support.rows_view import RowsView
from tests.support.special_values import EXACT, ROUNDED, VALUES, aggregated


def _rows() -> list[dict[str, Any]]:
    """Groups of a few records each, so that every value stands alone and beside others."""
    rng = random.Random(39)
    pairs = list(itertools.permutations(VALUES["D"], 2))
    groups = [[{"D": d} for d in pair] for pair in pairs] + [[{}] * 3] * 40
    return [
        {**{n: rng.choice(v) for n, v in VALUES.items()}, **fixed, "ID": "i", "G": f"g{number}",
         "__timestamp": rng.randrange(60)}
        for number, group in enumerate(groups)
        for fixed in group
    ]  # fmt: skip


def _frame_of(query: Query, rows: list[dict[str, Any]]) -> pa.Table:
    kinds = [(c.name, c.type.arrow()) for c in query.source.columns]
    beside = [("__partition", pa.int32()), ("__offset", pa.int64()), ("__timestamp", pa.int64())]
    schema = pa.schema([*kinds, *beside, ("__tombstone", pa.bool_())])
    placed = [
        {**row, "__partition": 0, "__offset": n, "__tombstone": False} for n, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(placed, schema)


def _values(sink: dict[bytes, bytes]) -> dict[bytes, list[Any]]:
    found = {key: orjson.loads(value).values() for key, value in sink.items()}
    return {
        key: [pytest.approx(v, rel=1e-9) if isinstance(v, float) else v for v in row]
        for key, row in found.items()
    }


@pytest.mark.parametrize("calls", [EXACT, ROUNDED])
def test_partials_made_by_hand_are_spark_s(spark: SparkSession, calls: tuple[str, ...]) -> None:
    query, rows = aggregated(calls), _rows()
    frame = spark.createDataFrame(_frame_of(query, rows))
    ((part,),) = payload(aggregate_frame(frame, query, 1)).glom().collect()
    table = from_arrow([part], processor_of(query).schema)
    made = processor_of(query).process(table, NO_TIME, RowsView({}))
    by_hand = CutRunner(query).run(rows, set(), set())
    spark_s = {k: v for k, v in zip(made.sink_keys, made.sink_values, strict=True) if k and v}
    assert len(spark_s) > 100
    expected = {k: v for k, (v, _) in by_hand.sink.items() if k and v}
    assert spark_s.keys() == expected.keys()
    if calls is EXACT:  # as texts: 0.0 and -0.0 are two values
        assert spark_s == expected
    found, wanted = (
        _values(spark_s),
        {k: list(orjson.loads(v).values()) for k, v in expected.items()},
    )
    for key, row in wanted.items():
        assert row == found[key]
