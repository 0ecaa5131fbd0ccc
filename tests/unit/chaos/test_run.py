"""Steps of a run that wait: for what, and when they give up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.chaos.faults.target import Target
from holdfast.chaos.history.events import HistoryWriter, read_history
from holdfast.chaos.history.run_file import RunFile
from holdfast.chaos.history.strikes import summarize
from holdfast.chaos.run import run as run_module
from holdfast.chaos.run.run import Run
from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.types.statements.topology import Topology

ASKED = RunFile("r", "orders", "local", "", "", "", (), 1, (), 100)


@dataclass
class Gone:
    """A job that will not be ready any more."""

    why: str

    def heal_all(self) -> list[str]:
        return []

    def recovered(self, _victims: Any) -> bool:
        return False

    def refusal(self) -> str:
        return self.why


class Committing:
    """Commits are seen all the time."""

    def advanced(self, _since: float) -> bool:
        return True


def _run(folder: Path, why: str = "") -> Run:
    target = cast("Target", Gone(why))
    return Run(folder, ASKED, Topology(()), Settings("orders"), lambda: target, lambda _: None)


def test_healing_ends_at_once_when_the_job_has_ended_for_good(tmp_path: Path) -> None:
    """With its own words, which are the failed step's reason as well."""
    printed = "A batch overlaps.\nLikely cause: two jobs\nWhat to do: stop one."
    with pytest.raises(HoldfastError) as told:
        _run(tmp_path, printed).heal()
    assert told.value.fact == "orders has refused to go on: A batch overlaps."
    assert (told.value.cause, told.value.action) == ("two jobs", "stop one.")
    history = summarize(read_history(tmp_path))
    assert history.failed_phases == (f"heal: {told.value.fact}",)
    assert not history.quiet


def test_nothing_is_broken_before_the_run_s_own_load_flows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits may be left over from the baseline."""
    monkeypatch.setattr(run_module, "_BASELINE_LIMIT_S", 0.0)
    run, sampler = _run(tmp_path), cast("Any", Committing())
    with pytest.raises(HoldfastError, match="Nothing was sent by a workload of this run"):
        run._await_load(sampler)
    with HistoryWriter(tmp_path, "workload") as history:
        history.state("produce", sent=200, acked=0, failed=0)
    run._await_load(sampler)
