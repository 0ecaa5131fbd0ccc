from __future__ import annotations

from dataclasses import replace
from math import inf

from holdfast.serve.console.activity import (
    Activity,
    QuerySample,
    Sample,
    TableSample,
    sample_of,
)
from holdfast.serve.console.drivers import Counters, Driver
from holdfast.serve.contract import Holding, Member, MemberState, PartitionState


def held(server: str, table: str, partition: int, position: int, end: int) -> Member:
    state = PartitionState(partition, position, end, server=server)
    return Member(server, "", MemberState.READY, 1, (Holding(table, partition, state),))


def took(tenth: float, fifth: float, any_time: float) -> tuple[tuple[float, float], ...]:
    """How many commits took no longer than 0.1 and 0.2 s, and how many there were."""
    return (0.1, tenth), (0.2, fifth), (inf, any_time)


def test_commits_that_take_longer_than_all_bounds_are_told_by_the_last() -> None:
    activity = Activity()
    activity.add(Sample(0, {"a/q": QuerySample(1, 0, commits=took(0, 0, 0))}))
    activity.add(Sample(2_000, {"a/q": QuerySample(1, 0, commits=took(0, 0, 4))}))
    activity.add(Sample(4_000, {"a/q": QuerySample(1, 0, commits=took(0, 0, 4))}))
    series = activity.since()["queries"]["a/q"]
    assert (series["commit_p50_s"], series["commit_p99_s"]) == ([0.2, None], [0.2, None])


def test_rates_are_between_two_moments() -> None:
    activity = Activity()
    activity.add(
        Sample(
            1_000, {"a/q": QuerySample(100, 5, 1.0, 2, took(8, 8, 8))}, {"T": TableSample(10, 8)}
        )
    )
    activity.add(
        Sample(
            3_000,
            {"a/q": QuerySample(500, 7, 2.5, 3, took(12, 28, 28))},
            {"T": TableSample(30, 30)},
        )
    )
    told = activity.since()
    assert told["at_ms"] == [3_000]
    assert told["queries"]["a/q"] == {
        "records_s": [200.0], "lag": [7], "batch_s": [1.5],
        "commit_p50_s": [0.1375], "commit_p99_s": [0.19875],
    }  # fmt: skip
    assert told["tables"]["T"] == {"changes_s": [10.0], "lag": [0]}


def test_a_driver_that_began_anew_leaves_a_gap_and_no_negative_rate() -> None:
    activity = Activity()
    activity.add(Sample(0, {"a/q": QuerySample(900, 0, 9.0, 9, took(9, 9, 9))}))
    activity.add(Sample(2_000, {"a/q": QuerySample(100, 0, 1.0, 1, took(1, 1, 1))}))
    series = activity.since()["queries"]["a/q"]
    assert (series["records_s"], series["batch_s"]) == ([None], [None])
    assert (series["commit_p50_s"], series["commit_p99_s"]) == ([None], [None])


def test_a_query_that_comes_and_goes_has_a_value_for_every_moment() -> None:
    activity = Activity()
    activity.add(Sample(0))
    activity.add(Sample(2_000, {"a/q": QuerySample(10, 1)}))
    activity.add(Sample(4_000, {"a/q": QuerySample(30, 1)}))
    activity.add(Sample(6_000))
    series = activity.since()["queries"]["a/q"]
    assert series["records_s"] == [None, 10.0, None]
    assert series["lag"] == [1, 1, None]


def test_only_what_is_newer_is_told_and_only_so_much_is_kept() -> None:
    activity = Activity(kept=3)
    for second in range(5):
        activity.add(Sample(second * 1_000))
    assert activity.since()["at_ms"] == [3_000, 4_000]
    assert activity.since(3_000)["at_ms"] == [4_000]
    assert activity.since(4_000)["at_ms"] == []


def test_a_table_is_as_far_as_the_best_holder_of_each_partition() -> None:
    members = [held("0", "T", 0, 7, 10), held("1", "T", 0, 9, 9), held("0", "T", 1, 4, 4)]
    assert sample_of(5, [], members).tables["T"] == TableSample(end=14, position=13)
    gone = [replace(m, state=MemberState.GONE) if m.server_id == "1" else m for m in members]
    assert sample_of(5, [], gone).tables["T"] == TableSample(end=14, position=11)


def test_drivers_that_do_not_answer_say_nothing() -> None:
    status = {"application_id": "a", "queries": {"q": {"records_total": 3, "lag": 2}}}
    old = Driver(status, answers=False)
    assert sample_of(1, [old], []).queries == {}
    now = Driver(status, answers=True, counters={"q": Counters(1.0, 2.0, took(3, 4, 4))})
    assert sample_of(1, [now], []).queries == {"a/q": QuerySample(3, 2, 1.0, 2.0, took(3, 4, 4))}
