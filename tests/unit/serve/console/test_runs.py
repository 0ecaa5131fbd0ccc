from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.serve.console import runs
from tests.support.console.home import (
    CHAOS_RUN,
    PLAN_RUN,
    REPORT,
    TOPIC,
    write_chaos_run,
    write_plan,
)


def test_a_home_without_runs_has_none(tmp_path: Path) -> None:
    assert runs.compaction_runs([tmp_path]) == []
    assert runs.chaos_runs([tmp_path]) == []


def test_a_chaos_run_says_what_was_broken_and_what_came_of_it(tmp_path: Path) -> None:
    write_chaos_run(tmp_path)
    (line,) = runs.chaos_runs([tmp_path])
    assert line["verdict"] == "invalid"
    assert line["faults"] == {"executor kill": 1, "broker cut-off": 1}
    assert (line["rows"], line["records"], line["table_count"]) == (9, 400, 2)
    assert line["recovery_median_s"] == 10.0
    full = runs.chaos_run([tmp_path], CHAOS_RUN)
    assert [t["verdict"] for t in full["tables"]] == ["invalid", "valid"]
    assert full["tables"][0]["findings"][1]["examples"] == ["k<1>"]
    assert full["findings"][0]["checker"] == "faults_landed"
    assert full["recovery_s"]["broker cut-off"] == [10.0, 12.0]


def test_a_run_that_is_not_judged_says_so(tmp_path: Path) -> None:
    write_chaos_run(tmp_path, "going-on", judged=False)
    (line,) = runs.chaos_runs([tmp_path])
    assert (line["verdict"], line["report"], line["recovery_median_s"]) == (
        "not judged",
        False,
        None,
    )
    assert runs.chaos_run([tmp_path], "going-on")["tables"] == []


def test_a_plan_says_what_it_wins_and_what_was_found(tmp_path: Path) -> None:
    write_plan(tmp_path)
    (line,) = runs.compaction_runs([tmp_path])
    assert line["state"] == "as predicted"
    assert (line["asked"], line["topic_count"]) == (1, 2)
    assert (line["bytes_before"], line["bytes_after"]) == (5_000_000, 2_000_000)
    cleaned, left = runs.compaction_run([tmp_path], PLAN_RUN)["topics"]
    assert (cleaned["topic"], cleaned["nothing"], left["nothing"]) == (TOPIC, False, True)
    assert [(c["name"], c["stays"]) for c in cleaned["changes"]] == [
        ("segment.bytes", True),
        ("segment.ms", False),
    ]
    assert cleaned["changes"][0]["before"] == "1073741824 (broker)"
    assert cleaned["result"]["bytes"] == [4_000_000, 1_000_000, 1_100_000]
    assert left["result"] is None


def test_a_plan_that_waits_is_planned(tmp_path: Path) -> None:
    write_plan(tmp_path, carried_out=False)
    assert [r["state"] for r in runs.compaction_runs([tmp_path])] == ["planned"]


def test_what_cannot_be_read_is_named_and_hides_nothing_else(tmp_path: Path) -> None:
    folder = write_plan(tmp_path, "edited")
    text = (folder / "plan.json").read_text(encoding="utf-8")
    (folder / "plan.json").write_text(text.replace("16777216", "1"), encoding="utf-8")
    write_plan(tmp_path, "whole")
    chaos = write_chaos_run(tmp_path)
    (chaos / "verdict.json").write_text("{", encoding="utf-8")
    states = {r["run"]: r["state"] for r in runs.compaction_runs([tmp_path])}
    assert states == {"edited": "unreadable", "whole": "as predicted"}
    assert [r["verdict"] for r in runs.chaos_runs([tmp_path])] == ["not judged"]
    with pytest.raises(Refused, match="its content has"):
        runs.compaction_run([tmp_path], "edited")


@pytest.mark.parametrize("name", ["..", ".", "", "../chaos/storm-1", "/etc", "a/b", ".hidden"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    write_chaos_run(tmp_path)
    for read in (runs.chaos_run, runs.compaction_run):
        with pytest.raises(Refused):
            read([tmp_path], name)
    with pytest.raises(Refused):
        runs.report_of([tmp_path], runs.CHAOS, name)


def test_a_report_is_given_as_it_is(tmp_path: Path) -> None:
    write_chaos_run(tmp_path)
    write_chaos_run(tmp_path, "bare", judged=False)
    assert runs.report_of([tmp_path], runs.CHAOS, CHAOS_RUN).decode() == REPORT
    with pytest.raises(Refused, match="has no report"):
        runs.report_of([tmp_path], runs.CHAOS, "bare")
    with pytest.raises(Refused, match="There is no chaos run"):
        runs.chaos_run([tmp_path], "never")


def test_runs_of_several_homes_are_told_together(tmp_path: Path) -> None:
    write_chaos_run(tmp_path / "a", "both")
    write_chaos_run(tmp_path / "b", "both", judged=False)
    write_chaos_run(tmp_path / "b", "other")
    homes = [tmp_path / "a", tmp_path / "b"]
    assert {r["run"]: r["verdict"] for r in runs.chaos_runs(homes)} == {
        "both": "invalid",
        "other": "invalid",
    }
    assert runs.chaos_run(homes, "other")["verdict"] == "invalid"
    assert runs.report_of(homes, runs.CHAOS, "both").decode() == REPORT
