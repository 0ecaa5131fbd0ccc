from __future__ import annotations

import math
import subprocess
import sys
import time

import pytest

from tests.bench.measure.measure import (
    Mark,
    Spread,
    Tree,
    crossing,
    follow,
    percentile,
    rate,
    sum_at,
)
from tests.bench.measure.steady import longest_pause, next_commit

_SPIN_S = 0.6
_SPIN = f"""
import subprocess, sys, time
code = "import time\\nend = time.process_time() + {_SPIN_S}\\nwhile time.process_time() < end: pass"
subprocess.run([sys.executable, "-c", code])
time.sleep(60)
"""


def test_a_spread_is_the_median_and_its_bounds() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([4.0, 2.0]) == Spread(3.0, 2.0, 4.0)


def test_no_rounds_have_no_median() -> None:
    with pytest.raises(ValueError, match="no round"):
        Spread.of([])


def test_the_rate_is_of_the_records_between_two_marks() -> None:
    assert rate(Mark(10.0, 500), Mark(15.0, 1_500)) == 200.0
    assert math.isnan(rate(Mark(10.0, 500), Mark(10.0, 500)))


def test_the_first_mark_that_reaches_a_count_is_its_crossing() -> None:
    marks = [Mark(1.0, 0), Mark(2.0, 60), Mark(3.0, 100)]
    assert crossing(marks, 50) == marks[1]
    assert crossing(marks, 60) == marks[1]
    assert crossing(marks, 61) == marks[2]
    with pytest.raises(ValueError, match="101 records"):
        crossing(marks, 101)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert percentile(values, share) == expected


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_total_between_two_samples_is_linear() -> None:
    timeline = [(10.0, 4.0), (12.0, 8.0), (14.0, 8.0)]
    assert sum_at(timeline, 9.0) == 4.0
    assert sum_at(timeline, 11.0) == 6.0
    assert sum_at(timeline, 12.0) == 8.0
    assert sum_at(timeline, 20.0) == 8.0


def test_progress_is_followed_where_it_changes() -> None:
    told = iter([0, 0, 40, 40, 100])
    marks = follow(lambda: next(told), lambda mark: mark.records >= 100, every_s=0.0)
    assert [mark.records for mark in marks] == [0, 40, 100]


def test_the_end_is_told_where_nothing_changed_before_it() -> None:
    """A pause that lasts until then would be missed."""
    ends = iter([False, False, False, True])
    marks = follow(lambda: 7, lambda _: next(ends), every_s=0.01)
    assert [mark.records for mark in marks] == [7, 7]
    assert longest_pause(marks) >= 0.03


def test_the_longest_pause_is_between_two_commits_or_after_the_last() -> None:
    steady = [Mark(0.0, 5), Mark(1.0, 6), Mark(2.0, 6), Mark(3.5, 7), Mark(4.0, 8)]
    assert longest_pause(steady) == 2.5
    assert longest_pause([*steady, Mark(9.0, 8)]) == 5.0
    assert longest_pause(steady[:1]) == 0.0


def test_a_commit_that_is_told_just_after_the_kill_was_made_before_it() -> None:
    marks = [Mark(10.1, 5), Mark(10.3, 9), Mark(13.0, 12), Mark(14.0, 20)]
    assert next_commit(marks, killed=10.0) == 13.0
    with pytest.raises(RuntimeError, match="nothing was committed"):
        next_commit(marks[:2], killed=10.0)


def test_a_tree_counts_a_child_that_has_ended() -> None:
    root = subprocess.Popen([sys.executable, "-c", _SPIN], start_new_session=True)
    tree = Tree()
    tree.add(root.pid)
    tree.start()
    try:
        deadline = time.monotonic() + 60
        while tree.spent() < _SPIN_S / 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        tree.stop()
        root.kill()
        root.wait()
    assert tree.spent() >= _SPIN_S / 2
    assert tree.peak_bytes > 1_000_000
    totals = [total for _, total in tree.timeline]
    assert totals == sorted(totals)
