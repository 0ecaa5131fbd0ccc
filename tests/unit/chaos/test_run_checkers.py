"""Every checker of a run: one good history, and one bad history per anomaly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.chaos.faults.words import Fault, Moment
from holdfast.chaos.history.events import Kind
from holdfast.chaos.run.checkers import (
    RUN_CHECKERS,
    RunEvidence,
    acked_is_there,
    faults_landed,
    kills_happened,
    load_was_enough,
    moments_met,
    operations_ended,
    phases_passed,
    recovered,
    workload_failures,
)
from holdfast.judge.checkers.checking import judge
from holdfast.judge.verdict import Verdict, worst
from tests.unit.chaos.runs import KILL, OVERLAP, PAUSE, RATE, START, MadeRun, evidence, good_run


def one_fault(seconds: float = 30.0, rate: int = RATE, **told: Any) -> MadeRun:
    run = MadeRun()
    run.strike(KILL, 10.0, told.pop("back", 16.0), **told)
    run.watch(seconds, rate=rate)
    run.load(1_000)
    return run


@pytest.mark.parametrize("checker", RUN_CHECKERS)
def test_a_good_run_is_valid(checker: Any) -> None:
    finding = checker(evidence(good_run()))
    assert finding.verdict is Verdict.VALID, finding


def test_a_fault_that_did_not_land_is_invalid_and_blames_no_table() -> None:
    run = one_fault(landed=False, kind=Kind.FAIL, evidence="pid 4711 lives")
    finding = faults_landed(evidence(run, [KILL]))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("fault 1, executor kill: did not land (pid 4711 lives)",)
    assert "says nothing about the tables" in finding.fact


def test_a_planned_fault_that_was_never_tried_is_invalid() -> None:
    finding = faults_landed(evidence(one_fault(), [KILL, PAUSE]))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("fault 3, driver pause: never tried",)


@pytest.mark.parametrize("outcome", [None, Kind.UNKNOWN])
def test_a_fault_of_unknown_outcome_is_unknown(outcome: Kind | None) -> None:
    run = evidence(one_fault(kind=outcome, landed=False), [KILL])
    assert faults_landed(run).verdict is Verdict.UNKNOWN
    assert operations_ended(run).verdict is Verdict.UNKNOWN


def test_an_aimed_fault_without_its_held_step_is_invalid() -> None:
    run = one_fault(held="BEGUN")
    finding = moments_met(evidence(run, [KILL]))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == (
        "fault 1, executor kill: no state task was held at PRODUCED (BEGUN)",
    )


def test_a_fault_after_the_recovery_it_should_overlap_is_invalid() -> None:
    run = one_fault()
    run.strike(OVERLAP, 20.0, 25.0)
    assert moments_met(evidence(run, [KILL, OVERLAP])).verdict is Verdict.INVALID
    alone = MadeRun()
    alone.strike(OVERLAP, 20.0, 25.0)
    assert moments_met(evidence(alone, [OVERLAP])).verdict is Verdict.INVALID


def test_nothing_broken_proves_nothing() -> None:
    finding = kills_happened(evidence(MadeRun(), []))
    assert finding.verdict is Verdict.UNKNOWN
    run = one_fault(landed=False, kind=Kind.FAIL)
    assert kills_happened(evidence(run, [KILL])).verdict is Verdict.UNKNOWN


def test_kills_are_missed_only_where_they_were_asked_for() -> None:
    run = MadeRun()
    run.strike(PAUSE, 10.0, 25.0)
    assert kills_happened(evidence(run, [PAUSE])).verdict is Verdict.VALID
    assert kills_happened(evidence(run, [KILL, PAUSE])).verdict is Verdict.UNKNOWN


def test_a_fault_without_recovery_is_invalid() -> None:
    finding = recovered(evidence(one_fault(back=None), [KILL]))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("fault 1, executor kill: not recovered after 240 s",)


def test_a_job_that_refuses_to_go_on_is_invalid_by_its_own_reason() -> None:
    run = one_fault(back=None)
    run.events = [
        replace(e, data={**e.data, "refusal": "A batch overlaps."}) if e.what == "recover" else e
        for e in run.events
    ]
    finding = recovered(evidence(run, [KILL]))
    assert finding.verdict is Verdict.INVALID
    told = "fault 1, executor kill: the job has refused to go on: A batch overlaps."
    assert finding.examples == (told,)


def test_faults_that_there_was_no_time_for_are_not_missed() -> None:
    run = one_fault()
    assert faults_landed(evidence(run, [KILL, PAUSE])).verdict is Verdict.INVALID
    run.add("nemesis", Kind.STATE, "time_over", 30.0, injections=1)
    finding = faults_landed(evidence(run, [KILL, PAUSE]))
    assert (finding.verdict, finding.fact) == (Verdict.VALID, "1 of 1 planned faults landed")


def test_a_recovery_nobody_looked_for_is_invalid() -> None:
    run = one_fault()
    run.events = [e for e in run.events if e.what != "recover"]
    assert recovered(evidence(run, [KILL])).verdict is Verdict.INVALID


def test_an_overlapped_fault_may_share_the_later_one_s_recovery() -> None:
    run = one_fault()
    run.strike(OVERLAP, 12.0, 22.0)
    first = {e.op for e in run.events if e.what == "recover" and e.data.get("injection") == 0}
    run.events = [e for e in run.events if e.what != "recover" or e.op not in first]
    assert recovered(evidence(run, [KILL, OVERLAP])).verdict is Verdict.VALID


def test_too_little_load_is_unknown() -> None:
    finding = load_was_enough(evidence(one_fault(seconds=12.0, rate=1), [KILL]))
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.fact.startswith("7 records")
    assert load_was_enough(evidence(MadeRun(), [])).verdict is Verdict.UNKNOWN


def test_a_fault_without_traffic_is_unknown() -> None:
    """The load ended before the second fault came, and nothing was waiting."""
    run = one_fault()
    late = replace(PAUSE, number=1)
    run.strike(late, 60.0, 70.0, lag_before=0)
    last = [e for e in run.events if e.what == "sample"][-1]
    for at in (50.0, 70.0, 80.0):
        run.add("observer", Kind.STATE, "sample", at, **last.data)
    finding = load_was_enough(evidence(run, [KILL, late]))
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.examples == ("fault 2, driver pause: no record came and none was waiting",)


def test_a_topic_that_is_made_again_is_no_lack_of_traffic() -> None:
    """Its end begins at 0 again: what came is what it grew by, before and after."""
    run = one_fault(seconds=20.0, rate=100)
    remade = replace(KILL, number=1, component="topic", fault=Fault.RECREATE_TOPIC)
    run.strike(remade, 15.0, 18.0, lag_before=0)
    whole = load_was_enough(evidence(run, [KILL, remade]))
    for i, event in enumerate(run.events):
        if event.what == "sample" and event.wall_s >= START + 15.0:
            less = {**event.data, "input_end": event.data["input_end"] - 1_500}
            run.events[i] = replace(event, data=less)
    found = load_was_enough(evidence(run, [KILL, remade]))
    assert (whole.verdict, found.verdict) == (Verdict.VALID, Verdict.VALID)
    assert int(whole.fact.split()[0]) - int(found.fact.split()[0]) < 100


def test_a_job_that_commits_nothing_is_not_under_load() -> None:
    run = one_fault()
    run.events = [e for e in run.events if e.what != "sample"]
    run.silences = [(0.5, 99.0)]
    run.watch(30.0)
    finding = load_was_enough(evidence(run, [KILL]))
    assert finding.verdict is Verdict.UNKNOWN
    assert "nothing was committed" in finding.fact


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([*range(1_000), 7], "record 7 is there more than once"),
        ([*range(1_000), 1_000], "record 1000 was never sent"),
        ([n for n in range(1_000) if n != 5], "record 5 is missing"),
        ([], "record 0 is missing"),
    ],
)
def test_an_input_that_is_not_what_was_acknowledged_is_invalid(found: list[int], told: str) -> None:
    finding = acked_is_there(evidence(good_run(), found=found))
    assert finding.verdict is Verdict.INVALID
    assert told in finding.examples


def test_a_record_that_was_given_up_may_be_there_or_not() -> None:
    run = MadeRun()
    run.load(1_000, acked=999, failed=1)
    assert acked_is_there(evidence(run, [])).verdict is Verdict.VALID
    assert acked_is_there(evidence(run, [], range(999))).verdict is Verdict.VALID
    assert acked_is_there(evidence(run, [], range(998))).verdict is Verdict.INVALID


def test_a_workload_that_failed_often_or_never_ended_is_unknown() -> None:
    run = MadeRun()
    assert acked_is_there(evidence(run, [])).verdict is Verdict.UNKNOWN
    assert workload_failures(evidence(run, [])).verdict is Verdict.UNKNOWN
    run.load(1_000, acked=989, failed=11)
    assert workload_failures(evidence(run, [])).verdict is Verdict.UNKNOWN
    run.load(0)
    assert workload_failures(evidence(run, [])).verdict is Verdict.UNKNOWN


def test_an_operation_without_outcome_is_unknown_but_not_the_judge_s_own() -> None:
    run = good_run()
    run.phase("heal", 60.0, None)
    run.operation("recover", 61.0, 0.0, {"injection": 2}, None)
    finding = operations_ended(evidence(run))
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.examples == (
        "recovery from fault 3 has no outcome",
        "phase heal has no outcome",
    )


def test_a_step_that_was_cut_off_and_done_again_has_an_outcome() -> None:
    run = good_run()
    run.phase("workload", 5.0, None)
    assert operations_ended(evidence(run)).verdict is Verdict.UNKNOWN
    run.phase("workload", 20.0)
    assert operations_ended(evidence(run)).verdict is Verdict.VALID


def test_a_failed_phase_is_invalid_until_it_is_done_again() -> None:
    run = good_run()
    run.phase("heal", 60.0, Kind.FAIL, reason="a pod is not ready")
    finding = phases_passed(evidence(run))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("heal: a pod is not ready",)
    run.phase("heal", 65.0)
    assert phases_passed(evidence(run)).verdict is Verdict.VALID


def test_an_empty_history_is_not_valid() -> None:
    empty = RunEvidence((), evidence(MadeRun(), []).history)
    assert worst(f.verdict for f in judge(empty, RUN_CHECKERS)) is Verdict.UNKNOWN


def test_the_moments_of_the_good_run_are_what_they_are_called() -> None:
    assert (KILL.moment, OVERLAP.moment, PAUSE.fault) == (
        Moment.PRODUCED, Moment.RECOVERY, Fault.PAUSE,
    )  # fmt: skip
