"""A user's aggregate gets every record, survives batches, and fails with its name."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from holdfast.errors import FunctionFailed, InvalidConfig, InvalidStatement
from holdfast.sql import compile_text
from holdfast.tasks.aggregates.user import load_functions
from holdfast.tasks.processors.aggregates.aggregate import AggregateProcessor
from holdfast.types.statements.topology import AggregateStep
from tests.support.jobs.packed import packed_table
from tests.support.jobs.rows_view import RowsView

FUNCTIONS = """
from holdfast import aggregate

@aggregate("RANGE_OF", args=["DOUBLE"], returns="DOUBLE")
class RangeOf:
    def init(self): return None
    def update(self, s, x):
        if x == 13: raise ValueError("unlucky")
        return s if x is None else [min(s[0], x), max(s[1], x)] if s else [x, x]
    def merge(self, a, b): return [min(a[0], b[0]), max(a[1], b[1])] if a and b else a or b
    def finish(self, s): return s[1] - s[0] if s else None

@aggregate("HOW_MANY", args=[], returns="BIGINT")
class HowMany:
    def init(self): return 0
    def update(self, s): return s + 1
    def merge(self, a, b): return a + b
    def finish(self, s): return s
"""
SQL = """
CREATE STREAM s (k STRING, x {x}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, {call} AS made FROM s GROUP BY k;
"""
SCHEMA = pa.schema(
    [
        ("K", pa.string()), ("X", pa.float64()), ("__partition", pa.int32()),
        ("__offset", pa.int64()), ("__timestamp", pa.int64()), ("__tombstone", pa.bool_()),
    ]
)  # fmt: skip


Batches = list[list[tuple[str, float | None]]]


def _feed(tmp_path: Path, batches: Batches, call: str = "RANGE_OF(x)") -> dict[bytes, object]:
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    query = compile_text(
        SQL.format(call=call, x="DOUBLE"), extra_aggregates=load_functions([str(file)])
    ).queries[0]
    processor = AggregateProcessor(query)
    store: dict[bytes, bytes | None] = {}
    values: dict[bytes, object] = {}
    for batch in batches:
        columns = zip(*((k, x, 0, n, n, False) for n, (k, x) in enumerate(batch)), strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        table = packed_table(query, [pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)])
        changes = processor.process(table, 0, RowsView(store))
        store.update(zip(changes.keys, changes.rows, strict=True))
        for key, value in zip(changes.sink_keys, changes.sink_values, strict=True):
            assert key is not None
            assert value is not None
            values[key] = orjson.loads(value)["MADE"]
    return values


@pytest.mark.parametrize("x", ["INTEGER", "BIGINT", "DECIMAL(10, 2)"])
def test_a_number_is_widened_to_what_the_aggregate_takes(tmp_path: Path, x: str) -> None:
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    functions = load_functions([str(file)])
    query = compile_text(SQL.format(call="RANGE_OF(x)", x=x), extra_aggregates=functions).queries[0]
    assert isinstance(query.step, AggregateStep)
    ((argument,),) = [call.args for call in query.step.aggregates]
    assert str(argument.type) == "DOUBLE"


def test_what_is_no_number_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    functions = load_functions([str(file)])
    with pytest.raises(InvalidStatement, match=r"RANGE_OF takes \(DOUBLE\), not \(STRING\)"):
        compile_text(SQL.format(call="RANGE_OF(k)", x="DOUBLE"), extra_aggregates=functions)


def test_partials_are_merged_with_the_stored_state(tmp_path: Path) -> None:
    batches: Batches = [
        [("a", 1.0), ("a", 5.0), ("b", None)],
        [("a", -2.0), ("b", 7.0)],
    ]
    assert _feed(tmp_path, batches) == {b"a": 7.0, b"b": 0.0}


def test_a_function_without_arguments_gets_every_record(tmp_path: Path) -> None:
    batches: Batches = [[("a", 1.0), ("b", None), ("a", None)], [("a", 2.0)]]
    assert _feed(tmp_path, batches, "HOW_MANY()") == {b"a": 3, b"b": 1}


def test_a_function_that_raises_is_named(tmp_path: Path) -> None:
    with pytest.raises(FunctionFailed, match="RANGE_OF raised ValueError: unlucky"):
        _feed(tmp_path, [[("a", 13.0)]])


def test_a_file_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"nowhere\.py could not be loaded"):
        load_functions([str(tmp_path / "nowhere.py")])
