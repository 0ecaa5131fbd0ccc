"""Reads out of a history, and rows of changelogs as the engine writes them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from holdfast.chaos.history.events import HistoryWriter, Kind, read_history
from holdfast.chaos.reads.answers import READ, Read, reads_of
from holdfast.chaos.reads.table_rows import asked_tables
from holdfast.judge.read.observe import Observer
from holdfast.sql import compile_text
from holdfast.tasks.processors.sessions.plan import session_state_keys
from holdfast.types.statements.topology import Query
from tests.unit.chaos.answering import encoded, table, topology

HOUR = struct.pack(">q", 3_600_000)


def test_reads_are_read_as_they_were_written(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, "reader-1") as history:
        good = history.invoke(READ, table="T", key=("a", 1), start=60)
        bad = history.invoke(READ, table="T", key=("b", 1))
        history.invoke(READ, table="T", key=("c", 1))
        history.outcome(Kind.FAIL, READ, bad, reason="nobody answers")
        history.outcome(
            Kind.OK, READ, good, rows=[{"N": 1}], positions={"3": 7}, servers={"3": "0"}
        )
    first, second = reads_of(read_history(tmp_path))
    assert first == Read(
        "reader-1", 0, "T", ("a", 1), first.at_s, first.took_s, 60, [{"N": 1}], {3: 7}, {3: "0"}
    )
    assert first.took_s > 0
    assert (second.key, second.rows, second.reason) == (("b", 1), None, "nobody answers")


def test_the_engine_s_own_rows_are_understood() -> None:
    aggregates = "MIN(y) AS low, SUM(x) AS total, COUNT(x) AS n, MAX(z) AS high"
    rows = table(topology(aggregates)).rows
    # A step's aggregates are in the order of their functions' names.
    low = pa.array([3, None], pa.int32())
    full, empty = encoded([70, 80], [2, 0], [0.25, None], low, [5, None])
    assert rows.row(b"", full, 0) == {"ROWTIME": 70, "LOW": 3, "TOTAL": 5, "N": 2, "HIGH": 0.25}
    assert rows.row(b"", empty, 0) == {"ROWTIME": 80, "LOW": None, "TOTAL": 0, "N": 0, "HIGH": None}
    assert rows.key(b"\x01" + "é".encode()) == (("é",), ())
    assert rows.key(b"\x02a") is None


def test_a_window_s_start_is_told_apart() -> None:
    rows = table(topology(window="WINDOW TUMBLING (SIZE 1 HOUR)")).rows
    assert rows.bounds == ("WINDOWSTART",)
    assert rows.key(b"\x01a" + HOUR) == (("a",), (3_600_000,))


@pytest.mark.parametrize(
    ("aggregates", "known"),
    [
        ("COUNT(*) AS n, AVG(x) AS mean, SUM(x) AS total", {"ROWTIME"}),
        ("SUM(y) AS small, COUNT(*) AS n", {"ROWTIME", "N"}),
        ("COUNT(*) + 1 AS more, MAX(x) AS high", {"ROWTIME", "HIGH"}),
        ("MAX(title) AS last", {"ROWTIME"}),
    ],
)
def test_columns_behind_an_unknown_one_are_left_alone(aggregates: str, known: set[str]) -> None:
    rows = table(topology(aggregates)).rows
    assert set(rows.columns) == known


def test_keys_of_several_columns_and_of_sessions_are_the_engine_s_own() -> None:
    keys = compile_text(
        "CREATE STREAM s (a VARCHAR, b INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON',"
        " PARTITIONS=1); CREATE TABLE t WITH (KEY_FORMAT='JSON') AS"
        " SELECT a, b, COUNT(*) AS n FROM s GROUP BY a, b;"
    )
    assert table(keys).rows.key(b'\x01{"k0":"x","k1":7}') == (("x", 7), ())
    sessions = table(topology(window="WINDOW SESSION (1 HOUR)")).rows
    (stored,) = session_state_keys(
        pa.array([b"Alien"], pa.binary()), np.array([50]), np.array([60])
    )
    assert sessions.bounds == ("WINDOWSTART", "WINDOWEND")
    assert sessions.key(b"\x01" + stored) == (("Alien",), (50, 60))


FINAL = topology(tail="EMIT FINAL", window="WINDOW TUMBLING (SIZE 1 HOUR)")
JOINED = """
CREATE TABLE a (id BIGINT PRIMARY KEY, x VARCHAR, t TIMESTAMP, z DOUBLE)
  WITH (KAFKA_TOPIC = 'a', VALUE_FORMAT = 'JSON', PARTITIONS = 1);
CREATE TABLE b (id BIGINT PRIMARY KEY, y BOOLEAN)
  WITH (KAFKA_TOPIC = 'b', VALUE_FORMAT = 'JSON', KEY_FORMAT = 'JSON', PARTITIONS = 1);
CREATE TABLE d (k DOUBLE PRIMARY KEY, y INT)
  WITH (KAFKA_TOPIC = 'd', VALUE_FORMAT = 'JSON', PARTITIONS = 1);
CREATE TABLE e (k VARCHAR PRIMARY KEY, y INT)
  WITH (KAFKA_TOPIC = 'e', VALUE_FORMAT = 'DELIMITED', PARTITIONS = 1);
CREATE TABLE ab AS SELECT a.id, x, y FROM a JOIN b ON a.id = b.id;
CREATE TABLE big AS SELECT k, y FROM d WHERE y > 5;
CREATE TABLE many AS SELECT x, COUNT(*) AS n FROM a GROUP BY x;
CREATE TABLE few AS SELECT k, y FROM e WHERE y > 5;
"""


class NeverRescaled(Observer):
    """`Observer` of a job that was never rescaled; asks no broker."""

    def generation(self, query: Query) -> int:
        return 0


def test_what_a_table_is_followed_by_has_its_states() -> None:
    asked = asked_tables(compile_text(JOINED))
    topics = {name: found.topic(NeverRescaled({}, "app")) for name, found in asked.tables.items()}
    assert topics == {"A": "a", "B": "b", "AB": "AB", "MANY": "app-ctas_many-changelog"}
    assert asked.others == {
        "D": "keys of type DOUBLE",
        "E": "values in DELIMITED format",
        "BIG": "keys of type DOUBLE",
        "FEW": "values in DELIMITED format",
    }
    assert table(FINAL).topic(NeverRescaled({}, "app")) == "T"


def test_a_topic_s_records_are_rows_as_they_are() -> None:
    rows = table(compile_text(JOINED), "A").rows
    key = struct.pack(">q", 7)
    assert (rows.key(key), rows.key(b"short")) == (((7,), ()), None)
    value = b'{"X": "a", "T": 5, "Z": 1.5}'
    assert rows.row(key, value, 70) == {"ROWTIME": 70, "X": "a", "Z": 1.5}
    assert rows.row(key, b'{"X": "a", "T": "never"}', 70) is None, "no column can be read then"
    before = rows.doubtful
    assert rows.row(key, b'{"X": 5, "Z": "NaN"}', 70) == {"ROWTIME": 70, "X": "5", "Z": None}
    assert (before, rows.doubtful) == (False, True), "a number where a text should be"
    final = table(FINAL).rows
    assert final.key(b"Alien" + HOUR) == (("Alien",), (3_600_000,))
