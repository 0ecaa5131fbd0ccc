"""Ingest packs partials and rows, each for the state partition of its key."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.runtime.jvm.spark_internals import payload
from holdfast.runtime.queries.frames import row_frame
from holdfast.sql.plan.topology import compile_text
from holdfast.tasks.pack.packing import Packer, added, from_arrow, packs, unpacked
from holdfast.tasks.processors.aggregates.state import payload_schema
from holdfast.tasks.processors.kinds import processor_of
from holdfast.transport.partitioner import state_partition, state_partitions
from holdfast.types.ingest import IngestOptions, Packing
from holdfast.types.topology import AggregateStep, Query
from tests.support.rows_view import RowsView

DECLARED = """
CREATE STREAM sales (id VARCHAR KEY, who VARCHAR, region BIGINT, small INTEGER, amount BIGINT,
                     price DOUBLE, cost DECIMAL(9, 2))
  WITH (KAFKA_TOPIC = 'sales', VALUE_FORMAT = 'JSON');
CREATE TABLE people (id VARCHAR PRIMARY KEY, name VARCHAR)
  WITH (KAFKA_TOPIC = 'people', VALUE_FORMAT = 'JSON');
"""
CALLS = """COUNT(*) AS a, COUNT(amount) AS b, SUM(amount) AS c, SUM(small) AS d, SUM(price) AS e,
  AVG(small) AS f, AVG(price) AS g, MIN(price) AS h, MAX(amount) AS i, MIN(small) AS j"""
GROUPINGS = [
    ("who", ""),
    ("region", ""),
    ("small", ""),
    ("who, region, small", ""),
    ("who", "WINDOW TUMBLING (SIZE 5 SECONDS)"),
    ("who", "WINDOW HOPPING (SIZE 9 SECONDS, ADVANCE BY 2 SECONDS)"),
]
SESSIONS = "COUNT(*) AS n, SUM(amount) AS s FROM sales WINDOW SESSION (2 SECONDS)"
ORDERED = "COLLECT_LIST(amount) AS n, LATEST_BY_OFFSET(price) AS l"
PACKED_STATEMENTS = [
    *(f"SELECT {by}, {CALLS} FROM sales {window} GROUP BY {by}" for by, window in GROUPINGS),
    "SELECT who, MAX(ROWTIME) AS newest FROM sales GROUP BY who",
    f"SELECT who, {SESSIONS} GROUP BY who",
    f"SELECT who, {ORDERED} FROM sales {GROUPINGS[-1][1]} GROUP BY who",
    "SELECT region, SUM(cost) AS n, MAX(who) AS m, MIN(cost) AS l FROM sales GROUP BY region",
]
OTHERS = [
    "SELECT who, COUNT(*) AS n FROM sales WHERE amount > 3 GROUP BY who",
    "SELECT who, SUM(amount + 1) AS n FROM sales GROUP BY who",
    "SELECT who, price, COUNT(*) AS n FROM sales GROUP BY who, price",
    "SELECT UCASE(who) AS w, COUNT(*) AS n FROM sales GROUP BY UCASE(who)",
]
LISTS = "SELECT who, COLLECT_LIST(amount) AS n FROM sales GROUP BY who"
SCHEMA = pa.schema(
    [
        ("ID", pa.string()), ("WHO", pa.string()), ("REGION", pa.int64()), ("SMALL", pa.int32()),
        ("AMOUNT", pa.int64()), ("PRICE", pa.float64()), ("COST", pa.decimal128(9, 2)),
        ("__partition", pa.int32()), ("__offset", pa.int64()),
        ("__timestamp", pa.int64()), ("__tombstone", pa.bool_()),
    ]
)  # fmt: skip
BESIDE = frozenset(name for name in SCHEMA.names if name.startswith("__"))
STATE_PARTITIONS = 3


def _query(select: str, kind: str = "TABLE", *, emit: str = "batch") -> Query:
    made = f"CREATE {kind} made WITH (KEY_FORMAT = 'JSON') AS {select} EMIT CHANGES;"
    text = f"SET 'emit' = '{emit}'; {DECLARED} {made}"
    query = compile_text(text).query("MADE")
    assert query is not None
    return query


def _rows(seed: int, count: int, partition: int) -> pa.RecordBatch:
    rng = random.Random(seed)
    rows = [
        {
            "ID": f"i{rng.randrange(40)}",
            "WHO": rng.choice(
                [
                    None,
                    "",
                    "ä",
                    '"\\\x1f\t/\x7f',
                    "\U0001f3ac\u2028",
                    *(f"who-{n}" for n in range(20)),
                ]
            ),
            "REGION": rng.choice([None, 0, -1, 2**40, 7]),
            "SMALL": rng.choice([None, -5, 0, 2**31 - 1]),
            "AMOUNT": rng.choice([None, rng.randrange(-99, 99)]),
            "PRICE": rng.choice([None, rng.randrange(-99, 99) / 4]),
            "COST": rng.choice([None, Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-2)]),
            "__partition": partition,
            "__offset": offset,
            "__timestamp": rng.randrange(0, 30_000),
            "__tombstone": rng.random() < 0.1,
        }
        for offset in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def _without(batch: pa.RecordBatch, names: frozenset[str]) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name not in names])


def _packed(query: Query, parts: list[tuple[int, pa.RecordBatch]]) -> list[pa.Table]:
    """The decoded payload of every state partition."""
    packing, wanted = Packing(query, STATE_PARTITIONS), added(query)
    read = [(side, _without(batch, BESIDE - wanted)) for side, batch in parts]
    cut = [b for side, batch in read for b in Packer(packing, side)([batch[:30], batch[30:]])]
    blobs = unpacked(blob for _, blob in cut)
    assert {p: len(parts) for p, parts in blobs.items()} == Counter(place for place, _ in cut)
    schema = processor_of(query).schema
    return [from_arrow(blobs.get(p, []), schema) for p in range(STATE_PARTITIONS)]


def _outcome(query: Query, table: pa.Table) -> tuple[list[Any], ...]:
    changes = processor_of(query).process(table, -(1 << 62), RowsView({}))
    sink = zip(changes.sink_keys, changes.sink_values, changes.sink_timestamps, strict=True)
    rows = zip(changes.keys, changes.rows, strict=True)
    counts = [changes.records, changes.dropped_null_key, changes.dropped_late]
    return sorted(rows), list(sink), [*counts, changes.stream_time_ms]


def _sorted_outcome(query: Query, table: pa.Table) -> tuple[list[Any], ...]:
    rows, sink, counts = _outcome(query, table)
    return rows, sorted(sink, key=repr), counts


@pytest.mark.parametrize("emit", ["batch", "record"])
@pytest.mark.parametrize("select", PACKED_STATEMENTS)
def test_where_packed_aggregates_are_cut_does_not_matter(select: str, emit: str) -> None:
    query = _query(select, emit=emit)
    assert packs(query)
    batches = [_rows(seed, 120, seed) for seed in range(2)]
    found = [_sorted_outcome(query, t) for t in _packed(query, [(0, b) for b in batches])]
    backwards = [b.slice(at, 17) for b in batches[::-1] for at in range(0, 120, 17)]
    again = [_sorted_outcome(query, t) for t in _packed(query, [(0, b) for b in backwards])]
    assert found == again
    assert sum(len(rows) for rows, *_ in found) >= 3


def test_packed_rows_equal_spark_s(spark: SparkSession) -> None:
    query = _query(
        "SELECT s.who AS w, s.amount AS amount, p.name AS name FROM sales s"
        " JOIN people p ON s.who = p.id",
        "STREAM",
    )
    assert packs(query)
    sales = _rows(1, 80, 0)
    names = pa.array(["ä", "who-1", "who-2", None])
    meta = [sales[name][:4] for name in SCHEMA.names[-4:]]
    people = pa.RecordBatch.from_arrays(
        [names, pa.array(["A", "B", None, "D"]), *meta], ["ID", "NAME", *SCHEMA.names[-4:]]
    )
    found = _packed(query, [(0, sales), (1, people)])
    frames = [spark.createDataFrame(pa.Table.from_batches([b])) for b in (sales, people)]
    parts = payload(row_frame(frames, query, STATE_PARTITIONS)).glom().collect()
    expected = [from_arrow(part, processor_of(query).schema) for part in parts]
    for ours, theirs in zip(found, expected, strict=True):
        by = [("__side", "ascending"), ("__offset", "ascending")]
        assert ours.sort_by(by).to_pylist() == theirs.sort_by(by).to_pylist()
    assert sum(map(len, found)) == 84


@pytest.mark.parametrize("select", OTHERS)
def test_what_is_more_than_columns_goes_through_spark(select: str) -> None:
    assert not packs(_query(select))


def test_a_count_looks_at_no_offset() -> None:
    counted = added(_query("SELECT who, COUNT(*) AS n FROM sales GROUP BY who"))
    assert counted == {"__tombstone", "__timestamp"}  # a row has the time of its newest record


def test_a_list_is_in_the_order_of_offsets() -> None:
    query = _query(LISTS)
    assert added(query) == {"__tombstone", "__timestamp", "__partition", "__offset"}
    assert isinstance(query.step, AggregateStep)
    assert payload_schema(query.step).names[:3] == ["__key", "__partition", "__offset"]
    batches = [_rows(seed, 60, seed) for seed in range(2)]
    rows = sorted((r for b in batches for r in b.to_pylist()), key=_place)
    found = {}
    for table in _packed(query, [(0, batch) for batch in batches[::-1]]):
        changes = processor_of(query).process(table, -(1 << 62), RowsView({}))
        found |= dict(zip(changes.sink_keys, map(orjson.loads, changes.sink_values), strict=True))
    listed: dict[str, list[Any]] = {}
    for row in rows:
        if row["WHO"] is not None and not row["__tombstone"]:
            listed.setdefault(row["WHO"], []).append(row["AMOUNT"])
    assert {json.loads(k): v["N"] for k, v in found.items()} == listed


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["__offset"], row["__partition"]


def test_packing_travels_in_the_options() -> None:
    query = _query(PACKED_STATEMENTS[3])
    options = IngestOptions(query.source, {}, ("WHO",), packing=Packing(query, 4))
    assert IngestOptions.from_spark(options.to_spark()) == options
    assert replace(options, packing=None) != options


def test_keys_in_columns_go_where_each_alone_goes() -> None:
    rng = random.Random(3)
    keys = [None, b"", *(rng.randbytes(rng.randrange(24)) for _ in range(300))]
    found = state_partitions(pa.array(keys, pa.binary()).slice(1), 7).tolist()
    assert found == [state_partition(key, 7) for key in keys[1:] if key is not None]
    assert state_partitions(pa.array([None], pa.binary()), 7).tolist() == [42 % 7]
