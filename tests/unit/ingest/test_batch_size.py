"""How large the next micro-batch is."""

from __future__ import annotations

import pytest

from holdfast.ingest.batch_size import BatchSize


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _run(size: BatchSize, clock: Clock, rate: float, batches: int) -> list[int]:
    """Sizes of batches of an endless topic, by a query that does `rate` offsets a second."""
    sizes = []
    for _ in range(batches):
        offsets = size.limit()
        assert offsets is not None
        size.planned(offsets, cut=True)
        clock.now += offsets / rate
        sizes.append(offsets)
    return sizes


def test_batches_grow_to_what_fits_into_the_target() -> None:
    clock = Clock()
    sizes = _run(BatchSize(0, 5_000, clock), clock, rate=250_000, batches=4)
    assert sizes == [50_000, 200_000, 800_000, 1_250_000]


def test_batches_shrink_for_a_slow_query() -> None:
    clock = Clock()
    sizes = _run(BatchSize(0, 5_000, clock), clock, rate=4_000, batches=3)
    assert sizes == [50_000, 200_000, 20_000]


def test_a_cold_first_batch_says_nothing_of_the_rate() -> None:
    clock = Clock()
    size = BatchSize(0, 5_000, clock)
    size.planned(50_000, cut=True)
    clock.now += 60
    assert size.limit() == 200_000


def test_a_batch_is_never_so_small_that_it_only_costs() -> None:
    clock = Clock()
    assert _run(BatchSize(0, 5_000, clock), clock, rate=1, batches=3)[-1] == 10_000


@pytest.mark.parametrize("most", [500, 300_000])
def test_the_limit_holds_whatever_was_measured(most: int) -> None:
    clock = Clock()
    sizes = _run(BatchSize(most, 5_000, clock), clock, rate=1_000_000, batches=5)
    assert max(sizes) == most


def test_a_batch_that_took_all_there_was_says_nothing_of_the_rate() -> None:
    clock = Clock()
    size = BatchSize(0, 5_000, clock)
    _run(size, clock, rate=250_000, batches=4)
    before = size.limit()
    size.planned(100, cut=False)
    clock.now += 60  # the topic was quiet
    assert size.limit() == before


def test_without_a_target_the_limit_is_the_size() -> None:
    assert BatchSize(7, 0).limit() == 7
    assert BatchSize(0, 0).limit() is None
