"""What each way in which exactness once broke leaves behind, and which checker tells.

Which value is right is the judge's own arithmetic, which has tests of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from holdfast.judge.checkers.checking import judge
from holdfast.judge.checkers.places import stores_agree
from holdfast.judge.checkers.results import FINAL_CHECKERS
from holdfast.judge.checkers.streams import STREAM_CHECKERS
from holdfast.judge.checkers.tables import TABLE_CHECKERS
from holdfast.judge.evidence import Progress, SinkHistory, StreamEvidence, TableEvidence
from holdfast.judge.read.changelog_fold import ChangelogFold
from holdfast.judge.read.marker_story import MarkerStory
from holdfast.judge.values import Key
from holdfast.judge.verdict import Verdict
from tests.unit.judge.judging import ENDS, ROWS, UPDATES, changelog, evidence, history, stores

ALIENS: Key = ("Aliens",)
NOW_MS = 1_795_000_000_000


def _after(row: dict[str, Any], key: Key = ALIENS) -> TableEvidence:
    """The right table, and then this row."""
    return evidence(history([*UPDATES, (key, row)]))


def _value(expected: Any, actual: Any) -> TableEvidence:
    """A table of one row."""
    sink = history([(ALIENS, {"SOLD": 2, "TOTAL": actual})])
    rows = {ALIENS: {"SOLD": 2, "TOTAL": expected}}
    return evidence(sink, rows, changelog=None, records={ALIENS: 2}, newest={ALIENS: 70})


def _lost_place() -> TableEvidence:
    fold = ChangelogFold([0], MarkerStory("app", "q"))
    for ends in ([[0, 5], [1, 3]], [[0, 5]]):
        marker = {"source": {"topic": "in", "start": [], "end": ends}}
        fold.update(0, b"\x00holdfast.commit", json.dumps(marker).encode(), 0)
    story = fold.contradictions
    return evidence(progress=Progress(ENDS, ENDS, ENDS, contradictions=story))


def _sent_now() -> TableEvidence:
    sink = SinkHistory()
    for key, row in ROWS.items():
        sink.update(key, row, NOW_MS)
    return evidence(sink, timed=True, newest={ALIENS: 0, ("Die Hard",): 90})


TABLES: dict[str, tuple[TableEvidence, str]] = {
    "1: a marker loses a place": (_lost_place(), "markers_go_on"),
    "1: and its records are counted again": (_after({"SOLD": 4}), "diverged_values"),
    "2: an emptied state partition begins anew": (_after({"SOLD": 1}), "diverged_values"),
    "3: a key went elsewhere the second time": (_after({"SOLD": 1}, ("Alien",)), "phantom_keys"),
    "4: a sum beyond its digits is 0": (_value(7e37, 0), "diverged_values"),
    "5: a number in the place of NaN": (_value(float("nan"), 3.0), "diverged_values"),
    "6: the ghost of -0.0": (_after({"SOLD": 1}, ("-0.0",)), "phantom_keys"),
    "8: the new topic is read from the old offset": (evidence(history(UPDATES[1:2])), "lost_keys"),
    "9: event time 0 becomes now": (_sent_now(), "sink_times"),
    "10: a store has another partition's rows": (
        evidence(changelog=changelog(stores=stores({}, {"digest": "other"}))),
        "stores_agree",
    ),
    "11: late by the engine's own reading": (
        evidence(windowed=True, dropped_late=2242, late_most=0),
        "late_is_possible",
    ),
    "13: a renamed column leaves NULL": (_after({"SOLD": 2, "SUM": 30.5}), "diverged_values"),
    "14: another job's older counts": (
        evidence(history([UPDATES[2], UPDATES[0], UPDATES[1], UPDATES[2]])),
        "duplicated_updates",
    ),
}


@pytest.mark.parametrize("what", TABLES)
def test_a_table_is_invalid_and_the_checker_is_named(what: str) -> None:
    table, checker = TABLES[what]
    found = {f.checker: f.verdict for f in judge(table, (*TABLE_CHECKERS, stores_agree))}
    assert found[checker] is Verdict.INVALID


@pytest.mark.parametrize(
    ("what", "updates", "checker"),
    [
        ("7, 12: a window is never told", UPDATES[1:2], "lost_keys"),
        ("7: a window is told twice", [*UPDATES[1:], UPDATES[1]], "written_once"),
    ],
)
def test_a_final_table_is_invalid(what: str, updates: list[Any], checker: str) -> None:
    found = {f.checker: f.verdict for f in judge(evidence(history(updates)), FINAL_CHECKERS)}
    assert found[checker] is Verdict.INVALID, what


def test_two_writers_of_one_stream_double_its_records() -> None:
    """14: each of the two jobs alone would be right."""
    written: Counter[Key] = Counter([("a", 1), ("b", 2)])
    stream = StreamEvidence("S", 2, written + written, written)
    found = {f.checker: f.verdict for f in judge(stream, STREAM_CHECKERS)}
    assert found["duplicated_records"] is Verdict.INVALID
