from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.serve import plain_http as plain
from tests.support.serve.http_world import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("http")) as found:
        yield found


def _ksql(server: Served, text: str) -> Any:
    return plain.post(f"{server.url}/ksql", json={"ksql": text, "streamsProperties": {}}).json()


def test_several_statements_give_an_entity_each(server: Served) -> None:
    found = _ksql(server, "SHOW TABLES; LIST STREAMS;\nSHOW QUERIES;")
    assert [e["@type"] for e in found] == ["tables", "streams", "queries"]
    assert found[0]["statementText"] == "SHOW TABLES;"
    assert [t["name"] for t in found[0]["tables"]] == [
        "CUSTOMERS", "PER_CITY", "PER_CUSTOMER", "PER_PRODUCT_MINUTE",
    ]  # fmt: skip
    assert [t["isWindowed"] for t in found[0]["tables"]] == [False, False, False, True]
    assert [s["name"] for s in found[1]["streams"]] == ["LARGE_ORDERS", "ORDERS", "PLACED"]
    query = found[2]["queries"][0]
    assert (query["id"], query["sinks"], query["state"]) == (
        "CTAS_PER_CUSTOMER",
        ["PER_CUSTOMER"],
        "RUNNING",
    )


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("SHOW TABLES EXTENDED;", "source_descriptions", "sourceDescriptions"),
        ("DESCRIBE TABLES;", "source_descriptions", "sourceDescriptions"),
        ("SHOW FUNCTIONS;", "function_names", "functions"),
        ("SHOW PROPERTIES;", "properties", "properties"),
        ("SHOW TOPICS;", "kafka_topics", "topics"),
        ("SHOW TYPES;", "type_list", "types"),
        ("SHOW VARIABLES;", "variables", "variables"),
        ("DESCRIBE FUNCTION SUM;", "describe_function", "functions"),
    ],
)
def test_what_there_is(server: Served, text: str, kind: str, name: str) -> None:
    (found,) = _ksql(server, text)
    assert found["@type"] == kind
    assert found[name] or kind in ("type_list", "variables")


def test_a_table_is_described_as_ksqldb_does(server: Served) -> None:
    (found,) = _ksql(server, "DESCRIBE PER_PRODUCT_MINUTE EXTENDED;")
    described = found["sourceDescription"]
    assert described["windowType"] == "TUMBLING"
    assert described["fields"][0] == {
        "name": "PRODUCT",
        "schema": {"type": "STRING", "fields": None, "memberSchema": None},
        "type": "KEY",
    }
    assert [f["name"] for f in described["fields"]] == ["PRODUCT", "ORDERS", "TOTAL"]
    assert [q["id"] for q in described["writeQueries"]] == ["CTAS_PER_PRODUCT_MINUTE"]
    (orders,) = _ksql(server, "DESCRIBE ORDERS;")
    readers = {q["id"] for q in orders["sourceDescription"]["readQueries"]}
    assert readers >= {"CTAS_PER_CUSTOMER", "CSAS_PLACED"}


def test_queries_and_statements_are_explained(server: Served) -> None:
    (found,) = _ksql(server, "EXPLAIN CTAS_PER_CITY;")
    described = found["queryDescription"]
    assert (described["id"], described["sinks"]) == ("CTAS_PER_CITY", ["PER_CITY"])
    assert "PER_CITY" in described["topology"]
    (plan,) = _ksql(
        server, "EXPLAIN CREATE TABLE x AS SELECT city, COUNT(*) FROM placed GROUP BY city;"
    )
    assert "ctas_x" in plan["executionPlan"].lower()
    (read,) = _ksql(server, "EXPLAIN SELECT * FROM PER_CITY WHERE CITY = 'x';")
    assert "ctas_per_city" in read["executionPlan"]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("CREATE STREAM X (A INT) WITH (KAFKA_TOPIC='x');", 40001, "holdfast deploy"),
        ("DROP TABLE PER_CITY;", 40001, "query servers only read"),
        ("INSERT INTO ORDERS (CUSTOMER) VALUES ('a');", 40001, "Kafka producer"),
        ("TERMINATE CTAS_PER_CITY;", 40001, "query servers only read"),
        ("PAUSE ALL;", 40001, "holdfast sql"),
        ("SELECT * FROM PER_CITY;", 40002, "/query-stream"),
        ("PRINT 'x';", 40002, "holdfast sql"),
        ("DESCRIBE NOTHING;", 40001, "NOTHING"),
        ("DESCRIBE FUNCTION NOTHING;", 40001, "NOTHING"),
        ("EXPLAIN NOTHING;", 40001, "nothing"),
        ("SHOW;", 40001, "SHOW"),
        ("SHOW TABLES; FOO;", 40001, "FOO"),
    ],
)  # fmt: skip
def test_what_is_not_done_here_says_where_it_is(
    server: Served, text: str, code: int, words: str
) -> None:
    found = _ksql(server, text)
    assert (found["@type"], found["error_code"]) == ("statement_error", code)
    assert words in found["message"] + found["statementText"]


def test_settings_of_a_session_are_taken_and_do_nothing(server: Served) -> None:
    assert _ksql(server, "SET 'auto.offset.reset'='earliest'; DEFINE x = 'PER_CITY';") == []
    (found,) = _ksql(server, "DEFINE x = 'PER_CITY'; DESCRIBE ${x};")
    assert found["sourceDescription"]["name"] == "PER_CITY"
