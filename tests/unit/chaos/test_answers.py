"""Reads out of a history, and rows of changelogs as the engine writes them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.chaos.answers import READ, Read, readable, reads_of
from holdfast.chaos.history import HistoryWriter, Kind, read_history
from tests.unit.chaos.answering import encoded, topology

HOUR = struct.pack(">q", 3_600_000)


def test_reads_are_read_as_they_were_written(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, "reader-1") as history:
        good = history.invoke(READ, table="T", key=("a", 1))
        bad = history.invoke(READ, table="T", key=("b", 1))
        history.invoke(READ, table="T", key=("c", 1))
        history.outcome(Kind.FAIL, READ, bad, reason="nobody answers")
        history.outcome(
            Kind.OK, READ, good, rows=[{"N": 1}], positions={"3": 7}, servers={"3": "0"}
        )
    first, second = reads_of(read_history(tmp_path))
    assert first == Read(
        "reader-1", 0, "T", ("a", 1), first.at_s, first.took_s, [{"N": 1}], {3: 7}, {3: "0"}
    )
    assert first.took_s > 0
    assert (second.key, second.rows, second.reason) == (("b", 1), None, "nobody answers")


def test_the_engine_s_own_rows_are_understood() -> None:
    aggregates = "MIN(y) AS low, SUM(x) AS total, COUNT(x) AS n, MAX(z) AS high"
    _, rows = readable(topology(aggregates))["T"]
    # A step's aggregates are in the order of their functions' names.
    low = pa.array([3, None], pa.int32())
    full, empty = encoded([70, 80], [2, 0], [0.25, None], low, [5, None])
    assert rows.row(full) == {"ROWTIME": 70, "LOW": 3, "TOTAL": 5, "N": 2, "HIGH": 0.25}
    assert rows.row(empty) == {"ROWTIME": 80, "LOW": None, "TOTAL": 0, "N": 0, "HIGH": None}
    assert rows.key("é".encode()) == (("é",), None)


def test_a_window_s_start_is_told_apart() -> None:
    _, rows = readable(topology(window="WINDOW TUMBLING (SIZE 1 HOUR)"))["T"]
    assert rows.windowed
    assert rows.key(b"a" + HOUR) == (("a",), 3_600_000)


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
    _, rows = readable(topology(aggregates))["T"]
    assert set(rows.columns) == known


@pytest.mark.parametrize(
    "changes", [{"tail": "EMIT FINAL", "window": "WINDOW TUMBLING (SIZE 1 HOUR)"},
                {"window": "WINDOW SESSION (1 HOUR)"}],
)  # fmt: skip
def test_tables_whose_changelog_is_another_s_are_not_read(changes: dict[str, Any]) -> None:
    assert readable(topology(**changes)) == {}
