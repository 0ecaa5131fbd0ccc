"""The runs of broken engines: every mutant has one, and what they end with is told rightly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from tests.chaos.mutant_runs import RUNS, Ended, as_table, outcome_of
from tests.chaos.mutants import MUTANTS
from tests.unit.chaos.reporting import write_bad

INVALID = Ended(RUNS[-1], "invalid", ("phantom_keys",), 61.4)


def test_every_mutant_has_a_run_and_the_engine_as_it_is_has_seven() -> None:
    assert [run.mutant for run in RUNS] == [*[""] * 7, *MUTANTS]
    assert len({run.name for run in RUNS}) == len(RUNS)


def test_a_verdict_says_which_checkers_found_it(tmp_path: Path) -> None:
    write_bad(tmp_path)
    found = outcome_of(orjson.loads((tmp_path / "verdict.json").read_bytes()))
    assert found == ("invalid", ("diverged_values", "faults_landed"))


@pytest.mark.parametrize("verdict", ["valid", "unknown", "none"])
def test_a_mutant_is_to_be_invalid_and_the_engine_as_it_is_valid(verdict: str) -> None:
    assert INVALID.as_it_should
    assert not replace(INVALID, verdict=verdict).as_it_should
    assert Ended(RUNS[0], verdict, (), 1.0).as_it_should == (verdict == "valid")


def test_the_table_has_a_line_for_each() -> None:
    head, line = as_table([INVALID]).splitlines()
    assert head.split() == ["mutant", "verdict", "seconds", "found", "by"]
    assert line.split() == [RUNS[-1].mutant, "invalid", "61", "phantom_keys"]
