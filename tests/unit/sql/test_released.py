"""Statements have the fingerprints that the release 7611cce gave them: their tables go on.

`released_fingerprints.json` was made by that release's planner: its examples, its cases of
functions as statements with state, and what is rendered otherwise since, in every clause.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.sql import compile_text
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.topology import AggregateStep, Query

_ROOT = Path(__file__).parents[3]
_CASES: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("released_fingerprints.json").read_text()
)
# Whose rows may be others now, and why.
_OTHER = {
    r"delimiter \E: SPLIT(t, '\E')[1]": "Spark took what followed \\E for a regular expression",
    r"delimiter \E: SPLIT_TO_MAP(t, '\E', '=')['a']": "the same",
    "one aggregate that is two now": "the state has another column",
}
_SOURCE = "CREATE STREAM s (k STRING KEY, t STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');\n"


def _queries(case: dict[str, Any]) -> dict[str, Query]:
    text = case.get("sql") or (_ROOT / case["name"]).read_text()
    return {query.id: query for query in compile_text(text).queries}


@pytest.mark.parametrize("case", _CASES, ids=[case["name"] for case in _CASES])
def test_fingerprints_are_those_of_the_release(case: dict[str, Any]) -> None:
    queries = _queries(case)
    found = {name: queries[name].fingerprint() for name in case["fingerprints"]}
    assert (found == case["fingerprints"]) == (case["name"] not in _OTHER)


def test_every_example_is_there() -> None:
    examples = {f"jobs/examples/{path.name}" for path in (_ROOT / "jobs/examples").glob("*.sql")}
    assert examples <= {case["name"] for case in _CASES}


def _one(select: str) -> Query:
    return compile_text(_SOURCE + select).queries[0]


def test_engines_get_the_text_of_today() -> None:
    query = _one("CREATE TABLE o AS SELECT k, MAX(REGEXP_EXTRACT('a+', t)) FROM s GROUP BY k;")
    assert isinstance(query.step, AggregateStep)
    assert query.step.aggregates[0].args[0].sql.startswith("hf_regexp_extract__sss(")
    assert "RLIKE" in query.canonical()


def test_another_pattern_is_another_statement() -> None:
    one, other = (
        _one(f"CREATE TABLE o AS SELECT k, COUNT(*) FROM s WHERE t LIKE '{like}' GROUP BY k;")
        for like in ("%a_", "%b_")
    )
    assert one.fingerprint() != other.fingerprint()


def test_facts_keep_the_texts_of_the_release() -> None:
    query = _one("CREATE STREAM o AS SELECT k, REPLACE(t, 'a', 'bb') AS r FROM s;")
    assert "replace(`T`, 'a', 'bb')" in statement_facts(query)


def test_groups_that_were_one_text_before_are_planned() -> None:
    pattern = "REGEXP_EXTRACT('a', t), REGEXP_EXTRACT('a', t, 0)"
    query = _one(
        f"CREATE TABLE o WITH (KEY_FORMAT='JSON') AS SELECT {pattern}, COUNT(*) FROM s "
        f"GROUP BY {pattern};"
    )
    assert isinstance(query.step, AggregateStep)
    assert len(query.step.keys) == len({key.sql for key in query.step.keys}) == 2


def test_statements_after_others_keep_the_others_texts() -> None:
    first = compile_text(
        _SOURCE + "CREATE STREAM o AS SELECT k, REPLACE(t, 'a', 'bb') AS r FROM s;"
    )
    both = compile_text("CREATE STREAM p AS SELECT k, r FROM o WHERE r LIKE '%a_';", after=first)
    assert both.queries[0] == first.queries[0]
    assert both.queries[1].filter is not None
    assert both.queries[1].filter.released
