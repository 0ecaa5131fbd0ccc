"""The checkers of a run: did it happen as asked, under load, and did the job recover each time?

A run of which that cannot be said proves nothing about the tables, however right they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from holdfast.chaos.faults.words import Injection, Moment
from holdfast.chaos.history.events import Kind
from holdfast.chaos.history.strikes import RunHistory, Strike
from holdfast.judge.checkers.checking import Checker, finding
from holdfast.judge.values import EXAMPLES_MAX
from holdfast.judge.verdict import Finding, Verdict

__all__ = [
    "RUN_CHECKERS",
    "RunEvidence",
    "acked_is_there",
    "faults_landed",
    "kills_happened",
    "load_was_enough",
    "moments_met",
    "operations_ended",
    "phases_passed",
    "recovered",
    "workload_failures",
]

_NEAR_S = 5.0  # what is read and committed this long before and after a strike belongs to it
_RECORDS_MIN = 10  # of input per fault, from shortly before the first one to the end
_FAILED_SHARE_MAX = 0.01
_NOT_THE_TABLES = "; this says nothing about the tables, the run itself is not what was asked"


@dataclass(frozen=True)
class RunEvidence:
    """One run as plain data.

    Attributes:
        schedule: all that might have come.
        history: what happened.
        found: the number in the header of every record of this run in the input topics.
    """

    schedule: tuple[Injection, ...]
    history: RunHistory
    found: Sequence[int] = field(default=())

    @property
    def planned(self) -> tuple[Injection, ...]:
        """The faults that there was time for."""
        return self.schedule[: self.history.time_over_after]

    @property
    def landed(self) -> list[Strike]:
        return [s for s in self.history.strikes if s.landed]


def faults_landed(run: RunEvidence) -> Finding:
    """Every planned fault did what it should."""
    done = {s.injection.number: s for s in run.history.strikes}
    bad: list[str] = []
    unknown: list[str] = []
    for injection in run.planned:
        strike = done.get(injection.number)
        if strike is not None and strike.landed:
            continue
        where = unknown if strike is not None and _open(strike) else bad
        where.append(_missed(injection, strike))
    fact = f"{len(run.landed)} of {len(run.planned)} planned faults landed"
    if not bad and not unknown:
        return Finding("faults_landed", Verdict.VALID, fact)
    verdict = Verdict.INVALID if bad else Verdict.UNKNOWN
    return finding("faults_landed", verdict, fact + _NOT_THE_TABLES, bad + unknown)


def moments_met(run: RunEvidence) -> Finding:
    """A fault aimed at a moment struck there, one in a recovery before its end."""
    aimed = [s for s in run.landed if s.injection.moment is not Moment.RANDOM]
    bad = [
        f"fault {s.injection.number + 1}, {s.title}: {why}"
        for s in aimed
        if (why := _missed_moment(s, run.history.strikes))
    ]
    fact = f"{len(aimed) - len(bad)} of {len(aimed)} aimed faults struck at their moment"
    verdict = Verdict.INVALID if bad else Verdict.VALID
    return finding("moments_met", verdict, fact + (_NOT_THE_TABLES if bad else ""), bad)


def operations_ended(run: RunEvidence) -> Finding:
    """Every operation has a known outcome."""
    strikes = [
        f"fault {s.injection.number + 1}, {s.title}: outcome not known"
        for s in run.history.strikes
        if _open(s)
    ]
    unknown = [*strikes, *run.history.unfinished]
    fact = f"{len(unknown)} operations whose outcome nobody knows"
    verdict = Verdict.UNKNOWN if unknown else Verdict.VALID
    return finding("operations_ended", verdict, fact, unknown)


def phases_passed(run: RunEvidence) -> Finding:
    """No step of the run failed."""
    failed = run.history.failed_phases
    fact = f"{len(failed)} steps of the run failed"
    verdict = Verdict.INVALID if failed else Verdict.VALID
    return finding("phases_passed", verdict, fact, failed)


def kills_happened(run: RunEvidence) -> Finding:
    """Something was broken, and killed where killing was asked for."""
    name, landed = "kills_happened", run.landed
    kills = [s for s in landed if s.injection.fault.kills]
    victims = sum(len(s.victims) for s in kills)
    fact = f"{len(landed)} faults, {len(kills)} of them kills with {victims} victims"
    asked = any(i.fault.kills for i in run.planned)
    if not landed or (asked and not victims):
        return Finding(name, Verdict.UNKNOWN, f"{fact}: a run that breaks nothing proves nothing")
    return Finding(name, Verdict.VALID, fact if asked else f"{fact}; no kill was asked for")


def recovered(run: RunEvidence) -> Finding:
    """The job came back after every fault."""
    bad = [
        f"fault {s.injection.number + 1}, {s.title}: {_not_back(s)}"
        for s in run.landed
        if s.recovered_s is None
    ]
    fact = f"{len(run.landed) - len(bad)} of {len(run.landed)} faults were recovered from"
    verdict = Verdict.INVALID if bad else Verdict.VALID
    return finding("recovered", verdict, fact, bad)


def load_was_enough(run: RunEvidence) -> Finding:
    """Records were read and committed all the time, and there was traffic at every strike."""
    name, strikes = "load_was_enough", run.landed
    if not strikes or not run.history.samples:
        return Finding(name, Verdict.UNKNOWN, "no fault, or nobody watched the job")
    first = strikes[0].at_s - _NEAR_S
    records = _grown(run, "input_end", first, float("inf"))
    commits = _grown(run, "stable", first, float("inf"))
    quiet = [
        f"fault {s.injection.number + 1}, {s.title}: no record came and none was waiting"
        for s in strikes
        if not s.lag_before and not _grown(run, "input_end", s.at_s - _NEAR_S, s.at_s + _NEAR_S)
    ]
    least = _RECORDS_MIN * len(strikes)
    fact = f"{records} records came from the first fault on, {least} are the least"
    fact += "" if commits else "; nothing was committed"
    fact += f"; {len(quiet)} of {len(strikes)} faults without traffic" if quiet else ""
    enough = records >= least and commits and not quiet
    return finding(name, Verdict.VALID if enough else Verdict.UNKNOWN, fact, quiet)


def acked_is_there(run: RunEvidence) -> Finding:
    """Every acknowledged record of the workload is in the input topics, and none is there twice."""
    name, load = "acked_is_there", run.history.load
    if load is None:
        return Finding(name, Verdict.UNKNOWN, "the workload did not say what it sent")
    numbers, counts = np.unique(np.asarray(run.found, dtype=np.int64), return_counts=True)
    twice = numbers[counts > 1].tolist()
    strange = numbers[(numbers < load.first) | (numbers > load.last)].tolist()
    missing = max(0, load.acked - len(numbers))
    fact = (
        f"{load.acked} of {load.sent} records were acknowledged, {len(numbers)} are in the input "
        f"topics; {missing} missing, {len(twice)} more than once, {len(strange)} never sent"
    )
    bad = bool(missing or twice or strange)
    examples = [f"record {n} is there more than once" for n in twice[:EXAMPLES_MAX]]
    examples += [f"record {n} was never sent" for n in strange[:EXAMPLES_MAX]]
    if missing and not load.failed:
        gone = np.setdiff1d(np.arange(load.first, load.last + 1), numbers)
        examples += [f"record {n} is missing" for n in gone[:EXAMPLES_MAX].tolist()]
    return finding(name, Verdict.INVALID if bad else Verdict.VALID, fact, examples)


def workload_failures(run: RunEvidence) -> Finding:
    """The load that was asked for was there: hardly a record was given up."""
    name, load = "workload_failures", run.history.load
    if load is None:
        return Finding(name, Verdict.UNKNOWN, "the workload did not say what it sent")
    fact = f"{load.failed} of {load.sent} records could not be written"
    enough = load.sent and load.failed <= load.sent * _FAILED_SHARE_MAX
    return Finding(name, Verdict.VALID if enough else Verdict.UNKNOWN, fact)


RUN_CHECKERS: tuple[Checker[RunEvidence], ...] = (
    faults_landed,
    moments_met,
    kills_happened,
    recovered,
    load_was_enough,
    acked_is_there,
    workload_failures,
    operations_ended,
    phases_passed,
)


def _open(strike: Strike) -> bool:
    return strike.outcome in (None, Kind.UNKNOWN)


def _missed(injection: Injection, strike: Strike | None) -> str:
    what = f"fault {injection.number + 1}, {injection.component} {injection.fault.value}"
    if strike is None:
        return f"{what}: never tried"
    if _open(strike):
        return f"{what}: nobody knows whether it landed"
    return f"{what}: did not land ({strike.evidence or 'no evidence'})"


def _missed_moment(strike: Strike, strikes: Iterable[Strike]) -> str:
    moment = strike.injection.moment
    if moment is not Moment.RECOVERY:
        wanted = moment.name
        met = strike.held_step.upper() == wanted
        return "" if met else f"no state task was held at {wanted} ({strike.held_step or 'none'})"
    before = [s for s in strikes if s.injection.number == strike.injection.number - 1]
    if not before:
        return "there is no fault before it"
    end = before[0].recovered_s
    over = end is not None and end <= strike.at_s
    return "the fault before it had been recovered from" if over else ""


def _not_back(strike: Strike) -> str:
    if strike.refusal:
        return f"the job has refused to go on: {strike.refusal}"
    if strike.waited_s is None:
        return "nobody saw it recover"
    return f"not recovered after {strike.waited_s:.0f} s"


def _grown(run: RunEvidence, what: str, start_s: float, end_s: float) -> int:
    """By how much a total grew in a span, widened to the nearest samples that know it.

    It may fall: a topic that is made again is empty.
    """
    known = [(s.at_s, getattr(s, what)) for s in run.history.samples if getattr(s, what)]
    first = max((i for i, (at, _) in enumerate(known) if at <= start_s), default=0)
    last = min((i for i, (at, _) in enumerate(known) if at >= end_s), default=len(known) - 1)
    pairs = itertools.pairwise(total for _, total in known[first : last + 1])
    return sum(max(0, after - before) for before, after in pairs)
