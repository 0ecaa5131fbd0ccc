"""Where a query starts, decided by the commit markers alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import ChangelogLost, DataLoss
from holdfast.runtime.queries.start import Level, SourceState, start_point, stream_start
from holdfast.state.changelog import FORMAT_VERSION, CommitMarker
from holdfast.state.topics.source_progress import SourceProgress
from holdfast.types.ids import OffsetRange, Place

P0, P1, P2 = (("t", p) for p in range(3))
ID = {"t": "id-1"}
INITIAL = SourceState({P0: 0, P1: 0}, {P0: 0, P1: 0}, ID)
LATEST = SourceState({P0: 90, P1: 90}, {P0: 0, P1: 0}, ID)
ANEW = replace(INITIAL, ids={"t": "id-2"})


def grown(**more: int) -> SourceState:
    """The source with further topic partitions: p2=7 is one whose log starts at 7."""
    first = {**INITIAL.first, **{("t", int(name[1:])): at for name, at in more.items()}}
    return replace(INITIAL, initial=first, first=first)


def done(p: int, offset: int, topic_id: str = "") -> tuple[Place, SourceProgress]:
    return ("t", p), SourceProgress("t", p, offset, topic_id=topic_id)


def marker(
    partition: int, start: dict[int, int], end: dict[int, int], batch_id: int = 0
) -> CommitMarker:
    return CommitMarker(
        format_version=FORMAT_VERSION,
        application_id="app",
        query_id="q",
        state_partition=partition,
        state_partitions=2,
        partitioner="spark-murmur3-v1",
        fingerprint="f",
        canonical="c",
        source=OffsetRange.of("t", start, end),
        stream_time_ms=0,
        batch_id=batch_id,
    )


def both(partition: int, start: int, end: int, batch_id: int = 0) -> CommitMarker:
    return marker(partition, {0: start, 1: start}, {0: end, 1: end}, batch_id)


def told(levels: tuple[Level, ...]) -> dict[frozenset[int], tuple[dict[Place, int], bool]]:
    """By state partitions: where a level starts, and whether it comes as it was planned."""
    return {each.state_partitions: (each.source.starts(), each.planned) for each in levels}


def test_a_query_that_never_ran_starts_at_the_initial_offsets() -> None:
    start = start_point("q", [None, None], INITIAL, {}, rebuild=False)
    assert (start.offsets, start.batch_id, start.levels) == (INITIAL.initial, 0, ())
    assert not start.marked


def test_level_partitions_go_on_after_their_markers() -> None:
    markers = [both(0, 0, 10, 4), both(1, 0, 10, 4)]
    start = start_point("q", markers, INITIAL, {P0: 10}, rebuild=False)
    assert (start.offsets, start.batch_id, start.levels) == ({P0: 10, P1: 10}, 5, ())
    assert start.marked == {P0, P1}


def test_partitions_with_other_last_batches_may_be_level() -> None:
    markers = [both(0, 0, 10, 3), both(1, 5, 10, 4)]
    assert start_point("q", markers, INITIAL, {}, rebuild=False).levels == ()


@pytest.mark.parametrize("behind", [None, both(1, 0, 10, 0)])
def test_a_partition_one_batch_behind_gets_that_batch_as_it_was(
    behind: CommitMarker | None,
) -> None:
    first = 0 if behind is None else 10
    leader = both(0, first, 20, 0 if behind is None else 1)
    start = start_point("q", [leader, behind], INITIAL, {}, rebuild=False)
    (level,) = start.levels
    assert level.source == replace(leader.source, ids={"t": "id-1"})
    assert (level.state_partitions, level.planned) == (frozenset({1}), True)
    assert level.beginners == ({1} if behind is None else frozenset())
    assert start.offsets == {P0: 20, P1: 20}


def test_two_drivers_that_were_not_level_in_different_places_are_both_brought_level() -> None:
    """A took p0 [100, 160) into one state partition, B p1 [100, 200) into another."""
    of_a = marker(0, {0: 100, 1: 100}, {0: 160, 1: 100}, 3)
    of_b = marker(1, {0: 100, 1: 100}, {0: 100, 1: 200}, 3)
    neither = both(2, 0, 100, 2)
    start = start_point("q", [of_a, of_b, neither], INITIAL, {P0: 100, P1: 100}, rebuild=False)
    assert start.offsets == {P0: 160, P1: 200}
    assert told(start.levels) == {
        frozenset({0}): ({P0: 160, P1: 100}, False),
        frozenset({1}): ({P0: 100, P1: 200}, False),
        frozenset({2}): ({P0: 100, P1: 100}, False),
    }
    assert {level.source["t", 0].end for level in start.levels} == {160}


def test_partitions_more_than_one_batch_apart_are_brought_level_too() -> None:
    start = start_point("q", [both(0, 20, 30, 2), both(1, 0, 10, 0)], INITIAL, {}, rebuild=False)
    assert told(start.levels) == {frozenset({1}): ({P0: 10, P1: 10}, False)}
    assert start.offsets == {P0: 30, P1: 30}


def test_a_place_that_only_others_have_begins_where_they_began_it() -> None:
    old, new = marker(0, {0: 0}, {0: 50}, 1), marker(1, {0: 50, 1: 7}, {0: 50, 1: 90}, 2)
    start = start_point("q", [old, new], grown(p1=7), {}, rebuild=False)
    assert told(start.levels) == {frozenset({0}): ({P0: 50, P1: 7}, True)}
    assert start.offsets == {P0: 50, P1: 90}


def test_a_lost_changelog_is_noticed_by_the_group_and_refused_unless_told() -> None:
    with pytest.raises(ChangelogLost, match="holds no commit marker"):
        start_point("q", [None, None], INITIAL, {P0: 7}, rebuild=False)
    assert start_point("q", [None, None], INITIAL, {P0: 7}, rebuild=True).offsets == INITIAL.initial


@pytest.mark.parametrize(
    "leader",
    [both(0, 10, 20, 1), both(0, 10, 20, 0)],
    ids=["of a second batch", "that began later than the query"],
)
def test_one_partition_without_a_marker_is_a_loss_when_others_are_further(
    leader: CommitMarker,
) -> None:
    with pytest.raises(ChangelogLost, match="state partition 1 has no commit marker"):
        start_point("q", [leader, None], INITIAL, {}, rebuild=False)
    start = start_point("q", [leader, None], INITIAL, {}, rebuild=True)
    (level,) = start.levels
    assert level.state_partitions == level.beginners == {1}
    assert level.source == OffsetRange.of("t", {0: 0, 1: 0}, {0: 20, 1: 20}, "id-1")
    assert not level.planned
    assert start.offsets == {P0: 20, P1: 20}


def test_a_lost_partition_begins_where_the_query_had_begun() -> None:
    """Not where its source begins now: a query may have begun at the latest records."""
    origin = (("t", 0, 3), ("t", 1, 4))
    leader = replace(both(0, 10, 20, 1), origin=origin)
    (level,) = start_point("q", [leader, None], LATEST, {}, rebuild=True).levels
    assert level.source.starts() == {P0: 3, P1: 4}


def test_a_partition_behind_what_the_group_shows_has_lost_its_tail() -> None:
    markers = [both(0, 10, 20, 1), both(1, 0, 10, 0)]
    shown = {P0: 20, P1: 10}
    with pytest.raises(ChangelogLost, match=r"state partition 1 is behind .*t-0: committed 10"):
        start_point("q", markers, INITIAL, shown, rebuild=False)
    start = start_point("q", markers, INITIAL, shown, rebuild=True)
    assert [level.state_partitions for level in start.levels] == [{1}]


def test_a_new_topic_partition_starts_at_its_beginning() -> None:
    start = start_point("q", [both(0, 0, 10), both(1, 0, 10)], grown(p2=4), {}, rebuild=False)
    assert start.offsets == {P0: 10, P1: 10, P2: 4}
    assert P2 not in start.marked


def test_a_query_without_state_goes_on_after_its_markers() -> None:
    assert stream_start("q", {}, INITIAL, {}, rebuild=False).offsets == INITIAL.initial
    start = stream_start("q", dict([done(1, 9)]), INITIAL, {P1: 8}, rebuild=False)
    assert start.offsets == {P0: 0, P1: 9}, "the group's offsets decide nothing"


def test_a_lost_progress_topic_is_noticed_by_the_group_and_refused_unless_told() -> None:
    with pytest.raises(ChangelogLost, match="its progress topic holds no commit marker"):
        stream_start("q", {}, INITIAL, {P0: 7}, rebuild=False)
    assert stream_start("q", {}, INITIAL, {P0: 7}, rebuild=True).offsets == INITIAL.initial


@pytest.mark.parametrize("known", [[done(0, 100)], [done(0, 100), done(1, 90)]])
def test_one_lost_marker_of_a_query_without_state_is_a_loss(
    known: list[tuple[Place, SourceProgress]],
) -> None:
    with pytest.raises(ChangelogLost, match=r"t-1: committed (nothing|90), shown 100"):
        stream_start("q", dict(known), INITIAL, {P0: 100, P1: 100}, rebuild=False)
    start = stream_start("q", dict(known), INITIAL, {P0: 100, P1: 100}, rebuild=True)
    assert start.offsets == {**INITIAL.initial, **{place: m.offset for place, m in known}}


def test_a_quiet_topic_partition_without_a_marker_is_none() -> None:
    """A version before this one showed where a query begins, too."""
    known = dict([done(0, 100)])
    start = stream_start("q", known, LATEST, {P0: 100, P1: 30}, rebuild=False)
    assert start.offsets == {P0: 100, P1: 90}
    known = dict([done(0, 100, "id-1")])
    with pytest.raises(ChangelogLost, match="t-1: committed nothing, shown 30"):
        stream_start("q", known, LATEST, {P0: 100, P1: 30}, rebuild=False)


# -- topics that are made again ----------------------------------------------------------------


def of_id(m: CommitMarker, topic_id: str) -> CommitMarker:
    return replace(
        m, source=replace(m.source, ids={"t": topic_id}), origin=(("t", 0, 0), ("t", 1, 0))
    )


def test_offsets_of_a_topic_that_was_made_again_are_refused() -> None:
    markers = [of_id(both(p, 0, 100), "id-1") for p in range(2)]
    told = "t had the id id-1, it has id-2 now, and t-0: 100, t-1: 100 of the former topic"
    with pytest.raises(DataLoss, match=told):
        start_point("q", markers, ANEW, {P0: 100}, rebuild=False)


def test_a_topic_that_was_made_again_is_read_from_its_start_where_that_is_allowed() -> None:
    markers = [of_id(both(p, 0, 100, 4), "id-1") for p in range(2)]
    now = replace(ANEW, first={P0: 3, P1: 0}, fail_on_data_loss=False)
    start = start_point("q", markers, now, {P0: 100}, rebuild=False)
    assert (start.offsets, start.batch_id, start.levels) == ({P0: 3, P1: 0}, 5, ())
    assert not start.marked
    assert start.replaced == {"id-1"}


@pytest.mark.parametrize("fail", [False, True])
def test_a_topic_that_one_state_partition_has_taken_over_is_read_by_the_others_too(
    fail: bool,
) -> None:
    ahead, behind = of_id(both(0, 2, 50, 5), "id-2"), of_id(both(1, 0, 100, 4), "id-1")
    now = replace(ANEW, fail_on_data_loss=fail)
    ahead = replace(ahead, origin=(("t", 0, 2), ("t", 1, 2)))
    start = start_point("q", [ahead, behind], now, {P0: 100}, rebuild=False)
    assert start.offsets == {P0: 50, P1: 50}
    assert told(start.levels) == {frozenset({1}): ({P0: 2, P1: 2}, True)}
    assert start.levels[0].source.ids == {"t": "id-2"}
    assert start.replaced == {"id-1"}


def test_an_id_that_nobody_wrote_down_is_taken_over() -> None:
    start = start_point("q", [both(0, 0, 10), both(1, 0, 10)], ANEW, {}, rebuild=False)
    assert (start.offsets, start.replaced) == ({P0: 10, P1: 10}, frozenset())


def test_a_query_without_state_notices_that_its_topic_was_made_again() -> None:
    known = dict([done(0, 100, "id-1"), done(1, 50, "id-1")])
    with pytest.raises(DataLoss, match="t-0: 100, t-1: 50 of the former topic"):
        stream_start("q", known, ANEW, {}, rebuild=False)
    now = replace(ANEW, initial={P0: 7, P1: 7}, fail_on_data_loss=False)
    start = stream_start("q", known, now, {P0: 100, P1: 50}, rebuild=False)
    assert start.offsets == {P0: 0, P1: 0}
    assert start.replaced == {"id-1"}
    quiet = dict([done(0, 4, "id-2"), done(1, 50, "id-1")])
    assert stream_start("q", quiet, ANEW, {}, rebuild=False).offsets == {P0: 4, P1: 0}
