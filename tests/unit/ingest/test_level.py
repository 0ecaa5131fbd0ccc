"""Batches over several topics end at the same record time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from holdfast.ingest.batch_end_by_time import Level, level_end
from holdfast.types.ids import Place

NEWEST = 1 << 41
A, B = ("a", 0), ("b", 0)


def _end(
    logs: dict[Place, list[int]],
    limit: int,
    start: dict[Place, int] | None = None,
    guesses: tuple[int, ...] = (),
) -> dict[Place, int]:
    """`logs`: the record times by topic partition, ascending."""

    def first_at(time_ms: int) -> dict[Place, int]:
        found = {place: bisect_left(times, time_ms) for place, times in logs.items()}
        return {place: at for place, at in found.items() if at < len(logs[place])}

    bounds = {place: (0, len(times)) for place, times in logs.items()}
    return level_end(start or {}, bounds, limit, NEWEST, first_at, guesses).end


def test_a_sparse_topic_does_not_run_ahead_of_a_dense_one() -> None:
    logs = {A: [1_000 + i for i in range(1_000)], B: [1_000 + 100 * i for i in range(1_000)]}
    found = _end(logs, 200)
    assert 100 <= found[A] + found[B] <= 200
    assert found[B] <= 2


def test_a_batch_goes_on_where_the_last_one_ended() -> None:
    logs = {A: list(range(1_000)), B: list(range(0, 1_000, 10))}
    found = _end(logs, 110, start={A: 500, B: 50})
    assert logs[B][found[B] - 1] < logs[A][found[A]]
    assert 82 <= found[A] - 500 + found[B] - 50 <= 110


def test_of_records_of_one_time_a_batch_takes_as_many_as_it_may() -> None:
    logs = {A: [7] * 100 + [9] * 100, B: [7] * 100}
    found = _end(logs, 50)
    assert sum(found.values()) == 50
    assert _end(logs, 190) == {A: 95, B: 95}  # none of a later time


def test_a_record_of_a_time_to_come_does_not_keep_those_behind_it_for_ever() -> None:
    logs = {A: [5, NEWEST + 7] + [6] * 500, B: list(range(100))}
    at: dict[Place, int] = {}
    for _ in range(20):
        at = level_end(at, {p: (0, len(t)) for p, t in logs.items()}, 60, NEWEST, _index(logs)).end
    assert at[A] > 400


def _index(logs: dict[Place, list[int]]) -> Callable[[int], dict[Place, int]]:
    """The first offset at or after a time, of times in any order."""

    def first_at(time_ms: int) -> dict[Place, int]:
        found = {p: [n for n, t in enumerate(times) if t >= time_ms] for p, times in logs.items()}
        return {p: offsets[0] for p, offsets in found.items() if offsets}

    return first_at


def test_a_batch_is_nearly_as_large_as_it_may_be_whatever_was_guessed() -> None:
    logs = {A: list(range(0, 2_000, 2)), B: list(range(1, 2_000, 2))}
    for guess in (110, 120, 160, 900):
        found = _end(logs, 200, guesses=(guess,))
        assert 150 <= sum(found.values()) <= 200


_times = st.lists(st.integers(0, 500), max_size=60).map(sorted)


@given(
    logs=st.fixed_dictionaries({A: _times, B: _times}),
    limit=st.integers(1, 80),
    guesses=st.lists(st.integers(-5, 600), max_size=3).map(tuple),
)
def test_a_batch_never_holds_more_than_the_limit_and_parts_both_at_one_time(
    logs: dict[Place, list[int]], limit: int, guesses: tuple[int, ...]
) -> None:
    if sum(map(len, logs.values())) <= limit:
        return
    found = _end(logs, limit, guesses=guesses)
    assert 0 < sum(found.values()) <= limit
    taken = [logs[p][: found[p]] for p in logs]
    left = [logs[p][found[p] :] for p in logs]
    newest = max(times[-1] for times in taken if times)
    assert all(times[0] >= newest for times in left if times)


def test_a_good_guess_is_all_that_is_asked() -> None:
    asked = []

    def first_at(time_ms: int) -> dict[Place, int]:
        asked.append(time_ms)
        return {A: time_ms, B: time_ms // 2}

    found = level_end({A: 100, B: 50}, {A: (0, 900), B: (0, 450)}, 200, NEWEST, first_at, (220,))
    assert found == Level({A: 220, B: 110}, 220)
    assert asked == [220]
