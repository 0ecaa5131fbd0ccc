"""A table read from a changelog's rows equals the table of the sink's readers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.serve.contract import EVERY_WINDOW, WindowBounds
from holdfast.serve.tables import ChangelogTable, StoredTable, candidates
from holdfast.types.statements.topology import Query, Topology, Window, WindowKind
from tests.support.jobs.grouped_rows import Grouped, Record, query_of

WINDOWS = {
    "none": None,
    "tumbling": Window(WindowKind.TUMBLING, 10, 10, 1_000, 10_000),
    "hopping": Window(WindowKind.HOPPING, 10, 5, 1_000, 10_000),
    "session": Window(WindowKind.SESSION, 10, 10, 1_000, 10_000),
}
RECORDS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ab", "é"]), st.integers(-5, 5), st.integers(0, 60)),
    min_size=1,
    max_size=20,
)
BOUND = st.none() | st.integers(-5, 70)


def table_of(query: Query) -> ChangelogTable:
    window = getattr(query.step, "window", None)
    sink = query.sink.__class__(
        **{
            **vars(query.sink),
            "window": window.kind if window else None,
            "window_size_ms": 0 if window is None else window.size_ms,
        }
    )
    topology = Topology((Query("ctas_t", "", query.source, None, query.step, sink),))
    (found,) = candidates(topology, "app").tables
    table = found.made(4)
    assert isinstance(table, ChangelogTable)
    return table


def told(table: StoredTable, rows: dict[bytes, bytes]) -> dict[Any, list[Any]]:
    found = {}
    for row in table.decode(list(rows), list(rows.values())).to_pylist():
        if row["__present"]:
            bounds = (row["WINDOWSTART"], row["WINDOWEND"]) if table.window else None
            found[row["K"], bounds] = [row["C0"], row["C1"], row["C2"]]
    return found


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=25)
@given(records=RECORDS, having=st.sampled_from([None, '"__a1" > 2']))
def test_decoded_rows_are_the_table(window: str, records: list[Record], having: str | None) -> None:
    query = query_of(WINDOWS[window], having=having)
    job = Grouped(query)
    job.feed(records)
    assert told(table_of(query), job.rows) == job.table()


@pytest.mark.parametrize("window", ["tumbling", "hopping", "session"])
@settings(max_examples=25)
@given(records=RECORDS, bounds=st.tuples(BOUND, BOUND, BOUND, BOUND))
def test_the_windows_of_a_key_lie_in_its_range(
    window: str, records: list[Record], bounds: tuple[int | None, ...]
) -> None:
    query = query_of(WINDOWS[window])
    table, job = table_of(query), Grouped(query)
    job.feed(records)
    within = WindowBounds(*bounds)
    for plain in ("a", "b", "ab", "é"):
        key = table.key_of([plain])
        low, high = table.window_range(key, within)
        found = {k for k in job.rows if low <= k < high and table.is_within(k, key, within)}
        asked = {k for k in job.rows if table.is_within(k, key, within)}
        assert found == asked
        every = {k for k in job.rows if table.is_within(k, key, EVERY_WINDOW)}
        assert {table.split(k)[0] for k in every} <= {key}
        start_from, start_to, end_from, end_to = bounds
        for stored in every - asked:
            _, start, end = table.split(stored)
            out = (start_from is not None and start < start_from) or (
                start_to is not None and start > start_to
            )
            out = out or (end_from is not None and end < end_from)
            assert out or (end_to is not None and end > end_to)
