"""The table does not depend on how records are cut into batches, nor on the emit mode."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.processors.sessions.session import SessionProcessor
from holdfast.types.statements.topology import Emit, Window, WindowKind
from tests.support.jobs.grouped_rows import Grouped, Record, query_of

GAP = 10
SESSIONS = Window(WindowKind.SESSION, GAP, GAP, 1_000, 2_000)
TUMBLING = Window(WindowKind.TUMBLING, 20, 20, 1_000, 2_000)

_RECORDS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ab"]), st.integers(0, 9), st.integers(0, 120)),
    min_size=1,
    max_size=25,
)
_CUTS = st.sets(st.integers(0, 25), max_size=4)
Table = dict[tuple[str, tuple[int, int] | None], list[Any]]


def _table(grouped: Grouped, records: list[Record], cuts: set[int]) -> Table:
    edges = sorted({0, *(c for c in cuts if c < len(records)), len(records)})
    for start, end in pairwise(edges):
        grouped.feed(records[start:end])
    return grouped.table()


def _sessions(records: list[Record]) -> Table:
    """Each key's records by time, cut where nothing came for longer than the gap."""
    by_key: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for key, value, time in records:
        by_key[str(key)].append((time, value))
    table: Table = {}
    for key, pairs in by_key.items():
        found: list[list[tuple[int, int]]] = []
        for pair in sorted(pairs):
            if found and pair[0] - found[-1][-1][0] <= GAP:
                found[-1].append(pair)
            else:
                found.append([pair])
        for each in found:
            values = [value for _, value in each]
            table[key, (each[0][0], each[-1][0])] = [len(each), sum(values), sorted(values)]
    return table


def _sorted(table: Table) -> Table:
    return {place: [*value[:2], sorted(value[2])] for place, value in table.items()}


@given(_RECORDS, _CUTS)
def test_sessions_are_what_lies_within_the_gap(records: list[Record], cuts: set[int]) -> None:
    for emit in (Emit.RECORD, Emit.BATCH):
        table = _table(Grouped(query_of(SESSIONS, emit)), records, cuts)
        assert _sorted(table) == _sessions(records)


@given(_RECORDS, _CUTS)
def test_a_batch_ends_where_its_records_end(records: list[Record], cuts: set[int]) -> None:
    whole = Grouped(query_of(SESSIONS, Emit.BATCH))
    single = Grouped(query_of(SESSIONS, Emit.RECORD))
    told = _sorted(_table(whole, records, cuts))
    assert told == _sorted(_table(single, records, set(range(25))))
    assert set(whole.rows) == set(single.rows)


@given(_RECORDS, _CUTS)
def test_what_can_be_folded_comes_to_what_records_do(records: list[Record], cuts: set[int]) -> None:
    folded = _table(Grouped(query_of(SESSIONS, Emit.BATCH, lists=False)), records, cuts)
    assert folded == {place: value[:2] for place, value in _sessions(records).items()}


@given(_RECORDS)
def test_batches_of_one_record_are_records(records: list[Record]) -> None:
    strict = Window(WindowKind.SESSION, GAP, GAP, 5, 60)
    batches = Grouped(query_of(strict, Emit.BATCH))
    single = Grouped(query_of(strict, Emit.RECORD))
    for record in records:
        batches.feed([record])
        single.feed([record])
        assert batches.rows == single.rows
    assert batches.table() == single.table()
    assert batches.dropped_late == single.dropped_late


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "ab"]), st.integers(0, 9), st.integers(-4, 14))),
    _CUTS,
    st.sampled_from([0, 3, 20]),
    st.sampled_from([0, 1, 100]),
)
def test_final_sessions_of_a_batch_are_those_of_its_records(
    steps: list[Record], cuts: set[int], grace_ms: int, more_ms: int
) -> None:
    kept_ms = GAP + grace_ms + more_ms
    window = Window(WindowKind.SESSION, GAP, GAP, grace_ms, kept_ms)
    query = query_of(window, Emit.FINAL, lists=False)
    times = [100 + time for time in accumulate(step for _, _, step in steps)]
    records = [(k, v, max(t, 0)) for (k, v, _), t in zip(steps, times, strict=True)]
    columns, single = Grouped(query), Grouped(query)
    single.use(SessionProcessor(query))
    edges = sorted({0, *(c for c in cuts if c < len(records)), len(records)})
    for start, end in pairwise(edges):
        assert columns.feed(records[start:end]) == single.feed(records[start:end])
        assert columns.order == single.order
        assert columns.rows == single.rows
    assert columns.dropped_late == single.dropped_late


@given(_RECORDS, _CUTS)
def test_final_results_are_what_every_change_came_to(records: list[Record], cuts: set[int]) -> None:
    closing: list[Record] = [("z", 0, 10_000)]
    for window in (TUMBLING, SESSIONS):
        # Retention is the least there is: nothing may depend on how far stream time jumps.
        kept = Window(window.kind, window.size_ms, window.advance_ms, 1_000, 1_000 + window.size_ms)
        final = _table(Grouped(query_of(kept, Emit.FINAL)), records + closing, cuts)
        every = _table(Grouped(query_of(kept, Emit.RECORD)), records, set())
        assert final == every
