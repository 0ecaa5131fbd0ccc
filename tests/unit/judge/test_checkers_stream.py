"""The checkers of stateless queries: one good history, one bad per anomaly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from holdfast.judge.checkers.places import group_agrees, hanging_transactions, markers_agree
from holdfast.judge.checkers.streams import (
    STREAM_CHECKERS,
    duplicated_records,
    lost_records,
    phantom_records,
    stream_times,
    vacuous_stream,
)
from holdfast.judge.evidence import Progress, StreamEvidence
from holdfast.judge.values import Key, OpenTransaction
from holdfast.judge.verdict import Verdict

A: Key = ("a", 1)
B: Key = ("b", 2)


def stream(*actual: Key, **known: Any) -> StreamEvidence:
    expected = known.pop("expected", Counter([A, A, B]))
    return StreamEvidence("S", known.pop("read", 3), Counter(actual), expected, **known)


@pytest.mark.parametrize("checker", STREAM_CHECKERS)
def test_every_record_once_is_valid(checker: Any) -> None:
    assert checker(stream(A, B, A)).verdict is Verdict.VALID


def test_a_missing_record_is_lost_even_when_an_equal_one_is_there() -> None:
    finding = lost_records(stream(A, B))
    assert finding.verdict is Verdict.INVALID
    assert finding.fact.startswith("1 of 3")
    assert duplicated_records(stream(A, B)).verdict is Verdict.VALID


def test_a_record_there_too_often_is_duplicated_and_no_phantom() -> None:
    doubled = stream(A, A, B, B)
    assert duplicated_records(doubled).verdict is Verdict.INVALID
    assert phantom_records(doubled).verdict is Verdict.VALID


def test_a_record_from_nowhere_is_a_phantom_and_not_duplicated() -> None:
    strange = stream(A, A, B, ("c", 3))
    assert phantom_records(strange).verdict is Verdict.INVALID
    assert duplicated_records(strange).verdict is Verdict.VALID


def test_a_record_with_a_time_of_no_input_record_is_invalid() -> None:
    strange = stream(A, A, B, strange_times=["1 records at 7 ms"])
    assert stream_times(strange).verdict is Verdict.INVALID


def test_an_open_transaction_is_invalid() -> None:
    hanging = stream(A, A, B, open_transactions=[OpenTransaction("S", 0, 1, 2)])
    assert hanging_transactions(hanging).verdict is Verdict.INVALID


def test_nothing_compared_is_unknown() -> None:
    assert vacuous_stream(stream(expected=Counter(), read=0)).verdict is Verdict.UNKNOWN


def test_what_was_not_recomputed_is_unknown_with_the_reason() -> None:
    for checker in (lost_records, duplicated_records, phantom_records, vacuous_stream):
        finding = checker(stream(expected=None, unjudged="a join"))
        assert (finding.verdict, finding.fact) == (Verdict.UNKNOWN, "a join")


def test_doubtful_input_turns_a_difference_into_unknown() -> None:
    assert lost_records(stream(A, doubtful="odd")).verdict is Verdict.UNKNOWN


def test_a_source_partition_without_its_marker_is_invalid() -> None:
    progress = Progress(ends={"in-0": 2}, group={"in-0": 2}, unlevel=["source partition 0"])
    unmarked = stream(A, A, B, progress=progress)
    assert markers_agree(unmarked).verdict is Verdict.INVALID
    assert group_agrees(unmarked).verdict is Verdict.INVALID
