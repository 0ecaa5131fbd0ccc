"""Sketches: near the exact answers, the same however batches are cut, small, and careful."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidStatement, StoreCorrupted
from holdfast.sql import compile_text
from holdfast.tasks.aggregates.sketches import CountSketch, QuantileSketch, Sketch, TopSketch
from holdfast.tasks.processors.base import NO_TIME
from holdfast.tasks.processors.kinds import processor_of
from holdfast.types.statements.topology import Query
from tests.support.jobs.packed import packed_parts, packed_table
from tests.support.jobs.rows_view import RowsView

SQL = """
{settings}
CREATE STREAM s (k STRING, x {kind}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, {call} AS made FROM s {window} GROUP BY k EMIT CHANGES;
"""
TYPES = {"DOUBLE": pa.float64(), "BIGINT": pa.int64(), "STRING": pa.string(), "BYTES": pa.binary()}


def _query(call: str, kind: str, window: str = "", settings: str = "") -> Query:
    text = SQL.format(call=call, kind=kind, window=window, settings=settings)
    return compile_text(text).queries[0]


def _batch(kind: str, values: list[Any], first: int, keys: list[str]) -> pa.RecordBatch:
    count = len(values)
    places = np.arange(first, first + count)
    columns = {
        "K": pa.array(keys, pa.string()),
        "X": pa.array(values, TYPES[kind]),
        "__partition": pa.array(np.zeros(count, np.int32)),
        "__offset": pa.array(places),
        "__timestamp": pa.array(places),
        "__tombstone": pa.array(np.zeros(count, np.bool_)),
    }
    return pa.RecordBatch.from_pydict(columns)


def _last(
    query: Query, kind: str, values: list[Any], cut: int, pieces: int = 1
) -> tuple[Any, bytes]:
    """The last result of the only key, and its row, after batches of `cut` records."""
    processor, rows = processor_of(query), dict[bytes, bytes | None]()
    elements: dict[bytes, bytes | None] = {}
    result: Any = None
    for at in range(0, len(values), cut):
        part = values[at : at + cut]
        batch = _batch(kind, part, at, ["hot"] * len(part))
        size = math.ceil(len(part) / pieces)
        cuts = [batch.slice(i, size) for i in range(0, len(part), size)]
        view = RowsView(rows, elements)
        changes = processor.process(packed_table(query, cuts), NO_TIME, view)
        rows |= dict(zip(changes.keys, changes.rows, strict=True))
        elements |= changes.elements
        (written,) = [value for value in changes.sink_values[-1:] if value is not None]
        result = orjson.loads(written)["MADE"]
    (row,) = [row for row in rows.values() if row is not None]
    return result, row


CUTS = [(30_000, 1), (30_000, 7), (3_000, 2), (299, 1), (40, 1)]


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "STRING", "BYTES"])
def test_a_count_is_near_and_does_not_depend_on_the_cut(kind: str) -> None:
    rng = random.Random(7)
    numbers = [rng.randrange(8_000) for _ in range(30_000)]
    makers: dict[str, Callable[[int], Any]] = {
        "BIGINT": int,
        "DOUBLE": float,
        "STRING": str,
        "BYTES": lambda n: b"\xff%d" % n,
    }
    made = makers[kind]
    query = _query("APPROX_COUNT_DISTINCT(x)", kind)
    found = [_last(query, kind, [*map(made, numbers)], cut, parts) for cut, parts in CUTS[:4]]
    exact = len(set(numbers))
    assert abs(found[0][0] - exact) < 0.05 * exact
    assert {result for result, _ in found} == {found[0][0]}
    assert max(len(row) for _, row in found) < 2_300


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=900), st.integers(1, 400))
def test_few_distinct_values_are_counted_almost_exactly(values: list[int], cut: int) -> None:
    sketch = CountSketch()
    parts = [sketch.merged([], values[i : i + cut]) for i in range(0, len(values), cut)]
    whole = sketch.count(sketch.merged(parts, values))
    assert abs(whole - len(set(values))) <= max(1, 0.05 * len(set(values)))
    assert whole == sketch.count(sketch.merged([], values[::-1]))


@pytest.mark.parametrize(
    ("kind", "values", "count"),
    [
        ("STRING", ["", "=", "\0", None, ""], 3),
        ("BYTES", [b"", b"\xff", b"\xc3\xbf", None], 3),
        ("DOUBLE", [math.nan, -math.nan, 0.0, -0.0, math.inf, None], 4),
        ("BIGINT", [-(2**63), 2**63 - 1, 0, None], 3),
        ("STRING", [None], 0),
    ],
)
def test_equal_values_are_those_of_count_distinct(kind: str, values: list[Any], count: int) -> None:
    for function in ("APPROX_COUNT_DISTINCT", "COUNT_DISTINCT"):
        for cut in (1, 10):
            assert _last(_query(f"{function}(x)", kind), kind, values, cut)[0] == count


def _shapes() -> dict[str, list[float]]:
    rng = np.random.default_rng(5)
    found = {
        "uniform": rng.random(30_000),
        "heavy": rng.lognormal(0, 3, 30_000),
        "ascending": np.arange(30_000.0),
        "descending": np.arange(30_000.0)[::-1],
        "few": rng.integers(0, 20, 30_000).astype(float),
        "outward": np.array([(-1) ** n * n for n in range(30_000)], float),
        "steep": np.exp(np.sort(rng.random(30_000)) * 600 - 300),
    }
    return {name: values.tolist() for name, values in found.items()}


SHARES = (0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1)


@pytest.mark.parametrize(("shape", "values"), _shapes().items())
@pytest.mark.parametrize(("cut", "pieces"), CUTS)
def test_a_quantile_is_within_two_percent_of_ranks(
    shape: str, values: list[float], cut: int, pieces: int
) -> None:
    call = f"APPROX_QUANTILE(x, {', '.join(map(str, SHARES))})"
    results, row = _last(_query(call, "DOUBLE"), "DOUBLE", values, cut, pieces)
    ordered = np.sort(values)
    for share, value in zip(SHARES, results, strict=True):
        below = np.searchsorted(ordered, value, "left") / len(values)
        upto = np.searchsorted(ordered, value, "right") / len(values)
        error = 0.0 if share in {0, 1} else 0.02
        assert below - error <= share <= upto + error, (shape, share, value)
    assert (results[0], results[-1]) == (ordered[0], ordered[-1])
    assert len(row) < 9_900


def test_quantiles_of_few_values_are_values() -> None:
    call = "APPROX_QUANTILE(x, 0, 0.25, 0.5, 0.9, 1)"
    values: list[Any] = [None, *map(float, range(1, 101)), None]
    assert _last(_query(call, "DOUBLE"), "DOUBLE", values, 102)[0] == [1, 26, 51, 91, 100]
    assert _last(_query(call, "DOUBLE"), "DOUBLE", values, 1)[0] == [1, 26, 51, 91, 100]
    assert _last(_query("APPROX_QUANTILE(x, 0.5)", "DOUBLE"), "DOUBLE", [None], 1)[0] is None


INF = math.inf


@pytest.mark.parametrize(
    ("values", "results"),
    [
        ([math.nan], ["NaN"] * 3),
        ([INF, -INF], ["-Infinity", "Infinity", "Infinity"]),
        ([1.0, math.nan], [1.0, 1.0, "NaN"]),
        ([-INF, 1.0, 2.0, INF, math.nan], ["-Infinity", 2.0, "NaN"]),
        ([1.7e308, -1.7e308] * 500, [-1e290, pytest.approx(0, abs=1e290), 1e290]),
        ([-INF], ["-Infinity"] * 3),
    ],
)
def test_what_is_not_finite_has_its_place(values: list[float], results: list[Any]) -> None:
    query = _query("APPROX_QUANTILE(x, 0, 0.5, 1)", "DOUBLE")
    for cut in (1_000, 1):
        assert _last(query, "DOUBLE", values[:10] if cut == 1 else values, cut)[0] == results


def test_the_most_frequent_are_found_among_many() -> None:
    rng = np.random.default_rng(3)
    values = [str(v) for v in rng.zipf(1.3, 30_000).tolist()]
    exact, slack = Counter(values), int(len(values) * 3.5 / 1024)
    query = _query("APPROX_TOP_K(x, 5)", "STRING")
    for cut, pieces in CUTS[:4]:
        found, row = _last(query, "STRING", values, cut, pieces)
        assert [e["ITEM"] for e in found] == [item for item, _ in exact.most_common(5)]
        assert all(exact[e["ITEM"]] <= e["COUNT"] <= exact[e["ITEM"]] + slack for e in found)
        assert len(row) < 768 * 32


def test_few_values_are_counted_exactly_and_come_back_as_they_were() -> None:
    doubles = [math.nan, 0.0, -0.0, -0.0, None, math.inf, math.nan, math.nan]
    query = _query("APPROX_TOP_K(x, 3)", "DOUBLE")
    expected = [("NaN", 3), (-0.0, 2), (0.0, 1)]
    for cut in (1, 10):
        found = [(e["ITEM"], e["COUNT"]) for e in _last(query, "DOUBLE", doubles, cut)[0]]
        assert repr(found) == repr(expected)
    texts = ["", "", "\0", "é", None]
    found = _last(_query("APPROX_TOP_K(x, 9)", "STRING"), "STRING", texts, 2)[0]
    assert [(e["ITEM"], e["COUNT"]) for e in found] == [("", 2), ("\0", 1), ("é", 1)]
    raw = _last(_query("APPROX_TOP_K(x, 9)", "BYTES"), "BYTES", [b"\xff\x00", b""], 1)[0]
    assert raw == [{"ITEM": "", "COUNT": 1}, {"ITEM": "/wA=", "COUNT": 1}]


@pytest.mark.parametrize(
    "call", ["APPROX_COUNT_DISTINCT(x)", "APPROX_QUANTILE(x, 0.5)", "APPROX_TOP_K(x, 10)"]
)
def test_a_hot_key_sends_little_through_the_shuffle(call: str) -> None:
    values = np.random.default_rng(1).integers(0, 10**6, 100_000).tolist()
    (blobs,) = packed_parts(
        _query(call, "BIGINT"), [_batch("BIGINT", values, 0, ["hot"] * len(values))], 1
    )
    assert sum(map(len, blobs)) < 25_000


@pytest.mark.parametrize("window", ["WINDOW SESSION (1 SECOND)", "WINDOW TUMBLING (SIZE 1 DAY)"])
@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("APPROX_COUNT_DISTINCT(x)", 3),
        ("APPROX_QUANTILE(x, 0.5)", 5.0),
        ("APPROX_TOP_K(x, 1)", [{"ITEM": 5, "COUNT": 2}]),
    ],
)
@pytest.mark.parametrize("emit", ["batch", "record"])
def test_windows_and_record_by_record(window: str, call: str, result: Any, emit: str) -> None:
    query = _query(call, "BIGINT", window, f"SET 'emit'='{emit}';")
    for cut in (1, 2, 10):
        assert _last(query, "BIGINT", [1, 5, 7, 5, None], cut)[0] == result


@pytest.mark.parametrize(
    "call",
    [
        "APPROX_COUNT_DISTINCT(x, 2)", "APPROX_COUNT_DISTINCT()", "APPROX_COUNT_DISTINCT(ARRAY[x])",
        "APPROX_QUANTILE(x)", "APPROX_QUANTILE(x, 1.5)", "APPROX_QUANTILE(x, -0.1)",
        "APPROX_QUANTILE(k, 0.5)", "APPROX_QUANTILE(x, 'a')", "APPROX_QUANTILE(x, TRUE)",
        "APPROX_TOP_K(x)", "APPROX_TOP_K(x, 0)", "APPROX_TOP_K(x, 101)", "APPROX_TOP_K(x, 2.5)",
        "APPROX_TOP_K(x, TRUE)",
    ],
)  # fmt: skip
def test_other_arguments_are_refused(call: str) -> None:
    with pytest.raises(InvalidStatement):
        _query(call, "BIGINT")


SKETCHES: list[tuple[Sketch[Any], list[Any]]] = [
    (CountSketch(), [1, 2, 3]),
    (CountSketch(), list(range(5_000))),
    (QuantileSketch(), [1.0]),
    (QuantileSketch(), list(map(float, range(5_000)))),
    (TopSketch(), ["a", "b"]),
    (TopSketch(), list(map(str, range(700)))),
]


@pytest.mark.parametrize(("sketch", "values"), SKETCHES)
def test_a_sketch_that_was_cut_off_is_refused(sketch: Sketch[Any], values: list[Any]) -> None:
    stored = sketch.merged([], values)
    for size in {*range(min(len(stored), 60)), *range(0, len(stored), 97)}:
        with pytest.raises(StoreCorrupted, match="cannot be read"):
            sketch.read(stored[:size])


@pytest.mark.parametrize(("sketch", "values"), SKETCHES)
def test_one_of_another_kind_is_refused(sketch: Sketch[Any], values: list[Any]) -> None:
    for other, _ in SKETCHES:
        if type(other) is not type(sketch):
            with pytest.raises(StoreCorrupted):
                other.read(sketch.merged([], values))


def test_the_same_values_in_the_same_order_give_the_same_bytes() -> None:
    """In another process, too, whose hashes of text differ."""
    code = (
        "import sys; sys.path.insert(0, 'jobs')\n"
        "from holdfast.tasks.aggregates.sketches import *\n"
        "texts = [str(n * 7919 % 5000) for n in range(20000)]\n"
        "for sketch, values in ((CountSketch(), texts), (TopSketch(), texts), "
        "(QuantileSketch(), list(map(float, texts)))):\n"
        "    half = sketch.merged([], values[:9000])\n"
        "    print(sketch.merged([half, sketch.merged([], values[9000:])]).hex())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, timeout=60,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1


def test_the_library_is_loaded_only_where_a_statement_needs_it() -> None:
    code = (
        "import sys; sys.path.insert(0, 'jobs')\n"
        "from holdfast.tasks.aggregates.registry import lookup\n"
        "from holdfast.types.columns.schema import BIGINT\n"
        "lookup('APPROX_TOP_K').result_type([BIGINT], [3])\n"
        "print('datasketches' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"False\n"
