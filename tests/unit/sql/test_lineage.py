"""From which columns of which topics each column of a result comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.sql import Lineage, compile_text, lineage
from tests.support.doc_commands import ROOT

DECLARED = """
CREATE STREAM s (
    id INT KEY, a STRING, b DOUBLE, st STRUCT<x INT>, tags ARRAY<STRING>, ts BIGINT
) WITH (KAFKA_TOPIC='s-in', PARTITIONS=1, VALUE_FORMAT='JSON', TIMESTAMP='ts');
CREATE TABLE t (id INT PRIMARY KEY, name STRING, boss INT)
    WITH (KAFKA_TOPIC='t-in', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE u (id INT PRIMARY KEY, title STRING)
    WITH (KAFKA_TOPIC='u-in', PARTITIONS=1, VALUE_FORMAT='JSON');
"""
EXAMPLES = sorted((ROOT / "jobs" / "examples").glob("*.sql"))


def _of(text: str) -> Lineage:
    """The lineage of the last statement."""
    return lineage(compile_text(DECLARED + text))[-1]


def _origins(found: Lineage) -> dict[str, list[str]]:
    """Each column's origins, as `topic.COLUMN KIND`."""
    return {
        column.name: [f"{o.topic}.{o.column} {o.kind}" for o in column.origins]
        for column in found.output.columns
    }


def _rows(found: Lineage) -> list[str]:
    return [f"{origin.topic}.{origin.column} {origin.kind}" for origin in found.rows]


def test_an_aggregation() -> None:
    found = _of(
        "CREATE TABLE g AS SELECT a, COUNT(*) AS n, SUM(b) / 2 AS half, MAX(ROWTIME) AS last FROM s"
        " WINDOW TUMBLING (SIZE 1 HOUR) WHERE id > 3 GROUP BY a HAVING SUM(b) > 1;"
    )
    assert _origins(found) == {
        "A": ["s-in.A IDENTITY"],
        "N": [],
        "HALF": ["s-in.B AGGREGATION"],
        "LAST": ["s-in.TS AGGREGATION"],
    }
    assert _rows(found) == [
        "s-in.ID FILTER", "s-in.A GROUP_BY", "s-in.B FILTER", "s-in.TS WINDOW",
    ]  # fmt: skip
    assert [(i.name, i.kind, i.topic) for i in found.inputs] == [("S", "STREAM", "s-in")]
    assert (found.output.name, found.output.topic) == ("G", "G")


def test_a_projection_with_a_table_function_and_a_new_key() -> None:
    found = _of(
        "CREATE STREAM p AS SELECT a, EXPLODE(tags) AS tag, st->x + id AS sum, 1 AS one FROM s"
        " PARTITION BY a;"
    )
    assert _origins(found) == {
        "A": ["s-in.A IDENTITY"],
        "TAG": ["s-in.TAGS TRANSFORMATION"],
        "SUM": ["s-in.ST TRANSFORMATION", "s-in.ID TRANSFORMATION"],
        "ONE": [],
    }
    assert _rows(found) == []


def test_a_join_of_three_is_one_statement_from_topics_that_were_declared() -> None:
    found = _of(
        "CREATE STREAM j AS SELECT s.id AS sid, UCASE(t.name) AS nm, u.title FROM s"
        " JOIN t ON s.id = t.id LEFT JOIN u ON s.id = u.id WHERE s.a <> 'x';"
    )
    assert [relation.topic for relation in found.inputs] == ["s-in", "t-in", "u-in"]
    assert _origins(found) == {
        "SID": ["s-in.ID IDENTITY"],
        "NM": ["t-in.NAME TRANSFORMATION"],
        "TITLE": ["u-in.TITLE IDENTITY"],
    }
    assert _rows(found) == [
        "s-in.ID JOIN", "t-in.ID JOIN", "u-in.ID JOIN", "s-in.A FILTER",
    ]  # fmt: skip


def test_the_key_of_a_full_join_is_that_of_either_side() -> None:
    found = _of(
        "CREATE TABLE f AS SELECT ROWKEY AS k, t.name, u.title FROM t"
        " FULL OUTER JOIN u ON t.id = u.id;"
    )
    assert _origins(found)["K"] == ["t-in.ID IDENTITY", "u-in.ID IDENTITY"]


def test_a_foreign_key_join_and_an_aggregate_over_its_table() -> None:
    join = "CREATE TABLE fk AS SELECT t.id, t.name, u.title FROM t JOIN u ON t.boss = u.id;"
    found = _of(join)
    assert _origins(found) == {
        "T_ID": ["t-in.ID IDENTITY"],
        "NAME": ["t-in.NAME IDENTITY"],
        "TITLE": ["u-in.TITLE IDENTITY"],
    }
    assert _rows(found) == ["t-in.BOSS JOIN", "u-in.ID JOIN"]
    # The table is a topic of its own, of which the next statement tells.
    over = _of(join + "CREATE TABLE n AS SELECT title, SUM(t_id) AS ids FROM fk GROUP BY title;")
    assert _origins(over) == {"TITLE": ["FK.TITLE IDENTITY"], "IDS": ["FK.T_ID AGGREGATION"]}
    assert [relation.topic for relation in over.inputs] == ["FK"]


def test_a_filtered_table() -> None:
    found = _of("CREATE TABLE v AS SELECT id, name + '!' AS loud FROM t WHERE boss > 3;")
    assert _origins(found) == {"ID": ["t-in.ID IDENTITY"], "LOUD": ["t-in.NAME TRANSFORMATION"]}
    assert _rows(found) == ["t-in.BOSS FILTER"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_origin_is_a_column_of_an_input(path: Path) -> None:
    found = lineage(compile_text(path.read_text(encoding="utf-8")))
    assert found
    for each in found:
        known = {(relation.topic, c.name) for relation in each.inputs for c in relation.columns}
        of_columns = [origin for column in each.output.columns for origin in column.origins]
        assert {(origin.topic, origin.column) for origin in (*of_columns, *each.rows)} <= known
        assert of_columns, each.query
