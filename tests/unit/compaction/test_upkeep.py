"""Settings typed, and what a cleaner can do."""

from __future__ import annotations

import math

import pytest

from holdfast.compaction.survey.facts import CleanerState
from holdfast.compaction.survey.upkeep import Capacity, Upkeep
from tests.unit.compaction.surveys import MIB, a_broker, a_topic, own_settings


def test_settings_of_a_changelog_are_typed() -> None:
    settings = own_settings(
        min_cleanable_dirty_ratio="0.25", segment_ms="5000", cleanup_policy="delete, compact"
    )
    found = Upkeep.of(a_topic(settings=settings))
    assert found.dirty_ratio == 0.25
    assert found.roll_s == 5
    assert found.segment_bytes == 64 * MIB
    assert found.policy == ("compact", "delete")


def test_what_a_survey_does_not_hold_is_kafkas_default() -> None:
    assert Upkeep.of(a_topic(settings=())) == Upkeep()


def test_the_largest_compaction_lag_rolls_segments_as_well() -> None:
    settings = own_settings(max_compaction_lag_ms="3000")
    assert Upkeep.of(a_topic(settings=settings)).roll_s == 3


def test_a_map_of_128_mib_holds_five_million_keys() -> None:
    assert Capacity.of([a_broker()], 1.0).keys == 5_033_164
    assert Capacity.of([a_broker(threads=2)], 1.0).keys == 2_516_581


def test_the_weakest_broker_counts_and_one_without_a_cleaner_does_not() -> None:
    weak = a_broker(1, threads=2, io_max_bytes_per_second="1000.0")
    strong = a_broker(2, threads=8)
    off = a_broker(3, cleaner=CleanerState.OFF, threads=0)
    found = Capacity.of([weak, strong, off], 50.0)
    assert found.threads == 2
    assert found.throttle == 1000
    assert math.isinf(Capacity.of([strong], 50.0).throttle)


@pytest.mark.parametrize(
    ("threads", "throttle", "seconds"),
    [
        (1, math.inf, 60),
        (2, math.inf, 40),  # the largest partition is one thread's
        (4, math.inf, 40),
        (4, 5.0, 120),
    ],
)
def test_a_partition_is_one_threads_and_the_throttle_is_everybodys(
    threads: int, throttle: float, seconds: float
) -> None:
    capacity = Capacity(threads, 1, 10.0, throttle)
    assert capacity.seconds([400.0, 100.0, 100.0]) == seconds
    assert capacity.seconds([]) == 0
