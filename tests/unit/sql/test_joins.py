"""Joins: what joins what, names and keys of the result, and the queries a statement becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.types.columns.schema import BIGINT, INTEGER, STRING, Column
from holdfast.types.statements.topology import (
    AggregateStep,
    ChangesStep,
    Format,
    JoinForm,
    JoinKind,
    JoinStep,
    JoinWindow,
    ProjectStep,
    Query,
    ResolveStep,
    SubscribeStep,
    WindowKind,
)

SOURCES = """\
CREATE STREAM orders (id INT KEY, item STRING, qty INT) WITH (KAFKA_TOPIC='o', FORMAT='JSON');
CREATE STREAM paid (id INT KEY, sum BIGINT) WITH (KAFKA_TOPIC='p', VALUE_FORMAT='JSON');
CREATE STREAM sent (ref BIGINT KEY, way STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE items (item STRING PRIMARY KEY, price INT, maker INT)
  WITH (KAFKA_TOPIC='i', VALUE_FORMAT='JSON');
CREATE TABLE stock (item STRING PRIMARY KEY, there INT) WITH (KAFKA_TOPIC='k', VALUE_FORMAT='JSON');
CREATE TABLE makers (id INT PRIMARY KEY, land STRING) WITH (KAFKA_TOPIC='m', VALUE_FORMAT='JSON');
CREATE STREAM w1 (id INT KEY, v INT)
  WITH (KAFKA_TOPIC='w1', VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 MINUTE');
CREATE STREAM w2 (id INT KEY, v INT)
  WITH (KAFKA_TOPIC='w2', VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 MINUTE');
"""
IN_TIME = "WITHIN 1 MINUTE"


def queries(kind: str, select: str) -> tuple[Query, ...]:
    return compile_text(f"{SOURCES}CREATE {kind} result AS {select};").queries


def join_of(query: Query) -> JoinStep:
    assert isinstance(query.step, JoinStep)
    return query.step


def shape(query: Query) -> tuple[list[str], list[str]]:
    sink = query.sink
    return [c.name for c in sink.key_columns], [c.name for c in sink.value_columns]


def test_a_stream_stream_join_is_one_query() -> None:
    (query,) = queries(
        "STREAM",
        "SELECT o.id, item, p.sum + 1 AS more FROM orders o LEFT JOIN paid p "
        "WITHIN (1 SECOND, 2 SECONDS) GRACE PERIOD 3 SECONDS ON o.id = p.id WHERE p.sum > 5",
    )
    step = join_of(query)
    assert (step.form, step.kind) == (JoinForm.STREAM_STREAM, JoinKind.LEFT)
    assert step.window == JoinWindow(1000, 2000, 3000)
    assert shape(query) == (["O_ID"], ["ITEM", "MORE"])
    assert query.sink.key_format is Format.JSON
    assert [c.column.name for c in step.left.columns] == ["O_ITEM"]
    assert [c.column.name for c in step.right.columns] == ["P_SUM"]
    assert str(step.filter) == 'TRY(("P_SUM" > CAST(5 AS BIGINT)))'
    assert [k.ref for k in step.keys] == ["__KEY"]


def test_a_literal_that_looks_like_a_column_carries_none() -> None:
    select = "SELECT p.id, item, '\"O_QTY\"' AS text FROM orders o JOIN paid p"
    (query,) = queries("STREAM", f"{select} {IN_TIME} ON o.qty = p.id")
    assert [c.name for c in join_of(query).left.columns] == ["O_ITEM"]


@pytest.mark.parametrize(
    ("select", "keys", "values"),
    [
        (f"SELECT * FROM orders o JOIN paid p {IN_TIME} ON o.id = p.id",
         ["O_ID"], ["O_ITEM", "O_QTY", "P_ID", "P_SUM"]),
        (f"SELECT p.*, qty FROM orders o JOIN paid p {IN_TIME} ON o.id = p.id",
         ["P_ID"], ["P_SUM", "QTY"]),
        (f"SELECT o.id AS k, sum FROM orders o JOIN paid p {IN_TIME} ON p.id = o.id",
         ["K"], ["SUM"]),
        (f"SELECT orders.id, paid.id, sum FROM orders JOIN paid {IN_TIME} ON orders.id = paid.id",
         ["ORDERS_ID"], ["PAID_ID", "SUM"]),
        (f"SELECT rowkey, sum FROM orders o FULL JOIN paid p {IN_TIME} ON o.id = p.id",
         ["ROWKEY"], ["SUM"]),
        (f"SELECT rowkey AS r, sum FROM orders o JOIN paid p {IN_TIME} ON ABS(o.id) = ABS(p.id)",
         ["R"], ["SUM"]),
        (f"SELECT ref, qty FROM orders JOIN sent {IN_TIME} ON id + 1 = ref", ["REF"], ["QTY"]),
        (f"SELECT o.id, o.rowtime, qty FROM orders o JOIN paid p {IN_TIME} ON o.id = p.id",
         ["O_ID"], ["O_ROWTIME", "QTY"]),
        ("SELECT o.item, price FROM orders o JOIN items i ON o.item = i.item",
         ["O_ITEM"], ["PRICE"]),
        (f"SELECT w1.id, w1.v, w2.v FROM w1 JOIN w2 {IN_TIME} ON w1.id = w2.id",
         ["W1_ID"], ["W1_V", "W2_V"]),
    ],
)  # fmt: skip
def test_names_and_keys(select: str, keys: list[str], values: list[str]) -> None:
    assert shape(queries("STREAM", select)[-1]) == (keys, values)


def test_keys_of_different_types_meet_in_the_wider_one() -> None:
    select = f"SELECT o.id, way FROM orders o JOIN sent s {IN_TIME} ON o.id = s.ref"
    step = join_of(queries("STREAM", select)[0])
    assert [i.keys[0].column for i in step.inputs] == [Column("__KEY", BIGINT)] * 2
    assert [i.keys[0].sql for i in step.inputs] == ['CAST("ID" AS BIGINT)', '"REF"']


def test_windowed_sources_join_within_their_windows() -> None:
    select = f"SELECT w1.id, w2.v AS v FROM w1 JOIN w2 {IN_TIME} ON w1.id = w2.id"
    (query,) = queries("STREAM", select)
    step = join_of(query)
    bounds = ["__window_start", "__window_end"]
    assert [k.column.name for k in step.left.keys] == ["__KEY", *bounds]
    assert [k.column.name for k in step.keys] == ["W1_ID", *bounds]
    assert (query.sink.window, query.sink.window_size_ms) == (WindowKind.TUMBLING, 60_000)


def test_several_joins_go_through_internal_topics() -> None:
    first, second, last = queries(
        "STREAM",
        f"SELECT o.item, sum, price, there FROM orders o JOIN paid p {IN_TIME} ON o.id = p.id "
        "JOIN items i ON o.item = i.item LEFT JOIN stock k ON i.item = k.item",
    )
    assert [q.id for q in (first, second, last)] == [
        "csas_result_1", "csas_result_2", "csas_result",
    ]  # fmt: skip
    assert [q.sink.internal for q in (first, second, last)] == [True, True, False]
    assert [q.sink.name for q in (first, second)] == [q.sources[0].name for q in (second, last)]
    assert [join_of(q).form for q in (first, second, last)] == [
        JoinForm.STREAM_STREAM, JoinForm.STREAM_TABLE, JoinForm.STREAM_TABLE,
    ]  # fmt: skip
    assert shape(last) == (["O_ITEM"], ["SUM", "PRICE", "THERE"])


def test_what_a_join_cannot_do_itself_follows_it() -> None:
    join, grouped = queries(
        "TABLE",
        "SELECT price, COUNT(*) AS n FROM orders o JOIN items i ON o.item = i.item GROUP BY price",
    )
    assert join.sink.internal
    assert isinstance(grouped.step, AggregateStep)
    assert grouped.step.keys[0].sql == '"I_PRICE"'
    join, keyed = queries(
        "STREAM",
        "SELECT qty, o.item FROM orders o JOIN items i ON o.item = i.item PARTITION BY qty",
    )
    assert isinstance(keyed.step, ProjectStep)
    assert shape(keyed) == (["QTY"], ["O_ITEM"])


def test_a_join_of_tables_reads_its_key_from_the_record_key() -> None:
    join, changes, grouped = queries(
        "TABLE",
        "SELECT there, COUNT(*) AS n FROM items i LEFT JOIN stock k ON i.item = k.item "
        "GROUP BY there",
    )
    assert join_of(join).form is JoinForm.TABLE_TABLE
    assert isinstance(changes.step, ChangesStep)
    assert changes.step.input.keys[0].ref == "__KEY"
    assert isinstance(grouped.step, AggregateStep)
    assert len(grouped.step.undo) == len(grouped.step.aggregates) == 1


def test_a_foreign_key_join_is_three_queries() -> None:
    subscribe, join, resolve = queries(
        "TABLE", "SELECT i.item, land FROM items i LEFT JOIN makers m ON i.maker = m.id"
    )
    assert isinstance(subscribe.step, SubscribeStep)
    assert subscribe.sink.key_columns == (Column("__FOREIGN_KEY", INTEGER),)
    assert join_of(join).form is JoinForm.FOREIGN_KEY
    assert isinstance(resolve.step, ResolveStep)
    assert (resolve.id, shape(resolve)) == ("ctas_result", (["ITEM"], ["LAND"]))
    assert resolve.sink.key_columns == (Column("ITEM", STRING),)


def test_a_source_joins_itself_under_two_aliases() -> None:
    select = f"SELECT a.id, b.qty FROM orders a JOIN orders b {IN_TIME} ON a.id = b.qty"
    (query,) = queries("STREAM", select)
    assert [s.name for s in query.sources] == ["ORDERS", "ORDERS"]
    assert shape(query) == (["A_ID"], ["B_QTY"])


def test_a_versioned_table_is_asked_as_of() -> None:
    topology = compile_text(
        f"{SOURCES}CREATE TABLE rates (item STRING PRIMARY KEY, rate INT) WITH (KAFKA_TOPIC='r', "
        "VALUE_FORMAT='JSON', HISTORY_RETENTION='2 HOURS');"
        "CREATE STREAM result AS SELECT o.item, rate FROM orders o JOIN rates r ON o.item = r.item;"
    )
    assert join_of(topology.queries[0]).history_ms == 7_200_000


def test_a_small_table_is_broadcast_where_it_says_so() -> None:
    topology = compile_text(
        f"{SOURCES}CREATE TABLE rates (item STRING PRIMARY KEY, rate INT) WITH (KAFKA_TOPIC='r', "
        "VALUE_FORMAT='JSON', BROADCAST=TRUE);"
        "CREATE STREAM result AS SELECT o.item, rate FROM orders o JOIN rates r ON o.item = r.item;"
    )
    step = join_of(topology.queries[0])
    assert step.broadcast
    assert step.fingerprint_parts() != replace(step, broadcast=False).fingerprint_parts()


ON_ID = "ON o.id = p.id"
ON_ITEM = "ON i.item = k.item"
REFUSED = [
    (f"SELECT o.id FROM orders o JOIN paid p {ON_ID}", "must have a WITHIN clause"),
    ("SELECT o.item, price FROM orders o JOIN items i WITHIN 1 DAY ON o.item = i.item",
     "These joins are not windowed"),
    ("SELECT o.item, price FROM orders o FULL JOIN items i ON o.item = i.item",
     "full-outer join not supported for stream-table"),
    ("SELECT o.item, price FROM orders o JOIN items i ON o.id = i.maker",
     "stream-table joins require to join on the table's primary key. Got O.ID = I.MAKER"),
    ("SELECT i.item, qty FROM items i JOIN orders o ON o.item = i.item",
     "table-stream joins are not supported"),
    (f"SELECT sum FROM orders o JOIN paid p {IN_TIME} {ON_ID}",
     "must include the join expressions O.ID or P.ID"),
    (f"SELECT o.id, sum FROM orders o FULL JOIN paid p {IN_TIME} {ON_ID}",
     "ROWKEY was added as a synthetic key column"),
    (f"SELECT id, sum FROM orders o JOIN paid p {IN_TIME} {ON_ID}",
     "Column 'ID' is ambiguous. Could be O.ID or P.ID."),
    (f"SELECT o.id, sum FROM orders o JOIN paid p {IN_TIME} ON o.id > p.id",
     "Only equality join criteria is supported"),
    (f"SELECT o.id, sum FROM orders o JOIN paid p {IN_TIME} ON o.id = p.id AND o.qty = p.sum",
     "joins on multiple conditions are not yet supported. Got ((O.ID = P.ID) AND (O.QTY = P.SUM))"),
    (f"SELECT o.id, sum FROM orders o JOIN paid p {IN_TIME} ON o.id = 3",
     "Invalid comparison expression '3' in join '(O.ID = 3)'"),
    (f"SELECT o.id, sum FROM orders o JOIN paid p {IN_TIME} ON o.id = o.qty",
     "must reference exactly one source and not the same source"),
    (f"SELECT o.id, sum FROM orders o JOIN paid p {IN_TIME} ON o.nr = p.id",
     "JOIN ON column 'O.NR' cannot be resolved"),
    (f"SELECT o.id, sum FROM orders o JOIN paid p {IN_TIME} ON x.id = p.id",
     "'X' is not a valid stream/table name or alias."),
    (f"SELECT id FROM orders JOIN orders {IN_TIME} ON id = qty",
     "self joins are not yet supported"),
    (f"SELECT w1.id, sum FROM w1 JOIN paid p {IN_TIME} ON w1.id = p.id",
     "Can not join windowed source to non-windowed source."),
    (f"SELECT w1.id, w2.v FROM w1 JOIN w2 {IN_TIME} ON w1.v = w2.v",
     "Implicit repartitioning of windowed sources is not supported."),
]  # fmt: skip
REFUSED_TABLES = [
    ("SELECT i.item, there FROM items i JOIN stock k ON i.price = k.there",
     "table-table joins require to join on the primary key of the right input table"),
    ("SELECT i.item, land FROM items i RIGHT JOIN makers m ON i.maker = m.id",
     "RIGHT OUTER JOIN on a foreign key is not supported"),
    ("SELECT land, price FROM items i JOIN makers m ON i.maker = m.id",
     "Primary key column missing in projection"),
    ("SELECT i.item, land FROM items i JOIN makers m ON i.item = m.id",
     "types don't match. Got I.ITEM{STRING} = M.ID{INTEGER}"),
    (f"SELECT i.item, land FROM items i JOIN stock k {ON_ITEM} JOIN makers m ON i.maker = m.id",
     "are not supported as part of n-way joins"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "select", "message"),
    [("STREAM", *case) for case in REFUSED] + [("TABLE", *case) for case in REFUSED_TABLES],
)
def test_joins_that_are_refused(kind: str, select: str, message: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        queries(kind, select)
    assert message in str(caught.value)


@pytest.mark.parametrize("where", ["", " WHERE HEX(qty) <> 'A'"])
def test_what_the_first_release_evaluated_after_a_join_still_follows_it(where: str) -> None:
    """The state of such a statement is in two queries; in one it would begin anew."""
    select = "o.item, HEX(qty) AS h" if not where else "o.item, qty"
    join, after = queries(
        "STREAM", f"SELECT {select} FROM orders o JOIN items i ON o.item = i.item{where}"
    )
    assert join.sink.internal
    assert isinstance(after.step, ProjectStep)
