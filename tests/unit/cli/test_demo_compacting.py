"""What the demo says about the compaction of its changelogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.demo.compacting import nothing_planned, what_was_won
from holdfast.compaction.plan.plan import Change, Cost, Plan, Precondition, TopicPlan
from holdfast.compaction.runs import PLAN, SURVEY, VERIFIED, run_folder, write_file
from holdfast.compaction.verify.verified import PartitionResult, TopicResult, Verified
from holdfast.errors import Refused

TOPIC = "demo-FLIGHTS-changelog"


def _write(home: Path, *temporary: Change) -> None:
    cost = Cost(4_000_000, 2.0)
    topic = TopicPlan(
        topic=TOPIC,
        order=0,
        changes=(),
        temporary=temporary,
        roll=True,
        precondition=Precondition("id", {}),
        partitions=(),
        before=cost,
        after=cost,
        steady=cost,
    )
    folder = run_folder(home, "r")
    write_file(folder / SURVEY, b"{}")
    write_file(folder / PLAN, Plan("r", "c", 0, {}, (topic,)).sealed().to_json())


def test_nothing_to_win_is_said_and_needs_no_verdict(tmp_path: Path) -> None:
    _write(tmp_path)
    assert nothing_planned(tmp_path)
    (line,) = what_was_won(tmp_path)
    assert "no changelog is worth a cleaning" in line


def test_what_was_won_is_said_with_its_warnings(tmp_path: Path) -> None:
    _write(tmp_path, Change("min.cleanable.dirty.ratio", None, "0.01"))
    assert not nothing_planned(tmp_path)
    part = PartitionResult(0, 4_000_000, 900_000, 1_000_000, 80_000, 20_000, 21_000)
    topic = TopicResult(TOPIC, "cleaned", (part,), warnings=("It is odd.",))
    idle = TopicResult("demo-SMALL-changelog", "nothing to do")
    verified = Verified("r", "h", "c", 0, (topic, idle))
    write_file(run_folder(tmp_path, "r") / VERIFIED, verified.to_json())
    won, warning, report = what_was_won(tmp_path)
    assert won == f"{TOPIC}: 3.8 MiB → 976.6 KiB, a restore replays 80,000 → 21,000 records"
    assert warning == f"{TOPIC}: It is odd."
    assert report.endswith("compaction/r/report.html")


def test_a_plan_that_was_not_verified_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, Change("min.cleanable.dirty.ratio", None, "0.01"))
    with pytest.raises(Refused):
        list(what_was_won(tmp_path))
