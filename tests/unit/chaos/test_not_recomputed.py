"""What the judge cannot recompute is unknown, with the reason; never a wrong verdict."""

from __future__ import annotations

import pytest

from holdfast.chaos.statement import Untranslatable
from holdfast.chaos.translate import translate
from holdfast.sql import compile_text

SOURCES = """
CREATE STREAM visits (who VARCHAR KEY, page VARCHAR)
  WITH (KAFKA_TOPIC = 'visits', VALUE_FORMAT = 'JSON', PARTITIONS = 1);
CREATE TABLE people (who VARCHAR PRIMARY KEY, city VARCHAR)
  WITH (KAFKA_TOPIC = 'people', VALUE_FORMAT = 'JSON', PARTITIONS = 1);
"""

HOURLY = "SELECT who, COUNT(*) AS n FROM visits WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY who"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT who, COUNT(*) AS n FROM visits WINDOW SESSION (1 HOUR) GROUP BY who", "SESSION"),
        (f"{HOURLY} EMIT FINAL", "EMIT FINAL"),
        ("SELECT city, COUNT(*) AS n FROM people GROUP BY city", "several steps"),
    ],
)
def test_tables(statement: str, reason: str) -> None:
    emit = "" if "EMIT" in statement else "EMIT CHANGES"
    query = compile_text(f"{SOURCES} CREATE TABLE t AS {statement} {emit};").queries[0]
    with pytest.raises(Untranslatable, match=reason):
        translate(query, [0])


def test_joins() -> None:
    select = "SELECT visits.who, page, city FROM visits JOIN people ON visits.who = people.who"
    query = compile_text(f"{SOURCES} CREATE STREAM s AS {select} EMIT CHANGES;").queries[0]
    with pytest.raises(Untranslatable, match="joins"):
        translate(query, [0])
