"""A changelog folded: live rows, drops, and state partitions that are not level."""

from __future__ import annotations

import json

from holdfast.chaos.changelog_fold import ChangelogFold
from holdfast.state.changelog import MARKER_KEY, CommitMarker, data_key
from holdfast.types.ids import OffsetRange

BOUNDS = {0: (0, 5), 1: (2, 2)}


def marker(partition: int, end: int, dropped: int = 0) -> bytes:
    source = OffsetRange.of("in", {0: 0, 1: 2}, {0: end, 1: 2})
    return CommitMarker(
        1, "app", "q", partition, 2, "p", "f", "c", source, 0, 3, dropped_late=dropped
    ).to_bytes()


def test_rows_are_live_until_their_tombstone() -> None:
    fold = ChangelogFold([0, 1])
    fold.update(0, data_key(b"a"), b"1")
    fold.update(0, data_key(b"b"), b"1")
    fold.update(1, data_key(b"a"), b"1")
    fold.update(0, data_key(b"a"), None)
    fold.update(0, MARKER_KEY, marker(0, 5))
    fold.update(0, None, b"not ours")
    assert fold.rows == 2


def test_the_engine_s_own_markers_are_understood() -> None:
    fold = ChangelogFold([0, 1])
    fold.update(0, MARKER_KEY, marker(0, 3, dropped=9))
    fold.update(0, MARKER_KEY, marker(0, 5, dropped=1))
    fold.update(1, MARKER_KEY, marker(1, 5, dropped=2))
    assert fold.dropped_late() == 3
    assert list(fold.unlevel(BOUNDS)) == []


def test_a_marker_short_of_the_end_and_a_missing_one_are_not_level() -> None:
    fold = ChangelogFold([0, 1])
    fold.update(0, MARKER_KEY, marker(0, 4))
    assert [text.split(":")[0] for text in fold.unlevel(BOUNDS)] == [
        "state partition 0",
        "state partition 1",
    ]


def test_no_input_needs_no_marker() -> None:
    assert list(ChangelogFold([0]).unlevel({0: (7, 7)})) == []


def test_a_marker_that_does_not_say_what_was_dropped() -> None:
    fold = ChangelogFold([0])
    fold.update(0, MARKER_KEY, json.dumps({"source": {"end": [[0, 5]]}}).encode())
    assert fold.dropped_late() is None
