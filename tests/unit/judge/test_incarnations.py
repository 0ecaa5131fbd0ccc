"""Topics of one name, one after the other: their places are apart, and come in their order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.judge.read.arrivals import Batches, offsets_of
from holdfast.judge.read.changelog_fold import ChangelogFold, ProgressFold
from holdfast.judge.read.incarnations import (
    Incarnation,
    Incarnations,
    age,
    by_age,
    living,
    partition_of,
    place_name,
)
from holdfast.judge.read.marker_story import MarkerStory
from holdfast.judge.recompute.lateness import ReadTimes, late_most
from holdfast.judge.recompute.recompute import recompute_first, recompute_table
from holdfast.judge.statement.translate import translate
from tests.unit.judge.statements import flight, load, query
from tests.unit.judge.test_arrivals import lane, rows

OLD = 1 << 16  # the first deleted topic's partition 0
KEY = b"\x00holdfast.commit"
HOUR = 3_600_000


def _topic(topic_id: str, *ends: int) -> Incarnation:
    return Incarnation("in", topic_id, {p: (0, end) for p, end in enumerate(ends)})


KNOWN = Incarnations({"in": [_topic("a", 9, 5), _topic("b", 3, 3), _topic("c", 100, 100)]})


def _marker(
    topic_id: str, ends: dict[int, int], starts: dict[int, int] | None = None
) -> dict[str, Any]:
    edges = {"start": sorted((starts or {}).items()), "end": sorted(ends.items())}
    source = {"topic": "in", "topic_id": topic_id, **edges}
    names = {"application_id": "app", "query_id": "q", "state_partition": 0}
    return {**names, "source": source, "stream_time_ms": 0}


def test_places_of_a_deleted_topic_are_not_those_of_the_one_in_its_place() -> None:
    assert [KNOWN.number("in", topic_id, 1) for topic_id in "abc"] == [OLD + 1, 2 * OLD + 1, 1]
    assert KNOWN.number("other", "a", 1) == 1
    assert offsets_of(_marker("a", {0: 4})["source"], "end", KNOWN) == {("in", OLD): 4}
    assert KNOWN.gone("in") == {
        OLD: (0, 9), OLD + 1: (0, 5), 2 * OLD: (0, 3), 2 * OLD + 1: (0, 3)
    }  # fmt: skip
    assert partition_of(2 * OLD + 7) == 7
    assert place_name("in", OLD + 1) == "in-1 of deleted topic 1"
    assert place_name("in", 1) == "in-1"
    assert living({0: "x", OLD: "y"}) == {0: "x"}
    assert by_age([1, 2 * OLD, OLD, 0]) == [[OLD], [2 * OLD], [1, 0]]
    assert age(OLD) < age(2 * OLD) < age(0)


# -- commit markers ----------------------------------------------------------------------------

A, B, C = (
    _marker("a", {0: 9, 1: 5}, {0: 2, 1: 5}),
    _marker("b", {0: 3, 1: 3}, {0: 0, 1: 0}),
    _marker("c", {0: 60, 1: 60}, {0: 0, 1: 0}),
)


def _told(*markers: dict[str, Any], known: Incarnations = KNOWN) -> list[str]:
    fold = ChangelogFold([0], MarkerStory("app", "q", known))
    for offset, marker in enumerate(markers):
        fold.update(0, KEY, json.dumps(marker).encode(), offset)
    prefix = "q: a commit marker in partition 0 "
    assert all(text.startswith(prefix) for text in fold.contradictions)
    return [text.removeprefix(prefix) for text in fold.contradictions]


def test_markers_may_begin_anew_with_the_next_topic_of_the_name() -> None:
    assert _told(A, B, C, _marker("c", {0: 100, 1: 100}, {0: 60, 1: 60})) == []
    assert _told(B, C) == [], "older ones may have been compacted away"


@pytest.mark.parametrize(
    ("markers", "words"),
    [
        ((_marker("a", {0: 7, 1: 5}), B), "leaves in-0 of deleted topic 1 at 7 of 9"),
        ((_marker("a", {0: 9}), B), "leaves in-1 of deleted topic 1 at 0 of 5"),
        (
            (A, _marker("b", {0: 3, 1: 3}, {0: 2, 1: 0})),
            "begins in-0 of deleted topic 2 at 2, its log begins at 0",
        ),
        (
            (A, B, _marker("c", {0: 60, 1: 60}, {0: 3, 1: 0})),
            "begins in-0 at 3, its log begins at 0",
        ),
        ((A, C), "goes on from in of the id a to that of the id c"),
        ((B, A), "goes on from in of the id b to that of the id a"),
        ((_marker("x", {0: 1}),), "names the id x of in, which it never had"),
        ((A, B, _marker("b", {0: 1, 1: 3})), "goes back from 3 to 1 of in-0 of deleted topic 2"),
        ((A, B, C, _marker("c", {0: 60})), "lacks in-1, which the one before it has to 60"),
    ],
)
def test_markers_that_begin_anew_otherwise_are_told(
    markers: tuple[dict[str, Any], ...], words: str
) -> None:
    assert words in _told(*markers)


def test_the_last_marker_has_to_be_of_the_topic_that_is_there() -> None:
    bounds = {0: (0, 60), 1: (0, 60), **KNOWN.gone("in")}
    for last, level in ((C, True), (B, False)):
        fold = ChangelogFold([0], MarkerStory("app", "q", KNOWN))
        fold.update(0, KEY, json.dumps(last).encode(), 0)
        assert (list(fold.unlevel(bounds)) == []) is level
        assert (fold.taken_in().get(0) == 60) is level


def _progress(*markers: tuple[str, int, int]) -> ProgressFold:
    """Of a query without state, source partition 0: (topic id, offset, records) each."""
    fold = ProgressFold(MarkerStory("app", "q", KNOWN))
    for topic_id, offset, records in markers:
        told = {"topic": "in", "topic_id": topic_id, "offset": offset, "records": records}
        fold.update(KEY + b".0", json.dumps(told).encode())
    return fold


def test_a_query_without_state_begins_anew_likewise() -> None:
    """Of each source partition by itself: the others may be further."""
    fold = _progress(("a", 9, 9), ("b", 3, 12), ("c", 60, 72))
    assert fold.contradictions == []
    assert fold.taken_in() == {0: 60}
    assert list(fold.unlevel({0: (0, 60), **KNOWN.gone("in")})) == []
    behind = _progress(("a", 9, 9), ("b", 3, 12))
    assert list(behind.unlevel({0: (0, 60)})) != []


@pytest.mark.parametrize(
    ("markers", "words"),
    [
        ((("a", 8, 8), ("b", 3, 11)), "leaves in-0 of deleted topic 1 at 8 of 9"),
        ((("b", 3, 3), ("c", 60, 60)), "begins in-0 at 3, its log begins at 0"),
        ((("a", 9, 9), ("c", 60, 69)), "goes on from in of the id a to that of the id c"),
        ((("b", 3, 3), ("a", 9, 12)), "goes on from in of the id b to that of the id a"),
        ((("x", 3, 3),), "names the id x of in, which it never had"),
    ],
)
def test_a_query_without_state_that_begins_anew_otherwise_is_told(
    markers: tuple[tuple[str, int, int], ...], words: str
) -> None:
    (told,) = _progress(*markers).contradictions
    assert told == f"q: a commit marker in partition 0 {words}"


def test_a_topic_without_records_may_have_no_marker() -> None:
    known = Incarnations({"in": [_topic("a", 9, 5), _topic("b", 0, 0), _topic("c", 100, 100)]})
    assert _told(A, C, known=known) == []


# -- the order ---------------------------------------------------------------------------------


def test_records_of_a_deleted_topic_come_before_those_of_its_successor() -> None:
    """At the same offsets, and however old their event times are."""
    batches = Batches(incarnations=KNOWN)
    for marker in (A | {"source": A["source"] | {"start": [(0, 0), (1, 0)]}}, B, C):
        batches.add(0, marker)
    assert not batches.broken
    found = rows(batches, lane((0, 0, 1), (OLD, 0, 99), (2 * OLD, 0, 50), (OLD + 1, 0, 3)))
    assert [row for _, row in found] == [3, 1, 2, 0]
    assert batches.ends()["in", OLD] == 9
    assert batches.ends()["in", 0] == 60


def test_a_topic_that_is_not_read_from_its_start_leaves_the_order_unknown() -> None:
    batches = Batches(incarnations=KNOWN)
    batches.add(0, B)
    batches.add(0, _marker("c", {0: 60, 1: 60}, {0: 3, 1: 0}))
    assert "starts at in-0 offset 3, the one before ends at 0" in batches.broken


def test_late_is_told_by_the_topics_one_after_the_other() -> None:
    """Without a column for the event time a late record's own time is old as well."""
    read = [(OLD, 50 * HOUR, 50 * HOUR), (0, 10, 10), (0, 51 * HOUR, 51 * HOUR)]
    assert late_most(ReadTimes.of(read), HOUR, HOUR, 0) == 1
    beside = [(1, 50 * HOUR, 50 * HOUR), *read[1:]]
    assert late_most(ReadTimes.of(beside), HOUR, HOUR, 0) == 0, "it may have come first"


# -- recomputed --------------------------------------------------------------------------------


def _one(value: str, *records: tuple[int, Any]) -> Any:
    """A value over (number of a topic partition, seats)."""
    select = f"SELECT carrier, {value} v FROM flights GROUP BY carrier"
    asked = query(select, ["CARRIER"], ["V"])
    batch = translate(asked, sorted({number for number, _ in records}))
    table = load(batch, [])
    for offset, (number, seats) in enumerate(records):
        told = json.dumps(flight("AA", seats=seats)).encode()
        table.add(number, offset, b"id", told, 7)
    return recompute_table(batch, asked.sink, table).rows["AA",]["V"]


def test_the_latest_value_is_the_newest_topics_that_has_one() -> None:
    found = [(0, 5), (1, 6), (OLD, 7), (OLD + 1, 8), (2 * OLD, 9)]
    assert sorted(_one("LATEST_BY_OFFSET(seats)", *found)) == [5, 6]
    assert sorted(_one("EARLIEST_BY_OFFSET(seats)", *found)) == [7, 8]
    assert _one("LATEST_BY_OFFSET(seats)", (0, None), (OLD, 7), (2 * OLD, 9)) == [9]


def test_a_row_tells_the_partition_that_its_record_had() -> None:
    assert _one("MAX(ROWPARTITION)", (1, 5), (2 * OLD + 2, 6)) == 2


def test_of_the_first_records_all_of_a_deleted_topic_come_first() -> None:
    asked = query(
        "SELECT carrier, COUNT(*) n, SUM(seats) s FROM flights "
        "WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY carrier",
        ["CARRIER"],
        ["N", "S"],
    )
    batch = translate(asked, [0, 1, OLD])
    table = load(batch, [])
    for offset, (number, seats) in enumerate([(0, 1), (1, 10), (OLD, 100), (OLD, 1_000)]):
        value = json.dumps(flight("AA", seats=seats)).encode()
        table.add(number, offset, b"id", value, 7)
    made = recompute_table(batch, asked.sink, table)

    def sums(wanted: int) -> list[int]:
        found = recompute_first(batch, asked.sink, table, {("AA", 0): wanted}, made)
        return sorted(row["S"] for row in found["AA", 0])

    assert [sums(n) for n in (1, 2, 3, 4)] == [[100], [1_100], [1_101, 1_110], [1_111]]
