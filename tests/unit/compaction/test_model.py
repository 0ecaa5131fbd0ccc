"""What a cleaning leaves, and how a changelog grows between two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.compaction.plan.model import (
    Size,
    after_cleaning,
    before_cleaning,
    cleaner_work,
    core,
    cost,
    daily_io,
    restore_seconds,
    tombstone_bytes,
    worst_moment,
)
from holdfast.compaction.survey.facts import Estimate
from holdfast.compaction.survey.upkeep import Upkeep
from tests.unit.compaction.surveys import MIB, a_partition, a_topic

UPKEEP = Upkeep(segment_bytes=64 * MIB)
LIVE_BYTES = 12_500 * 60
CONTROL = 100 * 78  # offsets of transaction markers in `a_partition`
MARKER = 60


def test_a_cleaning_leaves_a_record_per_key_the_marker_and_the_transactions() -> None:
    found = after_cleaning(a_partition(), UPKEEP, roll=True)
    assert found == Size(LIVE_BYTES + MARKER + CONTROL, 12_501)
    assert found == core(a_partition())


def test_without_a_roll_the_active_segment_stays() -> None:
    p = a_partition(active_bytes=10_000_000)
    found = after_cleaning(p, UPKEEP, roll=False)
    assert found.bytes == 10_000_000 + LIVE_BYTES + MARKER + CONTROL
    assert found.records == pytest.approx(500_000 / 3 + 12_501)
    assert after_cleaning(a_partition(), UPKEEP, roll=False) == before_cleaning(a_partition())


def test_tombstones_stay_over_the_cleaning_that_sees_them_first() -> None:
    p = a_partition(tombstones=10_000)
    found = after_cleaning(p, UPKEEP, roll=True)
    assert found.records == 22_501
    assert tombstone_bytes(p) == pytest.approx(10_000 * 30, rel=0.01)
    assert found.bytes == LIVE_BYTES + 300_000 + MARKER + CONTROL


def test_commit_markers_are_not_taken_for_rows() -> None:
    """300 keys, 3,000 transactions of 8 rows: numbers of a real log, which shrank to 245 KiB."""
    p = a_partition(
        bytes=2_491_275, end=30_304, records=27_290, live_keys=300, record_bytes=91.3,
        active_bytes=2_491_275, dirty_ratio=0, markers=3_014, marker_bytes=517.4,
    )  # fmt: skip
    found = after_cleaning(p, UPKEEP, roll=True)
    assert found.bytes == pytest.approx(245.4 * 1024, rel=0.1)
    assert found.records == 301


def test_no_cleaning_wins_more_than_is_dirty() -> None:
    p = a_partition(dirty_ratio=0.1, active_bytes=0)
    found = after_cleaning(p, UPKEEP, roll=True)
    assert found.bytes == 27_000_000
    assert found.records == 450_000


def test_what_nobody_knows_is_not_removed() -> None:
    p = a_partition(live_keys=Estimate.unknown())
    assert after_cleaning(p, UPKEEP, roll=True) == core(p) == before_cleaning(p)


def test_of_a_log_whose_segments_are_unknown_all_may_be_active() -> None:
    p = a_partition(active_bytes=Estimate.unknown())
    assert after_cleaning(p, UPKEEP, roll=False) == before_cleaning(p)
    assert after_cleaning(p, UPKEEP, roll=True).records == 12_501


def test_what_is_younger_than_the_compaction_lag_stays() -> None:
    p = a_partition(write_bytes_per_s=1_000, write_records_per_s=17, rate_window_s=3600)
    found = after_cleaning(p, replace(UPKEEP, min_lag_ms=3_600_000), roll=True)
    assert found.bytes == pytest.approx(3_600_000 + LIVE_BYTES + MARKER + CONTROL)
    unknown = replace(p, rate_window_s=0.0)
    assert after_cleaning(unknown, replace(UPKEEP, min_lag_ms=1), roll=True).bytes == 30_000_000


def test_an_empty_partition_costs_nothing() -> None:
    p = a_partition(bytes=0, records=0, live_keys=0, end=0, active_bytes=0)
    assert after_cleaning(p, UPKEEP, roll=True) == Size(0, 0)
    assert worst_moment(p, UPKEEP, core(p)) == Size(0, 0)


def test_the_cleaner_reads_the_dirty_part_twice_and_the_clean_one_once() -> None:
    p = a_partition(dirty_ratio=0.5, active_bytes=0)
    work = cleaner_work(p, Size(20_000_000, 1), 5_000_000, roll=True)
    assert (work.read, work.written, work.passes) == (2 * 15e6 + 15e6, 20e6, 1)


def test_a_map_too_small_costs_another_pass_over_what_is_clean_by_then() -> None:
    p = a_partition(dirty_ratio=1, active_bytes=0)
    work = cleaner_work(p, Size(10_000_000, 1), 6_250, roll=True)
    assert work.passes == 2
    assert work.read == 2 * 30e6 + 5e6
    assert work.written == 5e6 + 10e6


def test_without_a_roll_the_active_segment_is_not_read() -> None:
    p = a_partition(dirty_ratio=1, active_bytes=20_000_000)
    assert cleaner_work(p, Size(21_000_000, 1), 5_000_000, roll=False).read == 20e6


def _written(**facts: float) -> dict[str, Any]:
    return {"write_bytes_per_s": 6_000, "write_records_per_s": 100, "rate_window_s": 3_600, **facts}


def test_between_cleanings_a_log_grows_by_its_dirt_and_a_segment() -> None:
    kept = Size(300e6, 5e6)
    found = worst_moment(a_partition(**_written()), replace(UPKEEP, dirty_ratio=0.5), kept)
    assert found.bytes == pytest.approx(300e6 + 300e6 + 64 * MIB)
    assert found.records == pytest.approx(5e6 + (300e6 + 64 * MIB) / 60)
    tenth = worst_moment(a_partition(**_written()), replace(UPKEEP, dirty_ratio=0.1), kept)
    assert tenth.bytes == pytest.approx(300e6 + 300e6 / 9 + 64 * MIB)


def test_the_largest_lag_bounds_the_dirt_and_the_segment() -> None:
    upkeep = replace(UPKEEP, max_lag_ms=60_000)
    found = worst_moment(a_partition(**_written()), upkeep, Size(300e6, 5e6))
    assert found.bytes == pytest.approx(300e6 + 2 * 60 * 6_000)


def test_nobody_looks_further_ahead_than_thirty_days() -> None:
    slow = a_partition(**_written(write_bytes_per_s=0.6, write_records_per_s=0.01))
    found = worst_moment(slow, replace(UPKEEP, dirty_ratio=1.0), Size(300e6, 5e6))
    assert found.bytes == pytest.approx(300e6 + 0.6 * 30 * 86_400)


def test_a_log_that_nobody_writes_to_stays_as_it_is() -> None:
    kept = Size(300e6, 5e6)
    assert worst_moment(a_partition(), UPKEEP, kept) == kept
    assert daily_io(a_partition(), UPKEEP, kept) == 0


def test_a_burst_is_not_taken_for_a_rate() -> None:
    burst = a_partition(**_written(rate_window_s=10))
    assert daily_io(burst, UPKEEP, Size(0, 0)) == pytest.approx(6_000 * 10 / 3_600 * 86_400 * 2)


def test_little_dirt_is_dear() -> None:
    p, kept = a_partition(**_written()), Size(300e6, 5e6)
    often = daily_io(p, Upkeep(dirty_ratio=0.1, segment_bytes=MIB), kept)
    seldom = daily_io(p, Upkeep(dirty_ratio=0.5, segment_bytes=MIB), kept)
    assert seldom == pytest.approx(6_000 * 86_400 * 4)
    assert often == pytest.approx(6_000 * 86_400 * 2 * 10)


def test_a_restore_is_scaled_from_the_one_that_was_surveyed() -> None:
    topic = a_topic()
    assert restore_seconds(topic, [500_000] * 4) == topic.restore.seconds == 5
    assert restore_seconds(topic, [50_000] * 4) == 0.5
    slower = replace(topic, restore=replace(topic.restore, seconds=50.0))
    assert restore_seconds(slower, [50_000] * 4) == 5
    assert restore_seconds(slower, [50_000] * 4, processes=4) == 2.5
    assert restore_seconds(slower, [50_000, 0, 0, 0]) == 2.5  # one partition, one process
    assert cost(topic, [Size(10.4, 500_000)] * 4).bytes == 42


def test_without_a_rate_a_restore_has_no_time() -> None:
    topic = a_topic()
    unknown = replace(topic, restore=replace(topic.restore, records_per_s=0.0))
    assert restore_seconds(unknown, [500_000] * 4) == 0
