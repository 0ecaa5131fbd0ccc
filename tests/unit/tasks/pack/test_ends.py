"""First and last values: what is left out before the shuffle changes no row of state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.sql import compile_text
from holdfast.tasks.processors.base import NO_TIME
from holdfast.tasks.processors.kinds import processor_of
from holdfast.types.statements.topology import Query
from tests.support.jobs.packed import packed_parts, packed_table
from tests.support.jobs.rows_view import RowsView

SQL = """
CREATE STREAM s (k STRING, x BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, {calls} FROM s {window} GROUP BY k EMIT CHANGES;
"""
EVERY = (
    "COUNT(*) AS n, SUM(x) AS total, EARLIEST_BY_OFFSET(x) AS a, LATEST_BY_OFFSET(x) AS b, "
    "EARLIEST_BY_OFFSET(x, false) AS c, LATEST_BY_OFFSET(x, false) AS d, "
    "COUNT_DISTINCT(x) AS e"
)
# A small sketch keeps its values in the order of their arrival: its bytes differ, not its answer.
SKETCH = "APPROX_COUNT_DISTINCT(x) AS f"
WINDOWS = ("", "WINDOW HOPPING (SIZE 4 MILLISECONDS, ADVANCE BY 2 MILLISECONDS)")
Row = tuple[int, str | None, int | None]  # topic partition, key, value
ROWS = st.lists(
    st.tuples(
        st.sampled_from([0, 1]), st.sampled_from(["a", "b", None]), st.sampled_from([None, 1, 2, 3])
    ),
    max_size=30,
)


def _query(calls: str, window: str = "") -> Query:
    return compile_text(SQL.format(calls=calls, window=window)).queries[0]


def _batch(rows: list[Row], partition: int) -> pa.RecordBatch:
    own = [(n, k, x) for n, (p, k, x) in enumerate(rows) if p == partition]
    places = [n for n, _, _ in own]
    columns = {
        "K": pa.array([k for _, k, _ in own], pa.string()),
        "X": pa.array([x for _, _, x in own], pa.int64()),
        "__partition": pa.array(np.full(len(own), partition, np.int32)),
        "__offset": pa.array(places, pa.int64()),
        "__timestamp": pa.array(places, pa.int64()),
        "__tombstone": pa.array(np.zeros(len(own), np.bool_)),
    }
    return pa.RecordBatch.from_pydict(columns)


def _state(query: Query, pieces: list[pa.RecordBatch]) -> dict[bytes, bytes | None]:
    changes = processor_of(query).process(packed_table(query, pieces), NO_TIME, RowsView({}))
    return dict(zip(changes.keys, changes.rows, strict=True))


def _results(query: Query, pieces: list[pa.RecordBatch]) -> dict[bytes | None, bytes | None]:
    changes = processor_of(query).process(packed_table(query, pieces), NO_TIME, RowsView({}))
    return dict(zip(changes.sink_keys, changes.sink_values, strict=True))


@pytest.mark.parametrize("window", WINDOWS)
@given(rows=ROWS)
@example(rows=[(1, "a", 2), (1, "a", 3), (0, "a", 1), (1, "a", 1)])
def test_whole_pieces_give_what_single_records_give(window: str, rows: list[Row]) -> None:
    query = _query(EVERY, window)
    batches = [_batch(rows, p) for p in (1, 0)]
    single = [b.slice(n, 1) for b in batches for n in range(len(b))]
    assert _state(query, batches) == _state(query, single)
    sketched = _query(f"{EVERY}, {SKETCH}", window)
    assert _results(sketched, batches) == _results(sketched, single)


def _sent(calls: str) -> int:
    rows: list[Row] = [(0, "hot", n % 3 if n % 2 else None) for n in range(20_000)]
    (blobs,) = packed_parts(_query(calls), [_batch(rows, 0)], 1)
    return sum(map(len, blobs))


def test_a_hot_key_sends_two_records_and_lists_send_all() -> None:
    assert _sent(EVERY) < 4_000
    assert _sent(f"{EVERY}, COLLECT_LIST(x) AS g") > 400_000
