"""A history put together: strikes with their recoveries, samples, totals."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.chaos.history.events import Kind, read_history
from holdfast.chaos.history.strikes import recovery_seconds, summarize
from tests.unit.chaos.runs import OVERLAP, SCHEDULE, START, MadeRun, good_run


def test_strikes_come_with_their_recoveries() -> None:
    strikes = summarize(good_run().ordered()).strikes
    assert [s.injection for s in strikes] == list(SCHEDULE)
    assert [s.at_s - START for s in strikes] == [10.0, 12.0, 40.0]
    assert [s.kind for s in strikes] == ["executor kill", "broker delete-now", "driver pause"]
    assert strikes[0].victims == ("executor 0",)
    assert strikes[0].held_step == "PRODUCED"
    assert [s.recovered_s for s in strikes] == [START + 16.0, START + 22.0, START + 55.0]


def test_recovery_is_measured_by_the_commits_that_were_seen() -> None:
    first, second, third = recovery_seconds(summarize(good_run().ordered()))
    assert first is None  # nothing was committed before the next fault struck
    assert second == pytest.approx(10.0, abs=1.0)
    assert third == pytest.approx(15.0, abs=1.0)


def test_totals_may_be_numbers_or_maps() -> None:
    history = summarize(good_run().ordered())
    assert history.samples[0].input_end == 10
    assert history.samples[-1].stable > history.samples[0].stable > 1_000
    assert {s.restoring for s in history.samples} == {False, True}
    assert history.samples[-1].committed == history.samples[-1].input_end - 10 - (
        history.samples[-1].lag or 0
    )
    assert history.undisturbed_s == 0.9
    assert history.load is not None
    assert history.load.last == 999


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    run = good_run()
    run.write(tmp_path)
    assert summarize(read_history(tmp_path)) == summarize(run.ordered())


def test_a_run_is_quiet_unless_that_was_waited_for_in_vain() -> None:
    for phase, quiet in (("workload", True), ("heal", False), ("quiesce", False)):
        run = good_run()
        run.phase(phase, 90.0, Kind.FAIL, reason="not in time")
        assert summarize(run.ordered()).quiet is quiet
        run.phase(phase, 95.0)
        assert summarize(run.ordered()).quiet, "it was done again"


def test_an_injection_that_was_cut_off_has_no_outcome() -> None:
    run = MadeRun()
    run.strike(OVERLAP, 1.0, None, kind=None)
    strike = summarize(run.ordered()).strikes[0]
    assert (strike.outcome, strike.landed, strike.waited_s) == (None, False, 240.0)
