"""One good history and one bad per anomaly of joins, sessions and final results."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from holdfast.judge.checkers.checking import Checker, judge
from holdfast.judge.checkers.results import (
    FINAL_CHECKERS,
    RESULT_CHECKERS,
    RESULT_STREAM_CHECKERS,
    all_stores_agree,
    count_is_right,
    late_agrees,
    out_of_order,
    undetermined_records,
    written_once,
)
from holdfast.judge.checkers.streams import duplicated_records, lost_records, phantom_records
from holdfast.judge.checkers.tables import diverged_values, lost_keys, phantom_keys
from holdfast.judge.evidence import QueryState, StreamEvidence, TableEvidence
from holdfast.judge.values import Key
from holdfast.judge.verdict import Verdict
from tests.unit.judge.judging import LEVEL, folded, history, stores

A: Key = ("k", 1, 10)
B: Key = ("k", 2, None)
C: Key = ("x", 3, 30)
D: Key = ("k", 2, 20)
# A session's key ends in its start and its end.
FIRST, MERGED = ("k", 0, 4), ("k", 0, 9)
ROW, WHOLE = {"N": 1}, {"N": 3}
SESSIONS = [(FIRST, ROW), (FIRST, None), (MERGED, WHOLE)]


# One record made B and D.
ORDER = [(1, A), (2, B), (2, D), (3, C)]


def stream(*written: Key, **known: Any) -> StreamEvidence:
    """A join that must give A, then B and D, then C."""
    facts: dict[str, Any] = {"expected": Counter([A, B, C, D]), "order": ORDER, "keys": 1}
    facts |= {"progress": LEVEL} | known
    return StreamEvidence("S", 8, Counter(written), written=written, **facts)


def table(*updates: Any, **known: Any) -> TableEvidence:
    """A session that was merged into a longer one."""
    facts: dict[str, Any] = {"expected": {MERGED: WHOLE}, "progress": LEVEL} | known
    return TableEvidence("T", 3, history(updates or SESSIONS, ()), **facts)


def test_right_histories_are_valid() -> None:
    for finding in (
        *judge(stream(A, C, D, B), RESULT_STREAM_CHECKERS),
        *judge(table(), RESULT_CHECKERS),
        *judge(table((MERGED, WHOLE)), FINAL_CHECKERS),
    ):
        assert finding.verdict is Verdict.VALID, finding


@pytest.mark.parametrize(
    ("checker", "evidence"),
    [
        (lost_records, stream(A, B, D)),
        (duplicated_records, stream(A, B, B, D, C)),
        (phantom_records, stream(A, B, D, C, ("k", 1, 99))),
        (out_of_order, stream(B, A, D, C)),
    ],
)
def test_a_wrong_join_is_invalid(
    checker: Checker[StreamEvidence], evidence: StreamEvidence
) -> None:
    assert checker(evidence).verdict is Verdict.INVALID
    others = {f.checker for f in judge(evidence, RESULT_STREAM_CHECKERS)
              if f.verdict is Verdict.INVALID}  # fmt: skip
    assert others == {checker.__name__}


@pytest.mark.parametrize(
    ("checker", "updates"),
    [
        (phantom_keys, [(FIRST, ROW), (MERGED, WHOLE)]),  # the merged one's tombstone is missing
        (phantom_keys, [(MERGED, WHOLE), (("k", 0, 8), WHOLE)]),  # wrong bounds
        (lost_keys, [(FIRST, ROW), (FIRST, None), (("k", 0, 8), WHOLE)]),
        (diverged_values, [(MERGED, ROW)]),  # a stale row
    ],
)
def test_a_wrong_session_is_invalid(checker: Checker[TableEvidence], updates: Any) -> None:
    assert checker(table(*updates)).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    "updates",
    [
        [(MERGED, WHOLE), (MERGED, WHOLE)],
        [(MERGED, ROW), (MERGED, WHOLE)],  # told too early, then told again
        [(MERGED, WHOLE), (FIRST, ROW), (FIRST, None)],
    ],
)
def test_a_final_result_is_the_only_word(updates: Any) -> None:
    assert written_once(table(*updates)).verdict is Verdict.INVALID
    assert written_once(table((MERGED, WHOLE))).verdict is Verdict.VALID


def test_a_final_result_told_too_early_differs() -> None:
    assert diverged_values(table((MERGED, ROW))).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("late", "dropped", "verdict"),
    [
        (None, 4, Verdict.VALID),
        (4, None, Verdict.VALID),
        (4, 4, Verdict.VALID),
        (4, 5, Verdict.INVALID),
    ],
)
def test_late_records_are_counted(late: int | None, dropped: int | None, verdict: Verdict) -> None:
    assert late_agrees(table(late=late, dropped_late=dropped)).verdict is verdict
    assert late_agrees(stream(A, late=late, dropped_late=dropped)).verdict is verdict


def test_deleted_input_excuses_them_as_unknown() -> None:
    found = late_agrees(table(late=4, dropped_late=5, doubtful="7 offsets are deleted"))
    assert (found.verdict, found.fact) == (
        Verdict.UNKNOWN,
        "5 records were dropped as late, 4 must be; 7 offsets are deleted",
    )


def test_what_only_some_order_makes_is_unknown_and_never_phantom() -> None:
    facts: dict[str, Any] = {"expected": Counter([A]), "possible": Counter([A, B, C])}
    some = stream(A, C, undetermined="nobody knows", **facts)
    found = undetermined_records(some)
    assert found.verdict is Verdict.UNKNOWN
    assert found.fact == (
        "1 records are right in some order of the input and need not be in others; nobody knows"
    )
    for checker in (lost_records, duplicated_records, phantom_records):
        assert checker(some).verdict is Verdict.VALID
    assert lost_records(stream(C, **facts)).verdict is Verdict.INVALID
    assert duplicated_records(stream(A, C, C, **facts)).verdict is Verdict.INVALID
    assert phantom_records(stream(A, ("x", 4, 4), **facts)).verdict is Verdict.INVALID


def test_how_many_there_are_may_be_known_all_the_same() -> None:
    assert count_is_right(stream(A, B, count=2)).verdict is Verdict.VALID
    assert count_is_right(stream(A, B, count=3)).verdict is Verdict.INVALID
    assert count_is_right(stream(A, B, count=3, doubtful="?")).verdict is Verdict.UNKNOWN


def test_order_is_each_key_s_own_and_only_where_it_is_known() -> None:
    assert out_of_order(stream(C, A, B)).verdict is Verdict.VALID
    assert out_of_order(stream(B, A, order=None)).verdict is Verdict.VALID
    no_key: list[Key] = [(None, 1), (None, 2)]
    assert (
        out_of_order(stream(*no_key[::-1], order=list(enumerate(no_key)))).verdict is Verdict.VALID
    )


def test_a_group_that_all_rows_have_left_may_be_there() -> None:
    empty = table((("x",), {"N": 0}), (MERGED, WHOLE), empty={"N": 0})
    assert phantom_keys(empty).verdict is Verdict.VALID
    assert phantom_keys(replace(empty, empty=None)).verdict is Verdict.INVALID
    assert phantom_keys(replace(empty, empty={"N": 1})).verdict is Verdict.INVALID


@pytest.mark.parametrize(("digest", "verdict"), [("d", Verdict.VALID), ("other", Verdict.INVALID)])
def test_the_stores_of_every_query_are_compared(digest: str, verdict: Verdict) -> None:
    log = {0: folded(), 1: folded()}
    right = QueryState("first", log, stores({}, {}))
    other = QueryState("second", log, stores({}, {"digest": digest}))
    assert all_stores_agree(stream(A, states=[right, other])).verdict is verdict
    absent = QueryState("third", log, stores({}))
    assert all_stores_agree(stream(A, states=[right, absent])).verdict is Verdict.UNKNOWN
    unread = QueryState("fourth", log)
    assert all_stores_agree(stream(A, states=[unread])).verdict is Verdict.VALID
