"""A query over another query's stream loses nothing that one over the source itself counts, and
final results are told of every window that closes.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.types.steps import Step
from tests.simulation.histories.directed import Stage, follow, windows

_KEYS = ("k0", "k1", "k2", "k3", "k4")
_DAY_MS = 86_400_000


def _backlog(uneven: bool) -> list[tuple[int, str, int]]:
    """Records of 100 s in two topic partitions, each in time order: partition, key, time.

    Uneven ones are early in one partition and late in the other.
    """
    found = []
    for partition in (0, 1):
        for n in range(200):
            time_ms = n * 500
            early = time_ms < 50_000
            if not uneven or early == (partition == 0) or n % 3 == 0:
                found.append((partition, _KEYS[n % len(_KEYS)], time_ms))
    return found


def _counted(stage: Stage, backlog: list[tuple[int, str, int]]) -> None:
    """Everything is in the windows that a plain count says."""
    want = windows([(key, time_ms) for _, key, time_ms in backlog])
    told = {window: n for window, n in stage.told().items() if window[1] < 100_000}
    lost = {w: (told.get(w), n) for w, n in want.items() if told.get(w) != n}
    assert not lost, f"{len(lost)} of {len(want)} windows are wrong: {sorted(lost.items())[:5]}"
    assert told.keys() == want.keys()


def _written(stage: Stage, backlog: list[tuple[int, str, int]]) -> None:
    for partition, key, time_ms in backlog:
        stage.write_at(partition, key, time_ms)


def _limited(stage: Stage, offsets: int) -> None:
    ingest = replace(stage.settings.ingest, max_offsets_per_trigger=offsets, batch_target_ms=0)
    stage.settings = replace(stage.settings, ingest=ingest)


def _caught_up(stage: Stage) -> None:
    """Both queries in turn, batch by batch, until there is nothing left to do."""
    sides = stage.each_a_driver()
    for _ in range(200):
        for side in sides:
            stage.batch(side)


def test_the_straight_query_counts_everything() -> None:
    def script(stage: Stage) -> None:
        backlog = _backlog(uneven=False)
        _written(stage, backlog)
        stage.drive()
        _counted(stage, backlog)

    assert follow("straight", script).failure == ""


@pytest.mark.parametrize("statement", ["chain", "final-chain"])
def test_a_chain_over_one_ordered_partition_counts_everything(statement: str) -> None:
    def script(stage: Stage) -> None:
        _limited(stage, 12)
        backlog = [record for record in _backlog(uneven=False) if record[0] == 0]
        _written(stage, backlog)
        for key in _KEYS:
            stage.write_at(0, key, 125_000)
        _caught_up(stage)
        _counted(stage, backlog)

    assert follow(statement, script).failure == ""


@pytest.mark.parametrize("statement", ["straight", "chain"])
def test_uneven_partitions_lose_nothing_in_small_batches(statement: str) -> None:
    def script(stage: Stage) -> None:
        _limited(stage, 12)
        backlog = _backlog(uneven=True)
        _written(stage, backlog)
        _caught_up(stage)
        _counted(stage, backlog)

    assert follow(statement, script).failure == ""


def test_a_query_that_reads_while_the_one_before_it_commits_loses_nothing() -> None:
    """One source partition's results are there, the other's are not: no time has passed yet."""

    def script(stage: Stage) -> None:
        backlog = _backlog(uneven=False)
        _written(stage, backlog)
        first, second = stage.each_a_driver()
        stage.until(first, Step.COMMITTED, 0)
        stage.batch(second)
        stage.batch(first)
        for _ in range(10):
            stage.batch(first)  # it has nothing more to read, and shows how far it is
            stage.batch(second)
        _counted(stage, backlog)

    assert follow("chain", script).failure == ""


@pytest.mark.parametrize("apart", [False, True], ids=["in one batch", "in the next batch"])
def test_a_jump_of_stream_time_tells_every_window_that_it_closes(apart: bool) -> None:
    def script(stage: Stage) -> None:
        backlog = [(0, key, at) for at in (0, 12_000, 25_000, 41_000) for key in _KEYS]
        _written(stage, backlog)
        if apart:
            stage.drive()
        for key in _KEYS:
            stage.write_at(0, key, 30 * _DAY_MS)
        stage.drive()
        _counted(stage, backlog)

    assert follow("final", script).failure == ""


def test_results_held_back_at_a_start_are_told_without_another_record() -> None:
    """A new driver's reader reads before its writer is known to be level; then nothing comes."""

    def script(stage: Stage) -> None:
        backlog = _backlog(uneven=False)
        _written(stage, backlog)
        for key in _KEYS:
            for partition in (0, 1):
                stage.write_at(partition, key, _DAY_MS)
        stage.batch(stage.each_a_driver()[0])
        first, second = stage.each_a_driver()
        stage.batch(second)
        assert stage.told() == {}, "nobody knows yet what the writer still has to write"
        for _ in range(3):
            stage.batch(first)
            stage.batch(second)
        _counted(stage, backlog)

    assert follow("final-chain", script).failure == ""


def test_final_results_of_a_chain_are_those_of_the_straight_query() -> None:
    def script(stage: Stage) -> None:
        _limited(stage, 12)
        backlog = _backlog(uneven=True)
        _written(stage, backlog)
        _caught_up(stage)
        for key in _KEYS:
            for partition in (0, 1):
                stage.write_at(partition, key, _DAY_MS)
        _caught_up(stage)
        _counted(stage, backlog)

    assert follow("final-chain", script).failure == ""
