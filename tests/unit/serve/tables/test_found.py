"""Which tables of a job are served, from what."""

from __future__ import annotations

import struct

import pytest

from holdfast.serve.tables import ChangelogTable, TopicTable, candidates
from holdfast.sql import compile_text

STATEMENTS = """
CREATE STREAM s (id STRING KEY, a BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE u (id STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE counted AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
CREATE TABLE sessions AS SELECT id, COUNT(*) AS n FROM s WINDOW SESSION (5 SECONDS) GROUP BY id;
CREATE TABLE final AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 5 SECONDS)
  GROUP BY id EMIT FINAL;
CREATE TABLE joined AS SELECT c.id AS id, c.n, u.name FROM counted c JOIN u ON c.id = u.id;
CREATE TABLE few AS SELECT id, name FROM u WHERE name = 'x';
CREATE STREAM copied AS SELECT id, a FROM s;
"""
FOUND = candidates(compile_text(STATEMENTS), "app")
TABLES = {candidate.name: candidate.made(4) for candidate in FOUND.tables}


def test_aggregates_are_read_from_their_changelogs_and_the_rest_from_topics() -> None:
    kinds = {name: type(table) for name, table in TABLES.items()}
    assert kinds == {
        "U": TopicTable,
        "COUNTED": ChangelogTable,
        "SESSIONS": ChangelogTable,
        "FINAL": TopicTable,
        "JOINED": TopicTable,
        "FEW": TopicTable,
    }
    assert TABLES["COUNTED"].topic == "app-ctas_counted-changelog"
    assert TABLES["JOINED"].topic == "JOINED"


def test_streams_say_why_they_are_not_served() -> None:
    assert {each.name for each in FOUND.unserved} == {"S", "COPIED"}
    assert all("is a stream" in each.reason for each in FOUND.unserved)


def test_stores_have_folders_of_their_own() -> None:
    assert len({table.store_name for table in TABLES.values()}) == len(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_no_rows_decode_to_the_schema(name: str) -> None:
    table = TABLES[name]
    assert table.decode([], []).schema == table.schema()
    assert [c.name for c in table.columns] == table.schema().names[:-2]


def test_records_of_a_topic_are_rows() -> None:
    def row(value: bytes) -> bytes:
        return struct.pack(">q", 5) + value

    stored = [row(b'{"NAME":"Ann"}'), None, row(b"no JSON"), row(b'{"NAME":null}')]
    found = TABLES["U"].decode([b"a", b"b", b"c", b"d"], stored).to_pylist()
    assert [r["__present"] for r in found] == [True, False, False, True]
    assert found[0] == {"ID": "a", "NAME": "Ann", "ROWTIME": 5, "__present": True}
    assert found[1]["ID"] == "b"


def test_only_our_own_topics_say_where_a_key_lives() -> None:
    assert TABLES["U"].partition_of(b"a") is None
    assert TABLES["FINAL"].partition_of(b"a") is None  # placed by its windows, too
    for name in ("COUNTED", "JOINED"):
        assert TABLES[name].partition_of(b"a") in range(4)


def test_the_same_statements_are_the_same_tables() -> None:
    again = {c.name: c.made(4) for c in candidates(compile_text(STATEMENTS), "app").tables}
    assert again == TABLES
    changed = STATEMENTS.replace("COUNT(*) AS n FROM s GROUP", "SUM(a) AS n FROM s GROUP")
    other = {c.name: c.made(4) for c in candidates(compile_text(changed), "app").tables}
    assert other["COUNTED"] != TABLES["COUNTED"]
    assert other["SESSIONS"] == TABLES["SESSIONS"]
