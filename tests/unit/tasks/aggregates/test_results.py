"""Results and stored rows of every aggregate are those of the release that aggregated in Spark SQL.

`results.json` was written by that release: for each call, by group, the value in the sink and the
row of state in hexadecimal digits after both batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast.state.elements import state_key_of
from holdfast.tasks.aggregates.base import Aggregate
from holdfast.tasks.aggregates.registry import bind, function_of, names
from holdfast.tasks.aggregates.user import registered
from holdfast.tasks.pack.folds import Folding
from holdfast.tasks.processors.aggregates.state import in_arrival_order
from holdfast.tasks.processors.base import NO_TIME
from holdfast.tasks.processors.kinds import processor_of
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOMBSTONE,
    AggregateCall,
    AggregateStep,
    Query,
)
from tests.support.jobs.packed import packed_table
from tests.support.jobs.rows_view import RowsView
from tests.support.values.nasty_rows import BATCHES, CALLS, query_of

_FOUND = json.loads(Path(__file__).with_name("results.json").read_text(encoding="utf-8"))
GROUPS: list[str] = _FOUND["groups"]
EXPECTED: dict[str, dict[str, list[Any]]] = _FOUND["calls"]
# The last digits depend on the order of additions.
ROUNDED = ("STDDEV", "CORRELATION", "AVG(C)", "AVG(E)", "AVG(F)")
SEVERAL = "ATTR"  # it kept all values, and forgets them now once two differ
BY_ELEMENT = "COUNT_DISTINCT"  # its values are element rows now (ADR 53)
YOUNGER = {"APPROX_COUNT_DISTINCT", "APPROX_QUANTILE", "APPROX_TOP_K"}  # than that release
LISTED = {Folding.LIST, Folding.FIRST, Folding.LAST}

WINDOWS = ("WINDOW TUMBLING (SIZE 20 MILLISECONDS)", "WINDOW SESSION (5 MILLISECONDS)")

Pieces = list[pa.RecordBatch]


def _whole(part: pa.RecordBatch) -> Pieces:
    return [part]


def _cut(part: pa.RecordBatch) -> Pieces:
    return [part.slice(0, 1), part.slice(1, 7), part.slice(8, 0), part.slice(8)]


def _within_others(part: pa.RecordBatch) -> Pieces:
    """Slices of larger arrays, whose offsets do not begin at 0."""
    return [pa.concat_batches([part, part, part]).slice(len(part), len(part))]


def _record_by_record(part: pa.RecordBatch) -> Pieces:
    return [part.slice(n, 1) for n in range(len(part))]


def _payload(query: Query, batch: pa.Table, cut: Callable[[pa.RecordBatch], Pieces]) -> pa.Table:
    """The topic partitions come the other way round."""
    found = [batch.filter(pc.equal(batch[PARTITION], p)) for p in (1, 0)]
    parts = [pa.concat_batches(part.to_batches()) for part in found if len(part)]
    return packed_table(query, [piece for part in parts for piece in cut(part)])


def _run(
    query: Query, cut: Callable[[pa.RecordBatch], Pieces], batches: list[pa.Table] = BATCHES
) -> tuple[dict[str, Any], dict[str, str]]:
    """The results and the rows of state by group."""
    processor, rows, results = processor_of(query), dict[bytes, bytes | None](), {}
    elements: dict[bytes, bytes | None] = {}
    for batch in batches:
        view = RowsView(rows, elements)
        changes = processor.process(_payload(query, batch, cut), NO_TIME, view)
        rows |= dict(zip(changes.keys, changes.rows, strict=True))
        elements |= changes.elements
        for key, value in zip(changes.sink_keys, changes.sink_values, strict=True):
            results[(key or b"").decode()] = orjson.loads(value or b"")["X0"]
    return results, {k.decode(): bytes(r or b"").hex() for k, r in rows.items()}


def _close(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


@pytest.mark.parametrize("cut", [_whole, _cut, _within_others, _record_by_record])
@pytest.mark.parametrize("call", CALLS)
def test_results_and_rows_are_what_they_were(
    call: str, cut: Callable[[pa.RecordBatch], Pieces]
) -> None:
    query = query_of(call)
    results, rows = _run(query, cut)
    values = dict(zip(GROUPS, EXPECTED[call]["values"], strict=True))
    if call.startswith(ROUNDED):
        assert results == {group: _close(value) for group, value in values.items()}
        return
    assert {g: json.dumps(v) for g, v in results.items()} == {
        g: json.dumps(v) for g, v in values.items()
    }
    was = dict(zip(GROUPS, EXPECTED[call]["rows"], strict=True))
    if call.startswith(SEVERAL):
        rows, was = ({g: found[g] for g in ("one", "nulls")} for found in (rows, was))
    if not call.startswith(BY_ELEMENT):
        assert rows == was


@pytest.mark.parametrize("emit", ["batch", "record"])
@pytest.mark.parametrize("call", [c for c in CALLS if c.startswith(BY_ELEMENT)])
def test_rows_of_that_release_become_element_rows(call: str, emit: str) -> None:
    """The same records again: every value is known from the list in the old row."""
    query, key = query_of(call, emit=emit), "g1"
    old = dict(zip(GROUPS, map(bytes.fromhex, EXPECTED[call]["rows"]), strict=True))
    rows: dict[bytes, bytes | None] = {group.encode(): row for group, row in old.items()}
    elements: dict[bytes, bytes | None] = {}
    values = dict(zip(GROUPS, EXPECTED[call]["values"], strict=True))
    for batch in BATCHES:
        mine = batch.filter(pc.equal(batch["G"], key))
        view = RowsView(rows, elements)
        changes = processor_of(query).process(_payload(query, mine, _whole), NO_TIME, view)
        assert list(changes.created) == []
        assert {orjson.loads(v or b"")["X0"] for v in changes.sink_values} == {values[key]}
        rows |= dict(zip(changes.keys, changes.rows, strict=True))
        elements |= changes.elements
    assert len(elements) == values[key]
    assert {state_key_of(name) for name in elements} == {key.encode()}
    assert {g for g in GROUPS if rows[g.encode()] == old[g]} == {*GROUPS} - {key}


@pytest.mark.parametrize("emit", ["batch", "record"])
@pytest.mark.parametrize("call", [c for c in CALLS if c.startswith(SEVERAL)])
def test_values_that_differ_are_forgotten(call: str, emit: str) -> None:
    """Also those that a row of that release has."""
    query, key = query_of(call, emit=emit), b"g1"
    both = [batch.filter(pc.equal(batch["G"], key.decode())) for batch in BATCHES]
    found = []
    for before in ({}, {key: bytes.fromhex(EXPECTED[call]["rows"][GROUPS.index("g1")])}):
        rows: dict[bytes, bytes | None] = {**before}
        for batch in both:
            payload = _payload(query, batch, _whole)
            changes = processor_of(query).process(payload, NO_TIME, RowsView(rows))
            rows |= dict(zip(changes.keys, changes.rows, strict=True))
        assert orjson.loads(changes.sink_values[-1] or b"") == {"X0": None}
        found.append((rows[key] or b"")[17:])
    assert found[0] == found[1]
    assert len(found[0]) < 20


def _in_one_order(batch: pa.Table, first: int) -> pa.Table:
    """The records in one topic partition, by time: every way to process them has this order."""
    zeros, places = np.zeros(len(batch), np.int32), np.arange(first, first + len(batch))
    for name, values in ((PARTITION, zeros), (OFFSET, places), (TIMESTAMP, places)):
        batch = batch.set_column(batch.schema.get_field_index(name), name, pa.array(values))
    return batch


@pytest.mark.parametrize("call", [c for c in CALLS if not c.startswith(ROUNDED)])
def test_record_by_record_the_last_change_is_the_same(call: str) -> None:
    batches = [_in_one_order(batch, 100 * n) for n, batch in enumerate(BATCHES)]
    by_record = _run(query_of(call, emit="record"), _whole, batches)
    together = _run(query_of(call), _whole, batches)
    assert json.dumps(by_record, sort_keys=True) == json.dumps(together, sort_keys=True)


FINITE = ("(R)", "(I)", "(B)", "(C)", "(T)", "(A)", "(AI)", "(M)", "(S)", "(*)", "(I, E)")


def _bound(call: str) -> tuple[Aggregate, AggregateCall]:
    step = query_of(call).step
    assert isinstance(step, AggregateStep)
    return bind(step.aggregates[0]), step.aggregates[0]


@pytest.mark.parametrize(
    "call", [c for c in CALLS if c.endswith(FINITE) and function_of(_bound(c)[1]).undoable]
)
def test_what_is_taken_back_leaves_no_trace(call: str) -> None:
    """Record after record, as the changes of a table come."""
    bound, made = _bound(call)
    records = BATCHES[0].combine_chunks().to_batches()[0]
    state: Sequence[pa.Array] = [pa.nulls(1, kind) for kind in bound.state]
    for row in range(8):
        one, next_ = ([records[a.ref][n : n + 1] for a in made.args] for n in (row, row + 1))
        kept = bound.merge(state, [p.of(one, 1) for p in bound.partials])
        other = [p.of(next_, 1) for p in bound.partials]
        (left,) = bound.finish(bound.undo(bound.merge(kept, other), other)).to_pylist()
        (expected,) = bound.finish(kept).to_pylist()
        assert left == (pytest.approx(expected, rel=1e-6, abs=1e-6, nan_ok=True)
                        if isinstance(expected, float) else expected)  # fmt: skip
        state = kept


@pytest.mark.parametrize("emit", ["batch", "record"])
@pytest.mark.parametrize("window", ["", *WINDOWS])
def test_a_batch_may_hold_nothing_that_counts(window: str, emit: str) -> None:
    query = query_of(*CALLS, window=window, emit=emit)
    some = BATCHES[0].combine_chunks().to_batches()[0]
    keyless = _with(some, "G", pa.nulls(len(some), pa.string()))
    without_values = _with(some, TOMBSTONE, pa.array([True] * len(some)))
    for batch, count in ((some[:0], 0), (keyless, len(some)), (without_values, 0)):
        changes = processor_of(query).process(packed_table(query, [batch]), NO_TIME, RowsView({}))
        assert (len(changes.keys), changes.records, changes.dropped_null_key) == (0, count, count)


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), name, column)


def _steps() -> list[AggregateStep]:
    steps = [query_of(call).step for call in CALLS]
    return [step for step in steps if isinstance(step, AggregateStep)]


def test_a_function_knows_whether_it_lists_without_making_partials() -> None:
    for step in _steps():
        (call,) = step.aggregates
        foldings = [partial.folding for partial in bind(call).partials]
        assert bool(LISTED & set(foldings)) == function_of(call).listed == in_arrival_order(step)


def test_every_aggregate_is_here() -> None:
    known = {call.function for step in _steps() for call in step.aggregates}
    assert known | YOUNGER == set(names()) - set(registered())


@pytest.mark.parametrize("call", CALLS)
def test_partials_of_no_records_are_of_their_type(call: str) -> None:
    step = query_of(call).step
    assert isinstance(step, AggregateStep)
    (made,) = step.aggregates
    none = [pa.array([], kind.arrow()) for kind in made.arg_types]
    for partial in bind(made).partials:
        assert partial.of(none, 0).equals(pa.array([], partial.type))
        some = [pa.nulls(3, kind.arrow()) for kind in made.arg_types]
        assert (partial.of(some, 3).type, len(partial.of(some, 3))) == (partial.type, 3)
