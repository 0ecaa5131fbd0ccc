"""The judge makes of the SQL cases' records what ksqlDB makes of them.

The cases are those of `tests/sql_cases`, which the engine has to pass; here none of it runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast.judge.read.arrivals import Batches
from holdfast.judge.read.decode import SinkDecoder
from holdfast.judge.read.observe import Record
from holdfast.judge.recompute.rebuild import rebuilt_stream, rebuilt_table
from holdfast.judge.statement.units import Unit, units
from holdfast.judge.values import Key, Match, Row, Untranslatable, same
from holdfast.sql import compile_text
from holdfast.testing.bytes_of import TopicCodec
from holdfast.testing.cases import Case, Spec
from holdfast.testing.files import cases_at
from holdfast.testing.run import with_properties
from holdfast.types.statements.topology import WindowKind
from tests.unit.judge.rebuilding import facts_of

CASES = Path(__file__).parents[2] / "sql_cases"
# The file, and how many of its statements the judge has to know.
FILES = {
    "as_ksqldb/both_answers.json": 9,
    "joins/streams.json": 9,
    "joins/tables.json": 5,
    "joins/broadcast.json": 1,
    "joins/carried.json": 2,
    "joins/several.json": 3,
    "tables/aggregated.json": 2,
    "tables/rows.json": 3,
    "windows/final_results.json": 2,
    "windows/sessions.json": 2,
    "streams/deduplicate.json": 1,
    "keys/partition_by.json": 4,
}


@pytest.mark.parametrize("name", FILES)
def test_of_a_file(name: str) -> None:
    judged = 0
    for case in cases_at(CASES / name):
        for unit in _units(case):
            try:
                _agree(unit, case)
            except Untranslatable:
                continue
            judged += 1
    assert judged >= FILES[name]


def _units(case: Case) -> Iterator[Unit]:
    """The statements that read what the case pipes in."""
    if case.refusal is not None:
        return
    found = list(units(compile_text(with_properties(case))))
    made = {unit.sink.topic for unit in found}
    for unit in found:
        sources = {s.topic for q in unit.queries for s in q.sources}
        if not sources & made and len(unit.statements) == 1:
            yield unit


def _agree(unit: Unit, case: Case) -> None:
    unit.refuse_strange()
    records, batches = _piped(unit, case)
    facts = facts_of(unit, records, batches, None)
    sink = unit.sink
    decoder = SinkDecoder(
        sink.key_columns,
        sink.value_columns,
        (sink.key_format, sink.value_format),
        windowed=sink.window is not None,
        sessions=sink.window is WindowKind.SESSION,
    )
    outputs = [TopicCodec(sink).encode(o) for o in case.outputs if o.topic == sink.topic]
    written = [(decoder.full_key(o.key), decoder.row(o.value)) for o in outputs]
    if sink.kind == "TABLE":
        made = rebuilt_table(facts)
        _same_table(written, made.rows, made.matches)
    else:
        width, names = len(sink.key_columns), [c.name for c in sink.value_columns]
        expected = [(*key[:width], *((row or {}).get(n) for n in names)) for key, row in written]
        found = [key for _, key in rebuilt_stream(facts).ranked]
        assert Counter(map(_text, found)) == Counter(map(_text, expected)), case.name


def _same_table(
    written: Sequence[tuple[Key, Row | None]],
    rows: Mapping[Key, Row],
    matches: Mapping[str, Match],
) -> None:
    expected: dict[Key, Row] = {}
    for key, row in written:
        expected.pop(key, None)
        if row is not None:
            expected[key] = row
    assert rows.keys() == expected.keys()
    for key, row in rows.items():
        for column, value in row.items():
            match = matches.get(column, Match.EXACT)
            assert same(value, expected[key].get(column), match), (key, column)


def _piped(unit: Unit, case: Case) -> tuple[dict[str, list[Record]], Batches]:
    """The case's records by topic, each in a batch of its own: so their order is known."""
    sources = {s.topic: s for s in unit.named.values()}
    topics = {s.topic for q in unit.queries for s in q.sources if s.topic in sources}
    records: defaultdict[str, list[Record]] = defaultdict(list)
    batches = Batches()
    for spec in case.inputs:
        if spec.topic in topics:
            before = {topic: len(records[topic]) for topic in topics}
            records[spec.topic].append(_record(sources[spec.topic], spec, before[spec.topic]))
            batches.add(0, _marker(before, {topic: len(records[topic]) for topic in topics}))
    return {topic: records[topic] for topic in topics}, batches


def _record(source: Any, spec: Spec, offset: int) -> Record:
    raw = TopicCodec(source).encode(spec)
    return Record(0, offset, raw.key, raw.value, raw.timestamp)


def _marker(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, Any]:
    first, *others = (
        {"topic": topic, "start": [[0, at]], "end": [[0, after[topic]]]}
        for topic, at in before.items()
    )
    return {"source": {**first, "others": others}}


def _text(key: Key) -> bytes:
    return orjson.dumps(key, default=float)
