"""Where batches end whose sources other queries write."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.ingest.chained import Chained
from holdfast.ingest.cuts import Cut, CutBook, cuts_in
from holdfast.types.ids import Place
from holdfast.types.ingest import Planned
from holdfast.types.times import FOREVER, NO_TIME

A, B, OTHER = ("a", 0), ("a", 1), ("b", 0)
BOUNDS = {A: (0, 30), B: (0, 30)}
CUTS = {"a": [Cut({A: 5, B: 5}, 100), Cut({A: 20, B: 10}, 200), Cut({A: 25, B: 25}, FOREVER)]}


def chained(begin: dict[Place, int], cuts: dict[str, list[Cut]] | None = None) -> Chained:
    return Chained(begin, BOUNDS, CUTS if cuts is None else cuts)


@pytest.mark.parametrize(
    ("limit", "end", "watermark"),
    [(None, 25, FOREVER), (50, 25, FOREVER), (49, 20, 200), (10, 5, 100)],
)
def test_a_batch_ends_at_the_last_cut_that_it_can_hold(
    limit: int | None, end: int, watermark: int
) -> None:
    planned = chained({A: 0, B: 0}).at_a_cut(limit)
    assert planned is not None
    assert (planned.end[A], planned.watermark_ms) == (end, watermark)


def test_a_batch_within_a_cut_leaves_stream_time_where_it_is() -> None:
    small = chained({A: 5, B: 5})
    assert small.at_a_cut(10) is None
    assert small.open_bounds == {A: (0, 20), B: (0, 10)}
    assert small.within_a_cut(Planned({A: 12, B: 8}, 150)).watermark_ms == NO_TIME
    assert small.within_a_cut(Planned({A: 20, B: 10}, FOREVER)).watermark_ms == 200


def test_what_lies_behind_the_last_cut_is_awaited() -> None:
    begin = {A: 25, B: 25}
    planned = chained(begin).at_a_cut(None)
    assert planned is not None
    assert planned == Planned(begin, FOREVER, FOREVER)
    assert not chained(begin).leaves(begin)


def test_beyond_the_last_cut_stream_time_stays() -> None:
    begin = {A: 26, B: 25}
    beyond = chained(begin)
    assert beyond.at_a_cut(None) is None
    assert beyond.open_bounds == {A: (0, 26), B: (0, 25)}
    assert beyond.within_a_cut(Planned(begin, FOREVER)) == Planned(begin, NO_TIME, NO_TIME)


def test_before_the_first_cut_everything_is_read_and_stream_time_stays() -> None:
    first = chained({A: 0, B: 0}, {"a": []})
    assert first.at_a_cut(None) is None
    assert first.open_bounds == BOUNDS
    assert first.within_a_cut(Planned({A: 30, B: 30}, FOREVER)).watermark_ms == NO_TIME


def test_of_several_topics_the_lowest_watermark_counts() -> None:
    bounds = {**BOUNDS, OTHER: (0, 9)}
    both = {"a": CUTS["a"][-1:], "b": [Cut({OTHER: 9}, 70)]}
    planned = Chained({A: 0, B: 0, OTHER: 0}, bounds, both).at_a_cut(None)
    assert planned is not None
    assert planned.watermark_ms == 70


def test_a_cut_counts_for_what_all_writers_have_reached(tmp_path: Path) -> None:
    book = CutBook(tmp_path / "cuts.json", {"a": frozenset({"q1", "q2"})})
    book.ended("q1", FOREVER, {A: 3})
    book.ended("q2", 50, {A: 7})
    assert cuts_in(book.file, ["a", "b"]) == {"a": [Cut({A: 3}, NO_TIME), Cut({A: 7}, 50)]}


def test_many_cuts_are_thinned_out_and_the_last_stays(tmp_path: Path) -> None:
    book = CutBook(tmp_path / "cuts.json", {"a": frozenset({"q"})})
    for n in range(1, 1_000):
        book.ended("q", n, {A: n})
    found = cuts_in(book.file, ["a"])["a"]
    assert len(found) <= 256
    assert found[-1] == Cut({A: 999}, 999)
