"""Ingest packs partials and rows, each for the state partition of its key."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

from holdfast.sql.plan.topology import compile_text
from holdfast.tasks.pack.packing import Packer, added, from_arrow, unpacked
from holdfast.tasks.processors.aggregates.state import payload_schema
from holdfast.tasks.processors.kinds import processor_of
from holdfast.transport.partitioner import state_partition, state_partitions
from holdfast.types.statements.topology import AggregateStep, Query
from tests.support.jobs.rows_view import RowsView

DECLARED = """
CREATE STREAM sales (id VARCHAR KEY, who VARCHAR, region BIGINT, small INTEGER, amount BIGINT,
                     price DOUBLE, cost DECIMAL(9, 2))
  WITH (KAFKA_TOPIC = 'sales', VALUE_FORMAT = 'JSON');
CREATE TABLE people (id VARCHAR PRIMARY KEY, name VARCHAR)
  WITH (KAFKA_TOPIC = 'people', VALUE_FORMAT = 'JSON');
CREATE TABLE rates (id VARCHAR PRIMARY KEY, name VARCHAR)
  WITH (KAFKA_TOPIC = 'rates', VALUE_FORMAT = 'JSON', BROADCAST = true);
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
    read = [(side, _without(batch, BESIDE - added(query, side))) for side, batch in parts]
    cut = [b for side, batch in read for b in _packer(query, side)([batch[:30], batch[30:]])]
    blobs = unpacked(blob for _, blob in cut)
    assert {p: len(parts) for p, parts in blobs.items()} == Counter(place for place, _ in cut)
    schema = processor_of(query).schema
    return [from_arrow(blobs.get(p, []), schema) for p in range(STATE_PARTITIONS)]


def _packer(query: Query, side: int) -> Packer:
    sides = range(len(query.inputs)) if query.read_once else [side]
    return Packer(query, STATE_PARTITIONS, sides)


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
    batches = [_rows(seed, 120, seed) for seed in range(2)]
    found = [_sorted_outcome(query, t) for t in _packed(query, [(0, b) for b in batches])]
    backwards = [b.slice(at, 17) for b in batches[::-1] for at in range(0, 120, 17)]
    again = [_sorted_outcome(query, t) for t in _packed(query, [(0, b) for b in backwards])]
    assert found == again
    assert sum(len(rows) for rows, *_ in found) >= 3


def _people() -> pa.RecordBatch:
    meta = [_rows(1, 4, 0)[name] for name in SCHEMA.names[-4:]]
    names = [pa.array(["ä", "who-1", "who-2", None]), pa.array(["A", "B", None, "D"])]
    return pa.RecordBatch.from_arrays([*names, *meta], ["ID", "NAME", *SCHEMA.names[-4:]])


def test_rows_of_both_sides_go_where_their_keys_go() -> None:
    query = _query(
        "SELECT s.who AS w, s.amount AS amount, p.name AS name FROM sales s"
        " JOIN people p ON s.who = p.id",
        "STREAM",
    )
    sales, people = _rows(1, 80, 0), _people()
    found = _packed(query, [(0, sales), (1, people)])
    for side, (read, key) in enumerate([(sales, "WHO"), (people, "ID")]):
        for row in read.to_pylist():
            where = _place_of(row[key])
            same = [
                each
                for each in found[where].to_pylist()
                if (each["__side"], each["__offset"]) == (side, row["__offset"])
            ]
            assert [each["__key"] for each in same] == [_bytes(row[key])]
            assert same[0]["S_AMOUNT"] == (None if side else row["AMOUNT"])
            assert same[0]["P_NAME"] == (row["NAME"] if side else None)
    assert sum(map(len, found)) == 84


def _bytes(key: str | None) -> bytes | None:
    return None if key is None else key.encode()


def _place_of(key: str | None) -> int:
    return 42 % STATE_PARTITIONS if key is None else state_partition(key.encode(), STATE_PARTITIONS)


def test_a_broadcast_table_is_everywhere_and_its_stream_where_it_was_read() -> None:
    query = _query(
        "SELECT s.who AS w, s.amount AS amount, r.name AS name FROM sales s"
        " JOIN rates r ON s.who = r.id",
        "STREAM",
    )
    found = _packed(query, [(0, _rows(1, 80, 4)), (1, _people())])
    assert [t["__side"].to_pylist().count(1) for t in found] == [4] * STATE_PARTITIONS
    streams = [t["__side"].to_pylist().count(0) for t in found]
    assert streams == [0, 80, 0]  # all of topic partition 4


def test_a_self_join_reads_each_record_for_both_sides() -> None:
    query = _query(
        "SELECT a.who AS w, a.amount AS x, b.amount AS y FROM sales a"
        " JOIN sales b WITHIN 1 SECOND ON a.who = b.who",
        "STREAM",
    )
    assert query.read_once
    found = _packed(query, [(0, _rows(1, 30, 0))])
    sides = sorted(side for t in found for side in t["__side"].to_pylist())
    assert sides == [0] * 30 + [1] * 30


@pytest.mark.parametrize(
    ("computed", "plain", "column", "change"),
    [
        ("WHERE amount > 3 GROUP BY who", "GROUP BY who", "AMOUNT", None),
        ("GROUP BY UCASE(who)", "GROUP BY who", "WHO", lambda v: v and v.upper()),
        ("GROUP BY region - 7", "GROUP BY region", "REGION", lambda v: v if v is None else v - 7),
    ],
)
def test_what_is_computed_is_as_if_it_were_a_column(
    computed: str, plain: str, column: str, change: Any
) -> None:
    key, before = (text.partition("GROUP BY ")[2] for text in (computed, plain))
    calls = "COUNT(*) AS n, SUM(price) AS s, COLLECT_LIST(small) AS l FROM sales"
    query = _query(f"SELECT {key} AS k, {calls} {computed}")
    other = _query(f"SELECT {before} AS k, {calls} {plain}")
    rows = _rows(5, 120, 0).to_pylist()
    if change is None:
        changed = [r for r in rows if r["AMOUNT"] is not None and r["AMOUNT"] > 3]
    else:
        changed = [r | {column: change(r[column])} for r in rows]
    found = [_outcome(query, t) for t in _packed(query, [(0, _batch(rows))])]
    wanted = [_outcome(other, t) for t in _packed(other, [(0, _batch(changed))])]
    assert found == wanted
    assert any(rows for rows, *_ in found)


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def test_an_argument_is_computed_before_it_is_summed() -> None:
    query = _query("SELECT who, SUM(amount * 2 + 1) AS n FROM sales GROUP BY who")
    rows = _rows(6, 90, 0).to_pylist()
    wanted: Counter[str] = Counter()
    for row in rows:
        if row["WHO"] is not None and not row["__tombstone"]:
            wanted[row["WHO"]] += 0 if row["AMOUNT"] is None else row["AMOUNT"] * 2 + 1
    found: dict[str, int] = {}
    for table in _packed(query, [(0, _batch(rows))]):
        _, sink, _ = _outcome(query, table)
        found |= {orjson.loads(key): orjson.loads(value)["N"] for key, value, _ in sink}
    assert found == dict(wanted)


def test_a_count_looks_at_no_offset() -> None:
    counted = added(_query("SELECT who, COUNT(*) AS n FROM sales GROUP BY who"), 0)
    assert counted == {"__tombstone", "__timestamp"}  # a row has the time of its newest record


def test_a_list_is_in_the_order_of_offsets() -> None:
    query = _query(LISTS)
    assert added(query, 0) == {"__tombstone", "__timestamp", "__partition", "__offset"}
    assert isinstance(query.step, AggregateStep)
    assert payload_schema(query.step).names[:3] == ["__key", "__partition", "__offset"]
    batches = [_rows(seed, 60, seed) for seed in range(2)]
    rows = sorted((r for b in batches for r in b.to_pylist()), key=_place)
    found: dict[str, list[Any]] = {}
    for table in _packed(query, [(0, batch) for batch in batches[::-1]]):
        changes = processor_of(query).process(table, -(1 << 62), RowsView({}))
        for key, value in zip(changes.sink_keys, changes.sink_values, strict=True):
            found[orjson.loads(key or b"")] = orjson.loads(value or b"")["N"]
    listed: dict[str, list[Any]] = {}
    for row in rows:
        if row["WHO"] is not None and not row["__tombstone"]:
            listed.setdefault(row["WHO"], []).append(row["AMOUNT"])
    assert found == listed


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["__offset"], row["__partition"]


def test_keys_in_columns_go_where_each_alone_goes() -> None:
    rng = random.Random(3)
    keys = [None, b"", *(rng.randbytes(rng.randrange(24)) for _ in range(300))]
    found = state_partitions(pa.array(keys, pa.binary()).slice(1), 7).tolist()
    assert found == [state_partition(key, 7) for key in keys[1:] if key is not None]
    assert state_partitions(pa.array([None], pa.binary()), 7).tolist() == [42 % 7]
