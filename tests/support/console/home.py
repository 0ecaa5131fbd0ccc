"""A home with a chaos run and a compaction run, written by the code that writes real ones."""

from __future__ import annotations

from pathlib import Path

from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.run_file import RunFile, run_folder
from holdfast.chaos.report.files import verdict_as_json
from holdfast.compaction import runs
from holdfast.compaction.apply.applied import Applied, AppliedTopic, Outcome
from holdfast.compaction.plan.plan import Change, Cost, Plan, Precondition, TopicPlan
from holdfast.compaction.verify.verified import PartitionResult, TopicResult, Verified
from holdfast.judge.verdict import Finding, JobVerdict, RunVerdict, TableVerdict, Verdict
from holdfast.pages.html import document

CHAOS_RUN, PLAN_RUN = "storm-1", "weekly-1"
TOPIC = "shop-ctas_per_customer-changelog"
REPORT = document("the report", ["<p>All of it.</p>"])


def write_chaos_run(home: Path, name: str = CHAOS_RUN, *, judged: bool = True) -> Path:
    """A run with two faults; judged, one of its tables is wrong."""
    folder = run_folder(home, name)
    kill = Injection(0, "executor", Fault.KILL, Moment.RANDOM)
    cut = Injection(1, "broker", Fault.CUT_OFF, Moment.RANDOM, duration_s=9.0)
    RunFile(
        name, "shop", "local", "", "", "", (), 7, (kill, cut), 200,
        commit="c0ffee", created_s=1_000.0,
    ).write(folder)  # fmt: skip
    if judged:
        good = Finding("lost_keys", Verdict.VALID, "0 of 9 expected keys are missing")
        bad = Finding("phantom_keys", Verdict.INVALID, "1 of 10 keys comes from nowhere", ("k<1>",))
        tables = (
            TableVerdict("PER_CUSTOMER", (good, bad), 400, 9),
            TableVerdict("PER_CITY", (good,)),
        )
        ran = Finding("faults_landed", Verdict.VALID, "2 of 2 faults landed")
        recovery = {"executor kill": (3.5,), "broker cut-off": (10.0, 12.0)}
        verdict = RunVerdict(name, JobVerdict("shop", tables, 4.0), (ran,), recovery)
        (folder / "verdict.json").write_text(verdict_as_json(verdict), encoding="utf-8")
        (folder / "report.html").write_text(REPORT, encoding="utf-8")
    return folder


def plan(name: str = PLAN_RUN) -> Plan:
    """One topic is cleaned, one is left alone."""
    stays = Change("segment.bytes", None, "16777216", "1073741824", "segments are too long")
    for_now = Change("segment.ms", None, "10000", "604800000", "the active segment is closed")
    condition = Precondition("id", {"segment.bytes": None, "segment.ms": None})
    cost, less = Cost(4_000_000, 8.0), Cost(1_000_000, 2.0)
    cleaned = TopicPlan(
        TOPIC, 0, (stays,), (for_now,), True, condition, (), cost, less, cost,
        cleaner_s=1.5, risks=("the cleaner is busy",), why="three quarters are superseded",
    )  # fmt: skip
    left = TopicPlan(
        "shop-ctas_per_city-changelog", 1, (), (), False, condition, (), less, less, less,
        why="it is small",
    )  # fmt: skip
    topics = (cleaned, left)
    return Plan(name, "cluster", 1_700_000_000_000, {"min.gain": 0.2}, topics).sealed()


def write_plan(home: Path, name: str = PLAN_RUN, *, carried_out: bool = True) -> Path:
    """A plan that was applied and verified, or only made."""
    folder = runs.run_folder(home, name)
    made = plan(name)
    runs.write_file(folder / runs.SURVEY, b"{}")
    runs.write_file(folder / runs.PLAN, made.to_json())
    if carried_out:
        done = AppliedTopic(TOPIC, Outcome.CLEANED, {"segment.bytes": "16777216"}, {})
        applied = Applied(name, made.hash, 1_700_000_100_000, 9.0, topics=(done,))
        runs.write_file(folder / runs.APPLIED, applied.to_json())
        found = PartitionResult(0, 4_000_000, 1_000_000, 1_100_000, 9_000, 2_000, 2_100)
        verified = Verified(
            name, made.hash, "cluster", 1, (TopicResult(TOPIC, "cleaned", (found,)),)
        )
        runs.write_file(folder / runs.VERIFIED, verified.to_json())
        (folder / runs.REPORT_PAGE).write_text(REPORT, encoding="utf-8")
    return folder
