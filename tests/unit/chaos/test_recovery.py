"""Recovery is the longest silence of commits after a fault."""

from __future__ import annotations

from holdfast.chaos.faults.recovery import longest_silence

SAMPLES = [(0.0, 1), (1.0, 2), (2.0, 3), (2.5, 3), (9.0, 4), (10.0, 5), (14.0, 6), (15.0, 7)]


def test_the_longest_silence_counts_not_the_first_commit_after_the_fault() -> None:
    assert longest_silence(SAMPLES, 1.5, None) == 7.0


def test_a_silence_that_began_before_the_fault_counts_from_the_fault() -> None:
    assert longest_silence(SAMPLES, 6.0, None) == 4.0
    assert longest_silence(SAMPLES, 4.0, 9.5) == 5.0


def test_a_silence_that_the_next_fault_made_is_not_this_one_s() -> None:
    assert longest_silence(SAMPLES, 8.5, 11.0) == 1.0


def test_a_silence_that_goes_on_when_the_next_fault_strikes_is_no_recovery() -> None:
    """A commit that was all but done, then nothing: the second fault hit a job that was down."""
    assert longest_silence(SAMPLES, 1.5, 8.0) == 0.0
    assert longest_silence(SAMPLES, 1.5, 2.4) == 0.5


def test_no_commit_in_between_is_no_recovery() -> None:
    assert longest_silence(SAMPLES, 2.5, 8.0) == 0.0
    assert longest_silence(SAMPLES, 15.0, None) == 0.0
    assert longest_silence([], 0.0, None) == 0.0


def test_a_count_that_falls_back_is_no_commit() -> None:
    assert longest_silence([(0.0, 5), (1.0, 0), (2.0, 4), (7.0, 6)], 0.5, None) == 6.5
