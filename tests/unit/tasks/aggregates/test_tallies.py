"""ATTR, which forgets its values once two differ: that two differed is never forgotten."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from holdfast.tasks.aggregates.base import Aggregate
from holdfast.tasks.aggregates.registry import bind
from holdfast.types.statements.topology import AggregateStep
from tests.support.values.special_values import aggregated


@pytest.fixture
def attr() -> Aggregate:
    step = aggregated(("ATTR(t)",), "WINDOW SESSION (5 MILLISECONDS)").step
    assert isinstance(step, AggregateStep)
    return bind(step.aggregates[0]).without_undo()


def _state(attr: Aggregate, values: list[str | None]) -> tuple[pa.Array, ...]:
    type_ = attr.partials[0].type
    return attr.merge([pa.nulls(1, attr.state[0])], [pa.array([values], type_)])


def test_two_sessions_become_one_whatever_they_remember(attr: Aggregate) -> None:
    sessions: list[list[str | None]] = [
        [],
        ["a"],
        ["a", "a"],
        ["b"],
        [None],
        ["a", "b"],
        [None, "b"],
    ]
    for first, second in itertools.product(sessions, repeat=2):
        values = {*first, *second}
        (only,) = values if len(values) == 1 else (None,)
        made = attr.combine(_state(attr, first), _state(attr, second))
        assert attr.finish(made).to_pylist() == [only], (first, second)
        later = attr.merge(made, _state_partial(attr, [only]))
        assert attr.finish(later).to_pylist() == [only if values <= {only} else None]


def _state_partial(attr: Aggregate, values: list[str | None]) -> tuple[pa.Array, ...]:
    return (pa.array([values], attr.partials[0].type),)
