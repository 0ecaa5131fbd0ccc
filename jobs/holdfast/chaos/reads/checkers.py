"""The checkers of what query servers answered while everything around them was broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.chaos.history.strikes import Strike
from holdfast.chaos.reads.answers import Read, States
from holdfast.judge.checkers.checking import Checker, finding
from holdfast.judge.values import show_key
from holdfast.judge.verdict import Finding, Verdict
from holdfast.types.components import BROKER, SERVER

__all__ = [
    "READ_CHECKERS",
    "ReadEvidence",
    "answers_are_states",
    "enough_reads",
    "positions_go_forward",
    "reads_answered",
    "strikes_during",
]

_READS_MIN = 10  # per table, and while a server is away


@dataclass(frozen=True)
class ReadEvidence:
    """All reads of a run.

    Attributes:
        servers: how many there are.
        tables: the states of every table that was to be read.
        strikes: the faults.
        copies: on how many of the servers each state partition lies, if there are as many.
    """

    servers: int
    reads: Sequence[Read]
    tables: Mapping[str, States]
    strikes: Sequence[Strike] = field(default=())
    copies: int = 2

    @property
    def answered(self) -> list[Read]:
        return [read for read in self.reads if read.rows is not None]


def answers_are_states(evidence: ReadEvidence) -> Finding:
    """Every answer is what the table had at the position that the answer tells."""
    bad: list[str] = []
    unknown: list[str] = []
    for read in evidence.answered:
        states = evidence.tables.get(read.table)
        why = states.differences(read) if states is not None else "nobody knows this table"
        if why:
            gone = states is None or states.unsure(read)
            (unknown if gone else bad).append(_words(read, why))
    count = len(evidence.answered)
    fact = f"{len(bad) + len(unknown)} of {count} answers are no state that their table had"
    if unknown and not bad:
        fact += "; what they are compared with may lack records by now"
    verdict = Verdict.INVALID if bad else Verdict.UNKNOWN if unknown else Verdict.VALID
    return finding("answers_are_states", verdict, fact, bad + unknown)


def positions_go_forward(evidence: ReadEvidence) -> Finding:
    """Within a session no answer is of an older position than one before it."""
    seen: dict[tuple[str, str, int], int] = {}
    bad = []
    for read in evidence.answered:
        for partition, position in read.positions.items():
            place = (read.session, read.table, partition)
            before = seen.get(place, 0)
            if position < before:
                why = f"position {position} of state partition {partition} after {before}"
                bad.append(_words(read, f"was told {why}"))
            seen[place] = max(before, position)
    sessions = len({read.session for read in evidence.reads})
    fact = f"{len(bad)} answers in {sessions} sessions went back to an older position"
    return finding("positions_go_forward", Verdict.INVALID if bad else Verdict.VALID, fact, bad)


def reads_answered(evidence: ReadEvidence) -> Finding:
    """No read fails while a server that has the rows is there."""
    failed = [read for read in evidence.reads if read.rows is None]
    bad = [
        _words(read, f"failed after {read.took_s:.1f} s: {read.reason}")
        for read in failed
        if _broken(strikes_during(read, evidence.strikes)) < min(evidence.servers, evidence.copies)
    ]
    fact = f"{len(failed)} of {len(evidence.reads)} reads failed"
    if failed:
        fact += f", {len(bad)} of them although a server was left to answer"
    return finding("reads_answered", Verdict.INVALID if bad else Verdict.VALID, fact, bad)


def enough_reads(evidence: ReadEvidence) -> Finding:
    """Tables were read, from every server, and while servers were away."""
    answered = evidence.answered
    few = [
        f"table {name}: {count} answers with rows"
        for name, states in evidence.tables.items()
        if states.rows_seen
        if (count := sum(1 for r in answered if r.table == name and r.rows)) < _READS_MIN
    ]
    few += [
        f"fault {strike.injection.number + 1}, {strike.title}: {count} reads meanwhile"
        for strike in evidence.strikes
        if strike.landed and strike.injection.component == SERVER
        if (count := sum(1 for r in evidence.reads if strikes_during(r, [strike]))) < _READS_MIN
    ]
    told = {server for read in answered for server in read.servers.values()}
    fact = (
        f"{len(answered)} answers over {len(evidence.tables)} tables by {len(told)} of "
        f"{evidence.servers} servers"
    )
    enough = evidence.tables and len(told) >= evidence.servers and not few
    return finding("enough_reads", Verdict.VALID if enough else Verdict.UNKNOWN, fact, few)


READ_CHECKERS: tuple[Checker[ReadEvidence], ...] = (
    answers_are_states,
    positions_go_forward,
    reads_answered,
    enough_reads,
)


def strikes_during(read: Read, strikes: Sequence[Strike]) -> list[Strike]:
    """The faults that were not recovered from while the read went on."""
    return [
        s
        for s in strikes
        if s.at_s <= read.end_s and (s.recovered_s is None or read.at_s <= s.recovered_s)
    ]


def _broken(strikes: Sequence[Strike]) -> int:
    """How many of those that a read needs were broken: servers, and the broker they follow."""
    servers = {v for s in strikes if s.injection.component == SERVER for v in s.victims}
    return len(servers) + any(s.injection.component == BROKER for s in strikes)


def _words(read: Read, why: str) -> str:
    return f"{read.table} {show_key(read.key)}, {read.session} number {read.op}: {why}"
