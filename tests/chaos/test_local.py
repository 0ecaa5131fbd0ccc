"""A whole job, really broken: the command, a real Kafka, real Spark, real signals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.chaos.history.events import Kind, read_history

ROOT = Path(__file__).parents[2]
HOOK, EXAMPLES = ROOT / "tests" / "chaos" / "hook", ROOT / "jobs" / "examples"
RUN = "whole"
WAIT_S = 780.0  # a slow machine is slow, not wrong

pytestmark = pytest.mark.timeout(900)


def _chaos(home: Path, *asked: str) -> subprocess.CompletedProcess[str]:
    """`holdfast chaos run` of both examples as one job, with a Kafka of its own."""
    environment = {**os.environ, "CHAOS_HOOK_DIR": str(home / "hook")}
    environment["PYTHONPATH"] = os.pathsep.join([str(HOOK), environment["PYTHONPATH"]])
    both = "\n".join((EXAMPLES / name).read_text() for name in ("chaos.sql", "chaos_joins.sql"))
    command = [sys.executable, "-m", "holdfast.cli.main", "chaos", "run", "chaos", "--sql", both]
    return subprocess.run(
        [*command, "--own", "--home", str(home), "--run", RUN, *asked],
        env=environment, capture_output=True, text=True, check=False, timeout=WAIT_S,
    )  # fmt: skip


def _of_the_job(home: Path) -> list[str]:
    """Processes whose command names the home, zombies left out."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = " ".join(process.info["cmdline"] or ())
        if str(home) in command and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(command[:200])
    return found


def test_faults_at_chosen_moments_change_no_table_and_no_answer(tmp_path: Path) -> None:
    """A stopped driver and an executor killed meanwhile, a stopped executor and a query server
    killed meanwhile, a killed driver.
    """
    ran = _chaos(
        tmp_path,
        *("--seed", "864", "--rounds", "5", "--rate", "150", "--garbage", "0.01"),
        *("--components", "driver,executor,server", "--faults", "kill,pause", "--servers", "2"),
        *("--moments", "produced,committed,recovery", "--tombstones", "0.01", "--late", "0.01"),
    )
    folder = tmp_path / "chaos" / RUN
    assert ran.returncode == 0, ran.stdout + ran.stderr
    verdict = json.loads((folder / "verdict.json").read_text())
    assert verdict["verdict"] == "valid"
    _broken_as_asked(folder)
    _judged_exactly(verdict)
    _read_all_the_time(folder, verdict)
    for file in ("report.html", "report.png", "junit.xml"):
        assert (folder / file).stat().st_size > 1_000
    assert "verdict: valid" in ran.stdout
    assert str(folder / "report.html") in ran.stdout
    assert _of_the_job(tmp_path) == []
    assert not (tmp_path / "kafka").exists()


def _judged_exactly(verdict: dict[str, Any]) -> None:
    """Joins, sessions and final results, too: which of the records that are two days late were
    dropped, and what joined what, follows from the commit markers.
    """
    facts = {t["name"]: {f["checker"]: f["fact"] for f in t["findings"]}
             for t in verdict["job"]["tables"]}  # fmt: skip
    assert len(facts) == 9
    for joined in ("PAID_ORDERS", "ORDERS_WITH_LEVEL"):
        told = facts[joined]["undetermined_records"]
        assert told == "the input alone says which records there are"
    for late in ("SPREES", "FINAL_TAKINGS"):
        dropped = re.match(
            r"(\d+) records were dropped as late, (\d+) must be", facts[late]["late_agrees"]
        )
        assert dropped is not None
        assert int(dropped[1]) == int(dropped[2]) > 0


def _broken_as_asked(folder: Path) -> None:
    events = [e for e in read_history(folder) if e.source == "nemesis"]
    asked = [e.data for e in events if (e.what, e.kind) == ("inject", Kind.INVOKE)]
    ended = [e.data for e in events if (e.what, e.kind) == ("inject", Kind.OK)]
    hit = [one["injection"] for one in asked]
    assert [(i["component"], i["fault"], i["moment"]) for i in hit] == [
        ("driver", "pause", "produced"),
        ("executor", "kill", "recovery"),
        ("executor", "pause", "committed"),
        ("server", "kill", "recovery"),
        ("driver", "kill", "produced"),
    ]
    held = [one["moment_held"] and one["moment_held"]["step"] for one in asked]
    assert held == ["PRODUCED", None, "COMMITTED", None, "PRODUCED"]
    assert [one["landed"] for one in ended] == [True] * 5


def _read_all_the_time(folder: Path, verdict: dict[str, Any]) -> None:
    """Both servers were asked, for tables of every kind, and no read failed."""
    facts = {f["checker"]: f["fact"] for f in verdict["findings"]}
    everything, *kinds = verdict["reads"]
    assert everything["failed"] == 0
    assert "server kill" in [kind["kind"] for kind in kinds]
    answers = f"{everything['count']} answers"
    assert facts["enough_reads"] == f"{answers} over 7 tables by 2 of 2 servers"
    assert facts["answers_are_states"] == f"0 of {answers} are no state that their table had"
    assert facts["positions_go_forward"].startswith("0 answers in 4 sessions")
    assert [table["why"] for table in verdict["tables_read"]] == [""] * 7
    asked = [e for e in read_history(folder) if (e.what, e.kind) == ("read", Kind.INVOKE)]
    windows = {event.data["start"] is not None for event in asked}
    assert windows == {True, False}, "one window, and all of a key"
    assert len(list(folder.glob("reader-*.jsonl"))) == 4
