"""Commit markers that go back, lose a place, or are another query's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.judge.checkers.places import markers_go_on
from holdfast.judge.evidence import Progress
from holdfast.judge.read.changelog_fold import ChangelogFold, ProgressFold
from holdfast.judge.read.marker_story import MarkerStory
from holdfast.judge.verdict import Verdict
from tests.unit.judge.judging import evidence

KEY = b"\x00holdfast.commit"


def _marker(ends: dict[int, int], topic_id: str = "", **changed: Any) -> dict[str, Any]:
    source = {"topic": "in", "start": [], "end": sorted(ends.items())}
    if topic_id:
        source["topic_id"] = topic_id
    names = {"application_id": "app", "query_id": "q", "state_partition": 0}
    return {**names, "source": source, **changed}


def _told(*markers: dict[str, Any]) -> list[str]:
    fold = ChangelogFold([0], MarkerStory("app", "q"))
    for offset, marker in enumerate(markers):
        fold.update(0, KEY, json.dumps(marker).encode(), offset)
    return fold.contradictions


def test_markers_that_go_on_contradict_nothing() -> None:
    grown = [
        _marker({0: 5}),
        _marker({0: 5, 1: 0}),
        _marker({0: 9, 1: 250}),
        _marker({0: 9, 1: 250}),
    ]
    assert _told(*grown) == []


def test_a_marker_that_lost_a_place_makes_the_next_start_read_it_again() -> None:
    """A driver that was planned before the topic grew sends its batch again when it wakes up."""
    told = _told(_marker({0: 100}), _marker({0: 100, 1: 250}), _marker({0: 160}))
    assert told == [
        "q: a commit marker in partition 0 lacks in-1, which the one before it has to 250"
    ]


def test_what_was_lost_is_remembered() -> None:
    told = _told(_marker({0: 1, 1: 250}), _marker({0: 2}), _marker({0: 3, 1: 10}))
    assert told[1:] == ["q: a commit marker in partition 0 goes back from 250 to 10 of in-1"]


@pytest.mark.parametrize(("ids", "count"), [(("a", "a"), 1), (("a", "b"), 0), (("", "b"), 1)])
def test_only_another_topic_of_the_name_is_read_from_its_own_start(
    ids: tuple[str, str], count: int
) -> None:
    before, after = ids
    assert len(_told(_marker({0: 9}, before), _marker({0: 4}, after))) == count


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"state_partition": 3}, "has the state partition 3, not 0"),
        ({"query_id": "other"}, "has the query id other, not q"),
        ({"application_id": "copy"}, "has the application id copy, not app"),
    ],
)
def test_a_marker_of_another_identity_is_told(changed: dict[str, Any], words: str) -> None:
    (told,) = _told(_marker({0: 5}, **changed))
    assert told.endswith(words)


def test_a_query_without_state_goes_back_by_its_source_partition() -> None:
    fold = ProgressFold(MarkerStory("app", "q"))
    for offset in (7, 9, 4):
        value = json.dumps({"topic": "in", "partition": 1, "offset": offset}).encode()
        fold.update(KEY + b".1", value)
    assert fold.contradictions == [
        "q: a commit marker in partition 1 goes back from 9 to 4 of in-1"
    ]
    assert fold.taken_in() == {1: 4}


def test_the_checker_says_invalid() -> None:
    bad = Progress(contradictions=["lacks in-1"])
    assert markers_go_on(evidence(progress=Progress())).verdict is Verdict.VALID
    found = markers_go_on(evidence(progress=bad))
    assert (found.verdict, found.examples) == (Verdict.INVALID, ("lacks in-1",))
