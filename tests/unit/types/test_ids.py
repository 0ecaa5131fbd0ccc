"""Offsets of one topic and of several."""

from __future__ import annotations

from holdfast.types.ids import OffsetRange


def test_a_range_over_several_topics_has_one_part_each() -> None:
    starts = {("a", 0): 1, ("b", 0): 2}
    ends = {("a", 0): 4, ("a", 1): 3, ("b", 0): 2}
    found = OffsetRange.over(["b", "a", "b"], starts, ends)
    assert [part.topic for part in found.parts] == ["b", "a"]
    assert (found.starts(), found.ends()) == ({0: 2}, {0: 2})
    assert (found.start_places(), found.end_places()) == (starts, ends)
    assert found.records_max == 3, "a place without a start has nothing"


def test_a_range_over_one_topic_is_the_plain_one() -> None:
    plain = OffsetRange.of("t", {0: 1}, {0: 5})
    assert OffsetRange.over(["t"], {("t", 0): 1}, {("t", 0): 5}) == plain
    assert plain.parts == (plain,)
