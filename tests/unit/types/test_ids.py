"""Offsets of one topic and of several."""

from __future__ import annotations

from holdfast.types.ids import OffsetRange


def test_a_range_over_several_topics_has_a_span_for_each_place() -> None:
    starts = {("a", 0): 1, ("b", 0): 2}
    ends = {("a", 0): 4, ("a", 1): 3, ("b", 0): 2}
    found = OffsetRange.over(["b", "a", "b"], starts, ends)
    assert found.topics == ("b", "a")
    assert dict(found) == {("a", 0): (1, 4), ("a", 1): (None, 3), ("b", 0): (2, 2)}
    assert (found.starts(), found.ends()) == (starts, ends)
    assert found.records_max == 3, "a place without a start has nothing"


def test_a_range_over_one_topic_is_the_plain_one() -> None:
    plain = OffsetRange.of("t", {0: 1}, {0: 5})
    assert OffsetRange.over(["t"], {("t", 0): 1}, {("t", 0): 5}) == plain
    assert plain["t", 0] == (1, 5)
