"""A key that changes when its record is read again is refused, unless it is written down."""

from __future__ import annotations

import re

import pytest

from holdfast import function
from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.sql.functions.catalog import catalog
from holdfast.sql.functions.signatures import Overload
from holdfast.tasks.functions.user import user_functions

SOURCES = """\
CREATE STREAM s (id INT KEY, v BIGINT, d DOUBLE, name STRING)
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM r (id INT KEY, w BIGINT) WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON');
CREATE TABLE t (id STRING PRIMARY KEY, x BIGINT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE u (id STRING PRIMARY KEY, y BIGINT) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
"""
AGAIN = re.compile(r"\b(rand|uuid|now|current_date|current_timestamp)\(\)")


@pytest.fixture(autouse=True)
def _functions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DICE", "FOLDED"):
        monkeypatch.delitem(user_functions(), name, raising=False)
    function("DICE", args=["STRING"], returns="STRING")(lambda x: x)
    function("FOLDED", args=["STRING"], returns="STRING", deterministic=True)(str.lower)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("CREATE TABLE o AS SELECT RANDOM() AS k, COUNT(*) AS n FROM s GROUP BY RANDOM()",
         r"RANDOM\(\).*GROUP BY"),
        ("CREATE TABLE o AS SELECT UUID() AS k, COUNT(*) AS n FROM s GROUP BY UUID()", "UUID"),
        (("CREATE TABLE o AS SELECT UNIX_TIMESTAMP() AS k, COUNT(*) AS n FROM s "
         "GROUP BY UNIX_TIMESTAMP()"), "UNIX_TIMESTAMP"),
        (("CREATE TABLE o AS SELECT id, ABS(UNIX_DATE() - 1) AS k, COUNT(*) AS n FROM s "
         "GROUP BY id, ABS(UNIX_DATE() - 1)"), "UNIX_DATE"),
        (("CREATE TABLE o AS SELECT CASE WHEN v > 1 THEN 'a' ELSE UUID() END AS k, COUNT(*) AS n "
         "FROM s GROUP BY CASE WHEN v > 1 THEN 'a' ELSE UUID() END"), "UUID"),
        ("CREATE TABLE o AS SELECT DICE(name) AS k, COUNT(*) AS n FROM s GROUP BY DICE(name)",
         "DICE.*deterministic=True"),
        (("CREATE STREAM o WITH (DEDUPLICATE_WITHIN='1 HOUR') AS SELECT RANDOM() AS k, v FROM s "
         "PARTITION BY RANDOM()"), "PARTITION BY"),
        ("CREATE STREAM o AS SELECT DICE(s.name), v, x FROM s JOIN t ON DICE(s.name) = t.id",
         "DICE.*JOIN"),
        (("CREATE STREAM o AS SELECT ROWKEY, v, w FROM s JOIN r WITHIN 1 HOUR "
         "ON UNIX_DATE() + s.id = r.id"), "UNIX_DATE.*JOIN"),
        (("CREATE STREAM o AS SELECT ROWKEY, v, w FROM s JOIN r WITHIN 1 HOUR ON s.id = r.id "
         "JOIN t ON DICE(s.name) = t.id"), "DICE.*JOIN"),
        (("CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM s GROUP BY id "
         "HAVING COUNT(*) > 10 * RANDOM()"), "RANDOM.*HAVING"),
        (("CREATE TABLE o AS SELECT t.id, x, y FROM t JOIN u ON t.id = u.id "
         "WHERE x > UNIX_TIMESTAMP()"), "UNIX_TIMESTAMP.*WHERE"),
    ],
)  # fmt: skip
def test_a_key_that_changes_when_it_is_read_again_is_refused(statement: str, told: str) -> None:
    with pytest.raises(InvalidStatement, match=f"(?s){told}") as refused:
        compile_text(SOURCES + statement + ";")
    assert "write the value down first" in str(refused.value)
    assert refused.value.line == 6
    assert statement[(refused.value.column or 0) - 1 :].startswith(
        ("RANDOM(", "UUID(", "UNIX_", "DICE(")
    )


@pytest.mark.parametrize(
    "statement",
    [
        # Without state: a transaction per source partition holds all that a record became.
        "CREATE STREAM o AS SELECT id, v, RANDOM() AS k FROM s",
        "CREATE STREAM o AS SELECT UUID() AS k, v FROM s PARTITION BY UUID()",
        # Written down by a statement before.
        (
            "CREATE STREAM p AS SELECT id, RANDOM() AS k FROM s; "
            "CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM p GROUP BY k"
        ),
        # Written down by a step before: what a table's row was is kept with it.
        "CREATE TABLE o AS SELECT UUID() AS k, COUNT(*) AS n FROM t GROUP BY UUID()",
        "CREATE TABLE o AS SELECT t.id, x, y FROM t JOIN u ON DICE(t.id) = u.id",
        # Decides of a record once, where its key puts it.
        "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM s WHERE RANDOM() < 0.5 GROUP BY id",
        "CREATE TABLE o AS SELECT id, MAX(RANDOM()) AS m FROM s GROUP BY id",
        "CREATE TABLE o AS SELECT id, COUNT(*) + UNIX_DATE() AS m FROM s GROUP BY id",
        (
            "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) "
            "GROUP BY id HAVING COUNT(*) > RANDOM() EMIT FINAL"
        ),
        (
            "CREATE STREAM o AS SELECT s.id, v, w FROM s JOIN r WITHIN 1 HOUR ON s.id = r.id "
            "WHERE v > RANDOM()"
        ),
        "CREATE TABLE o AS SELECT id, x FROM t WHERE x > RANDOM()",
        # Functions of their arguments alone.
        "CREATE TABLE o AS SELECT FOLDED(name) AS k, COUNT(*) AS n FROM s GROUP BY FOLDED(name)",
        (
            "CREATE TABLE o AS SELECT UNIX_DATE(FROM_DAYS(id)) AS k, COUNT(*) AS n FROM s "
            "GROUP BY UNIX_DATE(FROM_DAYS(id))"
        ),
    ],
)
def test_what_is_written_down_or_decides_nothing_is_taken(statement: str) -> None:
    assert compile_text(SOURCES + statement + ";").queries


def _texts(overload: Overload) -> str:
    return f"{overload.spark} {overload.duckdb}"


def test_the_catalogue_says_it_of_every_function_whose_text_reads_a_clock_or_a_die() -> None:
    overloads = [o for of_name in catalog().values() for o in of_name]
    named = {o.signature for o in overloads if not o.deterministic}
    assert named == {"RANDOM()", "UUID()", "UNIX_TIMESTAMP()", "UNIX_DATE()"}
    assert named == {o.signature for o in overloads if AGAIN.search(_texts(o))}
