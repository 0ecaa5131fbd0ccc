"""Where a query starts, decided by the commit markers alone."""

from __future__ import annotations

import pytest

from holdfast.errors import ChangelogLost, OffsetOverlap
from holdfast.runtime.start import start_point, stream_start
from holdfast.state.changelog import FORMAT_VERSION, CommitMarker
from holdfast.types.ids import OffsetRange

INITIAL = {("t", 0): 0, ("t", 1): 0}


def _marker(partition: int, start: int, end: int, batch_id: int = 0) -> CommitMarker:
    return CommitMarker(
        format_version=FORMAT_VERSION,
        application_id="app",
        query_id="q",
        state_partition=partition,
        state_partitions=2,
        partitioner="spark-murmur3-v1",
        fingerprint="f",
        canonical="c",
        source=OffsetRange.of("t", {0: start, 1: start}, {0: end, 1: end}),
        stream_time_ms=0,
        batch_id=batch_id,
    )


def test_a_query_that_never_ran_starts_at_the_initial_offsets() -> None:
    start = start_point("q", [None, None], INITIAL, {}, rebuild=False)
    assert (start.offsets, start.batch_id, start.level) == (INITIAL, 0, None)


def test_level_partitions_go_on_after_their_markers() -> None:
    markers = [_marker(0, 0, 10, 4), _marker(1, 0, 10, 4)]
    start = start_point("q", markers, INITIAL, {("t", 0): 10}, rebuild=False)
    assert (start.offsets, start.batch_id, start.level) == ({("t", 0): 10, ("t", 1): 10}, 5, None)


@pytest.mark.parametrize("behind", [None, _marker(1, 0, 10, 0)])
def test_a_partition_one_batch_behind_is_brought_level(behind: CommitMarker | None) -> None:
    first = 0 if behind is None else 10
    leader = _marker(0, first, 20, 1)
    start = start_point("q", [leader, behind], INITIAL, {}, rebuild=False)
    assert start.level == leader.source
    assert start.offsets == {("t", 0): 20, ("t", 1): 20}


def test_more_than_one_batch_apart_is_refused() -> None:
    with pytest.raises(OffsetOverlap, match="state partition 1 has committed up to"):
        start_point("q", [_marker(0, 20, 30, 2), _marker(1, 0, 10, 0)], INITIAL, {}, rebuild=False)


def test_a_lost_changelog_is_noticed_by_the_group_and_refused_unless_told() -> None:
    with pytest.raises(ChangelogLost, match="holds no commit marker"):
        start_point("q", [None, None], INITIAL, {("t", 0): 7}, rebuild=False)
    start = start_point("q", [None, None], INITIAL, {("t", 0): 7}, rebuild=True)
    assert start.offsets == INITIAL


def test_a_new_topic_partition_starts_at_its_beginning() -> None:
    markers = [_marker(0, 0, 10), _marker(1, 0, 10)]
    start = start_point("q", markers, {**INITIAL, ("t", 2): 0}, {}, rebuild=False)
    assert start.offsets == {("t", 0): 10, ("t", 1): 10, ("t", 2): 0}


def test_a_query_without_state_goes_on_after_its_markers() -> None:
    assert stream_start("q", {}, INITIAL, {}, rebuild=False).offsets == INITIAL
    start = stream_start("q", {("t", 1): 9}, INITIAL, {("t", 0): 3, ("t", 1): 12}, rebuild=False)
    assert start.offsets == {("t", 0): 0, ("t", 1): 9}, "the group's offsets decide nothing"


def test_a_lost_progress_topic_is_noticed_by_the_group_and_refused_unless_told() -> None:
    with pytest.raises(ChangelogLost, match="its progress topic holds no commit marker"):
        stream_start("q", {}, INITIAL, {("t", 0): 7}, rebuild=False)
    assert stream_start("q", {}, INITIAL, {("t", 0): 7}, rebuild=True).offsets == INITIAL
