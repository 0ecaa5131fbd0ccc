"""A field that may change keeps the rows that are there: shown by a run of the real processors.

The first batches are the old statement's, the rest the new one's, over the same store; the table
is then what the new statement makes of all of them.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from holdfast.sql.plan.topology import compile_text
from holdfast.types.statements.topology import Query
from tests.simulation.jobs.kinds import BATCHES, sent
from tests.simulation.test_kinds import Run
from tests.unit.tasks.processors.kept_fields import KEPT_FIELDS

_RECORDS = [sent(batch) for batch in range(BATCHES)]


def _table(patch: pytest.MonkeyPatch, by_batch: list[Query]) -> dict[Any, Any]:
    """The sink's final table; checks that the last changelog equals the store's rows."""
    topics = {s.topic for query in by_batch for s in query.sources}
    run = Run(patch, by_batch[0], {t: [records[t] for records in _RECORDS] for t in topics})
    for number, query in enumerate(by_batch):
        if number and query is not by_batch[number - 1]:
            run.becomes(query)
        run.apply(number)
    assert run.rows() == run.changelog()
    table = {r.key: r.value for r in run.results()}
    return {key: value for key, value in table.items() if value is not None}


@pytest.mark.parametrize("place", KEPT_FIELDS, ids=".".join)
def test_the_table_is_what_the_new_statement_makes_of_everything(place: tuple[str, str]) -> None:
    before, after = (compile_text(text).queries[-1] for text in KEPT_FIELDS[place])
    allowed = {place, ("Sink", place[1]), ("Query", "statement")}  # a sink inherits them
    assert place in _differing(before, after) <= allowed
    assert before != after
    for switch in range(1, BATCHES):
        with pytest.MonkeyPatch.context() as patch:
            changed = _table(patch, [before] * switch + [after] * (BATCHES - switch))
        with pytest.MonkeyPatch.context() as patch:
            assert changed == _table(patch, [after] * BATCHES)
        assert len(changed) > 3


def _differing(before: Any, after: Any) -> set[tuple[str, str]]:
    """Which fields are not the same: those of the innermost parts that differ."""
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return {place for one, other in pairs for place in _differing(one, other)}
    found = set()
    for field in fields(before) if is_dataclass(before) else ():
        one, other = getattr(before, field.name), getattr(after, field.name)
        if one == other:
            continue
        inner = _differing(one, other) if is_dataclass(one) and is_dataclass(other) else set()
        found |= inner or {(type(before).__name__, field.name)}
    return found
