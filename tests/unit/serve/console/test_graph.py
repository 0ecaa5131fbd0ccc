from __future__ import annotations

from holdfast.serve.console.graph import Graph, Node, graph_of
from holdfast.sql.plan.topology import compile_text
from tests.support.console.world import SCRIPT

SOURCES = """
CREATE STREAM o (id INT KEY, cust VARCHAR, amount BIGINT)
  WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE STREAM p (id INT KEY, ok BOOLEAN) WITH (KAFKA_TOPIC='p', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE c (cust VARCHAR PRIMARY KEY, city VARCHAR)
  WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE small (cust VARCHAR PRIMARY KEY, city VARCHAR)
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1, BROADCAST=TRUE);
"""


def drawn(statement: str) -> Graph:
    queries = compile_text(SOURCES + statement).queries
    return graph_of(queries, {q.id: f"{q.id}-changelog" for q in queries if q.stateful})


def way(graph: Graph, name: str) -> list[str]:
    """Titles from the first source to the relation, walking back along the first edge of each."""
    nodes = {n.id: n for n in graph.nodes}
    place, found = f"relation:{name}", [name]
    while before := [e.source for e in graph.edges if e.target == place]:
        place = before[0]
        found.append(nodes[place].title)
    return found[::-1]


def the(graph: Graph, kind: str) -> Node:
    return next(n for n in graph.nodes if n.kind == kind)


def test_an_aggregate_goes_from_its_source_through_where_and_having_to_its_table() -> None:
    graph = drawn(
        "CREATE TABLE t AS SELECT cust, COUNT(*) AS n, SUM(amount) AS s FROM o WHERE amount > 5 "
        "GROUP BY cust HAVING SUM(amount) > 2 EMIT CHANGES;"
    )
    assert way(graph, "T") == ["O", "WHERE", "GROUP BY", "HAVING", "T"]
    assert the(graph, "filter").text == "AMOUNT > 5"
    assert the(graph, "having").text == "SUM(AMOUNT) > 2"
    group = the(graph, "group")
    assert group.changelog == "ctas_t-changelog"
    assert dict(group.facts)["aggregates"] == "COUNT(*); SUM(AMOUNT)"


def test_only_what_is_shuffled_says_so() -> None:
    graph = drawn("CREATE TABLE t AS SELECT cust, COUNT(*) AS n FROM o GROUP BY cust EMIT CHANGES;")
    assert {(e.target, e.label) for e in graph.edges} == {
        ("ctas_t:step", "by key"),
        ("relation:T", ""),
    }


def test_a_broadcast_table_is_what_is_sent_everywhere() -> None:
    graph = drawn(
        "CREATE STREAM j AS SELECT o.cust AS cust, s.city AS city FROM o "
        "JOIN small s ON o.cust = s.cust EMIT CHANGES;"
    )
    labels = {e.source: e.label for e in graph.edges if e.target == "csas_j:step"}
    assert labels == {"relation:O": "", "relation:SMALL": "broadcast"}


def test_a_statement_of_several_queries_is_one_chain() -> None:
    graph = drawn(
        "CREATE TABLE t AS SELECT city, COUNT(*) AS n FROM o JOIN p WITHIN 1 HOUR ON o.id = p.id "
        "JOIN c ON o.cust = c.cust GROUP BY city EMIT CHANGES;"
    )
    kinds = [n.kind for n in graph.nodes]
    assert kinds.count("internal") == 2
    assert kinds.count("join") == 2
    titles = way(graph, "T")
    assert titles[0] == "O"
    assert titles[-2:] == ["GROUP BY", "T"]
    assert len(titles) == 7  # O, join, internal, join, internal, GROUP BY, T


def test_queries_share_the_streams_that_they_read() -> None:
    graph = graph_of(compile_text(SCRIPT).queries, {})
    ids = [n.id for n in graph.nodes]
    assert len(ids) == len(set(ids))
    assert ids.count("relation:ORDERS") == 1
    assert ids.count("relation:PLACED") == 1  # written by one query, read by another
    ends = {e.source for e in graph.edges} | {e.target for e in graph.edges}
    assert ends == set(ids), "every box is at an arrow's end"


def test_a_condition_keeps_what_cannot_be_said_shorter() -> None:
    graph = drawn("CREATE STREAM x AS SELECT * FROM o WHERE (amount > 1) AND (cust = 'a) b');")
    text = the(graph, "filter").text
    assert text.startswith("(AMOUNT > 1) AND")
    assert "'a) b'" in text
