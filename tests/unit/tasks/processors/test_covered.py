"""Which batches a commit marker lets in, and what it says after them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import OffsetOverlap, PlanAgain, Retriable
from holdfast.state.changelog import CommitMarker, origin_after
from holdfast.tasks.state_task import covered
from holdfast.types.ids import OffsetRange
from tests.unit.runtime.queries.test_start import marker

LAST = marker(0, {0: 10, 1: 5}, {0: 20, 1: 8})


@pytest.mark.parametrize(
    ("start", "end", "done"),
    [
        ({0: 20, 1: 8}, {0: 30, 1: 8}, False),
        ({0: 10, 1: 5}, {0: 20, 1: 8}, True),
        ({0: 0, 1: 0}, {0: 10, 1: 5}, True),
        ({0: 20, 1: 8, 2: 7}, {0: 20, 1: 8, 2: 7}, False),
        ({0: 20, 1: 8, 2: 7}, {0: 20, 1: 8, 2: 9}, False),
    ],
    ids=["the next", "the last", "one before", "a new place", "records of a new place"],
)
def test_a_batch_that_fits(start: dict[int, int], end: dict[int, int], done: bool) -> None:
    assert covered(LAST, OffsetRange.of("t", start, end), "here") is done


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        ({0: 10, 1: 5}, {0: 30, 1: 8}, "t partition 0: batch 10..30, committed up to 20"),
        ({0: 25, 1: 8}, {0: 30, 1: 8}, "t partition 0: batch 25..30, committed up to 20"),
        ({0: 20}, {0: 30}, "t partition 1: not in the batch, committed up to 8"),
        ({0: 10}, {0: 20}, "t partition 1: not in the batch, committed up to 8"),
    ],
    ids=["beyond the last", "a gap", "without a place", "the last, without a place"],
)
def test_a_batch_that_is_planned_again(
    start: dict[int, int], end: dict[int, int], told: str
) -> None:
    with pytest.raises(OffsetOverlap, match=told) as raised:
        covered(LAST, OffsetRange.of("t", start, end), "here")
    assert isinstance(raised.value, PlanAgain)
    assert not isinstance(raised.value, Retriable), "never sent again as it was"


def test_a_place_that_a_batch_lacks_keeps_its_end() -> None:
    ends = {("t", 0): 100, ("t", 1): 150, ("u", 0): 4}
    last = OffsetRange.over(["t", "u"], {("t", 0): 0, ("t", 1): 0, ("u", 0): 1}, ends)
    merged = OffsetRange.of("t", {0: 100}, {0: 130}).after(last)
    assert merged.starts() == {("t", 0): 100, ("t", 1): 150, ("u", 0): 4}
    assert merged.ends() == {("t", 0): 130, ("t", 1): 150, ("u", 0): 4}


def test_a_batch_of_all_places_is_the_marker_s_source() -> None:
    batch = OffsetRange.of("t", {0: 20, 1: 8}, {0: 30, 1: 9})
    assert batch.after(LAST.source) is batch
    assert batch.after(None) is batch


def test_a_marker_remembers_where_each_place_was_begun() -> None:
    first = origin_after(None, OffsetRange.of("t", {0: 3}, {0: 10}))
    assert first == (("t", 0, 3),)
    last = replace(marker(0, {0: 3}, {0: 10}), origin=first)
    assert CommitMarker.from_bytes(last.to_bytes()) == last
    then = origin_after(last, OffsetRange.of("t", {0: 10, 1: 7}, {0: 20, 1: 7}))
    assert then == (("t", 0, 3), ("t", 1, 7))


def test_a_marker_of_a_version_that_wrote_no_origin_is_read_and_says_nothing_of_it() -> None:
    assert b"origin" not in LAST.to_bytes()
    assert CommitMarker.from_bytes(LAST.to_bytes()) == LAST
    then = origin_after(LAST, OffsetRange.of("t", {0: 20, 1: 8, 2: 4}, {0: 21, 1: 9, 2: 5}))
    assert then == (("t", 2, 4),)


def test_offsets_of_two_topic_ids_are_not_compared() -> None:
    batch = OffsetRange.of("t", {0: 0, 1: 0}, {0: 10, 1: 5}, "new")
    assert covered(LAST, batch, "here"), "an id that nobody wrote down is any"
    of_old = replace(LAST, source=replace(LAST.source, ids={"t": "old"}))
    with pytest.raises(OffsetOverlap, match=r"with the id new, here has committed .* the id old"):
        covered(of_old, batch, "here")
    assert not covered(of_old.without({"old"}), batch, "here")
    taken_over = batch.after(of_old.without({"old"}).source)
    assert (taken_over, taken_over.ids) == (batch, {"t": "new"})


def test_a_topic_id_is_written_down_where_it_is_known() -> None:
    assert b"topic_id" not in LAST.to_bytes()
    ids = {"t": "id-t", "u": "id-u"}
    starts, ends = LAST.source.starts(), LAST.source.ends()
    source = OffsetRange.over(["t", "u"], {**starts, ("u", 0): 1}, {**ends, ("u", 0): 4}, ids)
    both = replace(LAST, source=source)
    assert CommitMarker.from_bytes(both.to_bytes()) == both
    assert both.source.ids == ids
    assert both.without({"id-t"}).source.ends() == {("u", 0): 4}
    next_ = OffsetRange.of("t", {0: 20, 1: 8}, {0: 30, 1: 9}).after(both.source)
    assert next_.ids == both.source.ids, "a batch that says none keeps them"
