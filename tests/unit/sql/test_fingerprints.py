"""Statements keep the fingerprints and facts of their plans: their tables go on.

`planned_fingerprints.json` was made by the planner of f3426f7, before expressions were values: of
each example, and of each case of `tests/sql_cases` that has a query.  For each query it has the
fingerprint and a hash of the facts.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from holdfast.sql import compile_text
from holdfast.sql.parse.text import Place
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.topology import (
    AggregateStep,
    JoinForm,
    JoinStep,
    ProjectStep,
    Step,
    Topology,
)
from holdfast.types.statements.topology import WindowKind as Kind

_ROOT = Path(__file__).parents[3]
_CASES: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("planned_fingerprints.json").read_text()
)


def _topology(case: dict[str, Any]) -> Topology:
    text = case.get("sql") or (_ROOT / case["name"]).read_text()
    return compile_text(text, place=Place.TEST)


@pytest.mark.parametrize("case", _CASES, ids=[case["name"] for case in _CASES])
def test_fingerprints_and_facts_are_kept(case: dict[str, Any]) -> None:
    made = {q.id: q for q in _topology(case).queries}
    facts = {name: statement_facts(query).encode() for name, query in made.items()}
    found = {
        name: [query.fingerprint(), hashlib.sha256(facts[name]).hexdigest()[:16]]
        for name, query in made.items()
    }
    assert found == case["queries"]


def test_a_plan_is_the_same_in_another_process() -> None:
    for case in _CASES:
        made = _topology(case)
        assert pickle.loads(pickle.dumps(made)) == made


def _kinds(step: Step) -> set[object]:
    found: set[object] = {type(step).__name__}
    if isinstance(step, AggregateStep):
        found.add(step.window and step.window.kind)
        found.add("undo" if step.undo else "stream")
    if isinstance(step, JoinStep):
        found.add(step.form)
    if isinstance(step, ProjectStep) and step.explode:
        found.add("explode")
    return found


def test_every_kind_of_step_is_there() -> None:
    queries = [query for case in _CASES for query in _topology(case).queries]
    found = {kind for query in queries for kind in _kinds(query.step)}
    assert len(queries) > 50
    assert found >= {
        "AggregateStep", "ProjectStep", "JoinStep", "ChangesStep", "TableStep", "SubscribeStep",
        "ResolveStep", "DeduplicateStep", "undo", "explode", None, *Kind, *JoinForm,
    }  # fmt: skip
    statements = " ".join(query.statement for query in queries)
    assert {"PARTITION BY", "TRANSFORM(", "HAVING", "CASE WHEN"} <= {
        word for word in ("PARTITION BY", "TRANSFORM(", "HAVING", "CASE WHEN") if word in statements
    }


def test_every_example_is_there() -> None:
    examples = {f"jobs/examples/{path.name}" for path in (_ROOT / "jobs/examples").glob("*.sql")}
    assert examples <= {case["name"] for case in _CASES}
