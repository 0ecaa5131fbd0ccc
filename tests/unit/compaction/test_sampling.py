"""Samples of logs of which everything is known."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable

import pytest

from holdfast.compaction.survey.facts import Estimate, How
from holdfast.compaction.survey.partition import Sampled
from holdfast.compaction.survey.records import Expiry, _counted
from holdfast.compaction.survey.sampling import Counts, OffsetSpan, ranges_over, sample, total
from holdfast.state.changelog import data_key
from holdfast.state.elements import element_head
from holdfast.tasks.evaluate.keys import window_key
from holdfast.transport.reader import Chunk

OFFSETS = 200_000
SEEDS = 40


class Log:
    """Records at some offsets, every twentieth a tombstone; knows how much was read of it."""

    def __init__(self, chance_at: Callable[[int], float]) -> None:
        dice = random.Random(7)
        self.records = [n for n in range(OFFSETS) if dice.random() < chance_at(n)]
        self.tombstones = frozenset(dice.sample(self.records, len(self.records) // 20))
        self.read_records = 0

    def read(self, span: OffsetSpan, records_max: int) -> Counts:
        low, high = bisect_left(self.records, span.start), bisect_left(self.records, span.end)
        if high - low > records_max:
            high = low + records_max
            span = OffsetSpan(span.start, self.records[high - 1] + 1)
        found = self.records[low:high]
        self.read_records += len(found)
        return Counts(span, len(found), sum(n in self.tombstones for n in found))

    def sampled(self, records_max: int, seed: int) -> tuple[Estimate, Estimate]:
        span, chance = OffsetSpan(0, OFFSETS), random.Random(seed)
        ranges = sample(span, records_max, self.read, chance)
        return (
            total(span, ranges, lambda c: c.records),
            total(span, ranges, lambda c: c.tombstones),
        )


def _mostly_cleaned(offset: int) -> float:
    return 0.02 if offset < 0.9 * OFFSETS else 0.98


LOGS = {
    "dense": Log(lambda _: 0.98),
    "thin": Log(lambda _: 0.05),
    "cleaned, with a dirty end": Log(_mostly_cleaned),
    "cleaned here and there": Log(lambda n: 0.9 if n // 10_000 % 2 else 0.1),
}


@pytest.mark.parametrize("name", LOGS)
def test_an_estimate_is_off_by_no_more_than_it_says_nineteen_times_of_twenty(name: str) -> None:
    log, records, tombstones = LOGS[name], 0, 0
    for seed in range(SEEDS):
        found, dead = log.sampled(4_000, seed)
        assert found.how is How.SAMPLED
        records += abs(found.value - len(log.records)) <= found.error
        tombstones += abs(dead.value - len(log.tombstones)) <= dead.error
    # Forty trials of a true 95 % show 34 or more in all but 0.3 % of cases; seeds are fixed.
    assert records >= 34
    assert tombstones >= 34


@pytest.mark.parametrize("name", LOGS)
def test_no_more_records_are_read_than_were_allowed(name: str) -> None:
    log = LOGS[name]
    for seed in range(SEEDS):
        log.read_records = 0
        log.sampled(4_000, seed)
        assert 0 < log.read_records <= 4_000


def test_most_of_what_may_be_read_is_read_of_a_thin_log() -> None:
    log = LOGS["thin"]
    log.read_records = 0
    log.sampled(4_000, 1)
    assert log.read_records > 2_500


def test_an_even_log_is_known_better_than_an_uneven_one() -> None:
    even, _ = LOGS["dense"].sampled(4_000, 3)
    uneven, _ = LOGS["cleaned, with a dirty end"].sampled(4_000, 3)
    assert even.error / even.value < 0.02 < uneven.error / uneven.value


def test_a_log_that_fits_is_counted() -> None:
    log = Log(lambda _: 0.5)
    span = OffsetSpan(100, 1_100)
    found = total(span, sample(span, 2_000, log.read, random.Random(1)), lambda c: c.records)
    inside = sum(100 <= n < 1_100 for n in log.records)
    assert found == Estimate(float(inside))


def test_a_thin_log_whose_records_fit_is_counted_too() -> None:
    log = Log(lambda n: float(n % 100 == 0))
    found, _ = log.sampled(4_000, 5)
    assert found == Estimate(2_000.0)


def test_no_difference_seen_is_not_none_there() -> None:
    span = OffsetSpan(0, 10_000)
    ranges = [Counts(OffsetSpan(n, n + 100), records=100) for n in range(0, 10_000, 1_000)]
    none, every = (
        total(span, ranges, lambda c: c.tombstones),
        total(span, ranges, lambda c: c.records),
    )
    # With at most 3 in 1,000 offsets, 1,000 would show none in 5 % of cases; 9,000 are left.
    assert (none.value, every.value) == (0.0, 10_000.0)
    assert none.error == every.error == pytest.approx(27.0)


def test_the_formula_gives_what_it_gives_by_hand() -> None:
    counts = (10, 20, 30, 20)
    ranges = [Counts(OffsetSpan(n * 250, n * 250 + 50), c) for n, c in enumerate(counts)]
    found = total(OffsetSpan(0, 1_000), ranges, lambda c: c.records)
    # Σy/Σx = 80/200; differences 10, 10, -10; V = (1 - 0.2)·4/(2·3)·300 = 160; t of 3 is 3.18.
    assert found.value == pytest.approx(400.0)
    assert found.error == pytest.approx(3.18 * 1_000 * 160**0.5 / 200)


def test_one_range_of_many_says_hardly_anything() -> None:
    found = total(OffsetSpan(0, 1_000), [Counts(OffsetSpan(0, 10), 5)], lambda c: c.records)
    assert (found.value, found.error) == (500.0, 500.0)
    assert not total(OffsetSpan(0, 1_000), [], lambda c: c.records).known


def test_each_stratum_has_one_range() -> None:
    found = ranges_over(OffsetSpan(1_000, 2_000), 10, 30, random.Random(2))
    assert [(r.start - 1_000) // 100 for r in found] == list(range(10))
    assert [(r.end - 1_001) // 100 for r in found] == list(range(10))
    assert {r.offsets for r in found} == {30}


def test_ranges_longer_than_their_strata_are_the_whole() -> None:
    found = ranges_over(OffsetSpan(0, 7), 3, 100, random.Random(2))
    assert [n for r in found for n in range(r.start, r.end)] == list(range(7))
    assert len(ranges_over(OffsetSpan(0, 2), 5, 100, random.Random(2))) == 2


def test_the_same_seed_reads_the_same_ranges() -> None:
    log = LOGS["dense"]
    assert log.sampled(4_000, 9) == log.sampled(4_000, 9) != log.sampled(4_000, 10)


def test_elements_are_live_keys_beside_the_rows_of_the_store() -> None:
    span, expiry = OffsetSpan(0, 1_000), Expiry()
    ranges = [Counts(OffsetSpan(n, n + 100), 90, elements=80) for n in (0, 300, 600)]
    sampled, rows = Sampled(span, ranges, Estimate.unknown(), expiry), Estimate(7.0)
    assert sampled.live(rows).value == pytest.approx(807.0)
    assert sampled.live(rows).how is How.SAMPLED
    assert not sampled.live(Estimate.unknown()).known
    assert Sampled(span, ranges, Estimate(5.0), expiry).live(rows) == Estimate(5.0)
    without = [Counts(OffsetSpan(n, n + 100), 90) for n in (0, 300)]
    assert Sampled(span, without, Estimate.unknown(), expiry).live(rows) == rows


def test_elements_and_their_expired_windows_are_told_apart() -> None:
    def name(start: int) -> bytes:
        return element_head(window_key(b"k", start)) + b"\0\0x"

    row = data_key(window_key(b"k", 5))
    keys: list[bytes | None] = [name(5), name(50), name(50), row, b"foreign"]
    values: list[bytes | None] = [b"1", b"1", None, b"1", b"1"]
    chunk = Chunk(keys, values, list(range(5)), [0] * 5, 5)
    found = _counted(OffsetSpan(0, 5), [chunk], Expiry(before_ms=10))
    assert (found.records, found.elements, found.expired, found.tombstones) == (5, 1, 2, 1)
