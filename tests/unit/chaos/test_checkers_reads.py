"""Every checker of reads: one good history, and one bad history per anomaly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.chaos.answers import Read
from holdfast.chaos.checkers_reads import (
    READ_CHECKERS,
    answers_are_states,
    enough_reads,
    positions_go_forward,
    reads_answered,
)
from holdfast.chaos.faults import BROKER, DRIVER, Fault, Injection, Moment
from holdfast.chaos.read_stats import read_stats
from holdfast.chaos.verdict import ReadStats, Verdict
from tests.unit.chaos.answering import (
    ALIEN,
    KILL,
    evidence,
    failed,
    read,
    reads,
    states,
)

MEANWHILE = 12  # a read's number, and so its second, while a server is away


@pytest.mark.parametrize("checker", READ_CHECKERS)
def test_good_reads_are_valid(checker: Any) -> None:
    finding = checker(evidence())
    assert finding.verdict is Verdict.VALID, finding


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (read(1, 2, 80, 3), "at position 3 of state partition 0 answered {None: "),
        (read(1, 1, 70, 6), "the table had {None: {'ROWTIME': 80, 'N': 2}}"),
        (read(1, 1, 80, 3), "'ROWTIME': 80, 'N': 1}}, the table had"),
        (read(1, 0, 0, 3, rows=[]), "answered {}, the table had {None: {'ROWTIME': 70"),
        (read(1, 1, 70, 1), "position 1 of state partition 0, which is not between two"),
        (read(1, 2, 80, 5), "position 5 of state partition 0, which is not between two"),
        (read(1, 2, 80, 8), "position 8 of state partition 0, which is not between two"),
        (read(1, 1, 70, 3, positions={1: 3}), "no position of state partition 0 is told"),
        (read(1, 1, 70, 3, key=("Heat",)), "the changelog never had the key"),
    ],
)
def test_an_answer_that_the_table_never_had_at_its_position_is_invalid(
    answer: Read, why: str
) -> None:
    finding = answers_are_states(evidence([*reads(), answer]))
    assert finding.verdict is Verdict.INVALID
    assert finding.fact == "1 of 31 answers are no state that their table had"
    assert why in finding.examples[0]


def test_before_its_first_commit_a_key_has_no_row() -> None:
    nothing = read(1, 0, 0, 0, rows=[])
    assert answers_are_states(evidence([nothing])).verdict is Verdict.VALID
    assert answers_are_states(evidence([read(1, 1, 70, 0)])).verdict is Verdict.INVALID


def test_a_row_may_be_missing_only_where_having_may_keep_it_out() -> None:
    lacking = [read(1, 0, 0, 3, rows=[])]
    having = {"T": states("HAVING COUNT(*) > 1")}
    assert answers_are_states(evidence(lacking, having)).verdict is Verdict.VALID
    wrong = [read(1, 7, 70, 3)]
    assert answers_are_states(evidence(wrong, having)).verdict is Verdict.INVALID


def test_differences_from_a_compacted_changelog_are_unknown() -> None:
    gone = {"T": states(start=[[0, 99]])}
    assert answers_are_states(evidence([read(1, 2, 80, 6)], gone)).verdict is Verdict.VALID
    finding = answers_are_states(evidence([read(1, 2, 80, 3)], gone))
    assert finding.verdict is Verdict.UNKNOWN
    assert "does not have all its records any more" in finding.fact


def test_a_position_that_goes_back_within_a_session_is_invalid() -> None:
    back = read(31, 1, 70, 3)
    finding = positions_go_forward(evidence([*reads(), back]))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == (
        "T Aliens, reader-0 number 31: was told position 3 of state partition 0 after 7",
    )
    assert answers_are_states(evidence([*reads(), back])).verdict is Verdict.VALID
    for elsewhere in ({"session": "reader-1"}, {"table": "U"}, {"positions": {1: 3}}):
        apart = [*reads(), replace(back, **elsewhere)]
        assert positions_go_forward(evidence(apart)).verdict is Verdict.VALID


def test_a_failed_read_is_invalid_while_a_server_is_left() -> None:
    for op in (1, MEANWHILE):
        finding = reads_answered(evidence([*reads(), failed(op)]))
        assert finding.verdict is Verdict.INVALID
        assert (
            finding.fact == "1 of 31 reads failed, 1 of them although a server was left to answer"
        )
        assert finding.examples[0].endswith("failed after 0.0 s: nobody")


def test_a_failed_read_is_no_fault_of_servers_that_are_all_away() -> None:
    other = replace(KILL, victims=("server 0",))
    both = evidence([*reads(), failed(MEANWHILE)], strikes=[KILL, other])
    assert reads_answered(both).verdict is Verdict.VALID
    assert "1 of 31 reads failed, 0 of them" in reads_answered(both).fact
    only = evidence([failed(MEANWHILE)], servers=1)
    assert reads_answered(only).verdict is Verdict.VALID
    broker = replace(KILL, injection=Injection(1, BROKER, Fault.KILL, Moment.RECOVERY))
    behind = evidence([failed(MEANWHILE)], strikes=[KILL, broker])
    assert reads_answered(behind).verdict is Verdict.VALID
    driver = replace(KILL, injection=Injection(1, DRIVER, Fault.KILL, Moment.RECOVERY))
    assert (
        reads_answered(evidence([failed(MEANWHILE)], strikes=[driver])).verdict is Verdict.INVALID
    )


@pytest.mark.parametrize(
    "found",
    [
        [],
        [failed(op) for op in range(30)],
        [replace(r, rows=[]) for r in reads()],
        [replace(r, servers={0: "0"}) for r in reads()],
        [replace(r, at_s=90.0) for r in reads()],
        [replace(r, key=ALIEN, table="U") for r in reads()],
    ],
    ids=["none", "failed", "empty", "one server", "before the fault", "another table"],
)
def test_too_few_reads_are_unknown(found: list[Read]) -> None:
    assert enough_reads(evidence(found)).verdict is Verdict.UNKNOWN


def test_reads_are_counted_by_what_was_broken_meanwhile() -> None:
    slow = read(MEANWHILE, 1, 70, 3, took_s=0.99)
    found = [*reads(), failed(MEANWHILE), slow]
    everything, quiet, killed = read_stats(found, [KILL])
    assert everything == ReadStats("all", 32, 1, 10.0, 696.0)
    assert (quiet.kind, quiet.count, quiet.failed) == ("undisturbed", 19, 0)
    assert (killed.kind, killed.count, killed.failed) == ("server kill", 13, 1)
    assert read_stats([], [KILL]) == ()
    assert read_stats([failed(1)], [KILL])[0] == ReadStats("all", 1, 1, 0.0, 0.0)
