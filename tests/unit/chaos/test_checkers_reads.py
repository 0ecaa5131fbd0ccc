"""Every checker of reads: one good history, and one bad history per anomaly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.reads.answers import Read, States
from holdfast.chaos.reads.checkers import (
    READ_CHECKERS,
    answers_are_states,
    enough_reads,
    positions_go_forward,
    reads_answered,
)
from holdfast.chaos.reads.stats import read_stats, table_reads
from holdfast.judge.read.observe import Record
from holdfast.judge.verdict import ReadStats, TableReads, Verdict
from holdfast.sql import compile_text
from holdfast.types.components import BROKER, DRIVER
from tests.unit.chaos.answering import (
    ALIEN,
    KILL,
    evidence,
    failed,
    final_states,
    read,
    reads,
    states,
    table,
)

MEANWHILE = 12  # a read's number, and so its second, while a server is away


@pytest.mark.parametrize("checker", READ_CHECKERS)
def test_good_reads_are_valid(checker: Any) -> None:
    finding = checker(evidence())
    assert finding.verdict is Verdict.VALID, finding


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (read(1, 2, 80, 3), "at position 3 of state partition 0 answered {(): "),
        (read(1, 1, 70, 6), "the table had {(): {'ROWTIME': 80, 'N': 2}}"),
        (read(1, 1, 80, 3), "'ROWTIME': 80, 'N': 1}}, the table had"),
        (read(1, 0, 0, 3, rows=[]), "answered {}, the table had {(): {'ROWTIME': 70"),
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
    assert "may lack records by now" in finding.fact


def final(start: int | None, *told: tuple[int, int, int], at: tuple[int, int] = (99, 99)) -> Read:
    """An answer about Aliens: (start of a window, time, count) of each row."""
    rows = [{"TITLE": "Aliens", "WINDOWSTART": s, "ROWTIME": t, "N": n} for s, t, n in told]
    return read(1, 0, 0, 0, start=start, rows=rows, positions=dict(enumerate(at)))


WRITTEN = [(0, "Aliens", 5, 1), (1, "Aliens", 6, 2), (0, "Alien", 5, 7), (0, "Aliens", 5, 3)]


def test_windows_of_a_key_are_judged_each_at_the_position_of_its_partition() -> None:
    table = {"T": final_states(WRITTEN)}
    right = [
        final(None, (5, 73, 3), (6, 71, 2)),
        final(None, (5, 70, 1), at=(3, 1)),
        final(6, (6, 71, 2)),
        final(7),
    ]
    assert answers_are_states(evidence(right, table)).verdict is Verdict.VALID
    wrong = [
        final(None, (5, 73, 3)),
        final(None, (5, 73, 3), (6, 71, 2), at=(3, 99)),
        final(6, (6, 71, 2), (6, 71, 2)),
        final(5),
        final(6, (6, 71, 2), at=(99, 100)),
    ]
    for answer in wrong:
        assert answers_are_states(evidence([answer], table)).verdict is Verdict.INVALID, answer


def test_only_what_may_have_been_compacted_away_is_unknown() -> None:
    """Before the first record of a key that is left, and before any key comes again."""
    compacted = [(0, "Alien", 5, 7), (0, "Aliens", 5, 3), (0, "Alien", 5, 8), (0, "Aliens", 6, 1)]
    cases = [
        (final(5, (5, 1, 9), at=(1, 0)), Verdict.UNKNOWN),
        (final(5, (5, 1, 9), at=(3, 0)), Verdict.INVALID),
        (final(6, (6, 1, 9), at=(1, 0)), Verdict.INVALID),
    ]
    for answer, verdict in cases:
        found = evidence([answer], {"T": final_states(compacted)})
        assert answers_are_states(found).verdict is verdict, answer
    whole = evidence([cases[0][0]], {"T": final_states(compacted, compacted=False)})
    assert answers_are_states(whole).verdict is Verdict.INVALID


def followed(*written: str | None, compacted: bool = False) -> States:
    """A declared table's topic: the records of one key, in offset order; None: a tombstone."""
    declared = compile_text(
        "CREATE TABLE c (k VARCHAR PRIMARY KEY, city VARCHAR) WITH (KAFKA_TOPIC = 'c',"
        " VALUE_FORMAT = 'JSON', PARTITIONS = 1); CREATE TABLE d AS SELECT k, city FROM c;"
    )
    found = States(table(declared, "C").rows, frozenset({("a",)}), {0: 99}, compacted=compacted)
    for offset, value in enumerate(written):
        found.update(Record(0, offset, b"a", None if value is None else value.encode(), 70))
    return found


def city(name: str | None, position: int) -> Read:
    rows = [] if name is None else [{"K": "a", "ROWTIME": 70, "CITY": name}]
    return read(1, 0, 0, 0, table="C", key=("a",), rows=rows, positions={0: position})


def test_a_record_that_cannot_be_decoded_leaves_the_row_of_its_key() -> None:
    """Found by a chaos run with garbage in the topic of a declared table."""
    table = {"C": followed('{"CITY": "Rome"}', "rubbish", '{"CITY": "Oslo"}', None, "rubbish")}
    right = [city("Rome", 2), city("Oslo", 3), city(None, 4), city(None, 5)]
    assert answers_are_states(evidence(right, table)).verdict is Verdict.VALID
    for wrong in (city(None, 2), city("Oslo", 2), city("Rome", 3), city("Oslo", 5)):
        assert answers_are_states(evidence([wrong], table)).verdict is Verdict.INVALID, wrong


def test_what_came_before_such_a_record_may_have_been_compacted_away() -> None:
    answer = city("Rome", 2)
    table = {"C": followed("rubbish", "rubbish", compacted=True)}
    assert answers_are_states(evidence([answer], table)).verdict is Verdict.UNKNOWN
    table = {"C": followed("rubbish", "rubbish")}
    assert answers_are_states(evidence([answer], table)).verdict is Verdict.INVALID


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
    single = replace(evidence([failed(MEANWHILE)]), copies=1)
    assert reads_answered(single).verdict is Verdict.VALID
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


def test_a_table_that_never_had_a_row_needs_no_reads() -> None:
    tables = {"T": states(), "F": final_states([])}
    assert enough_reads(evidence(tables=tables)).verdict is Verdict.VALID
    some = {"T": states(), "F": final_states(WRITTEN)}
    assert enough_reads(evidence(tables=some)).examples == ("table F: 0 answers with rows",)
    assert table_reads([*reads(), failed(1)], tables, {"X": "no key"}) == (
        TableReads("T", 30),
        TableReads("F", 0, "it never had a row"),
        TableReads("X", 0, "no key"),
    )


def test_reads_are_counted_by_what_was_broken_meanwhile() -> None:
    slow = read(MEANWHILE, 1, 70, 3, took_s=0.99)
    found = [*reads(), failed(MEANWHILE), slow]
    everything, quiet, killed = read_stats(found, [KILL])
    assert everything == ReadStats("all", 32, 1, 10.0, 696.0)
    assert (quiet.kind, quiet.count, quiet.failed) == ("undisturbed", 19, 0)
    assert (killed.kind, killed.count, killed.failed) == ("server kill", 13, 1)
    assert read_stats([], [KILL]) == ()
    assert read_stats([failed(1)], [KILL])[0] == ReadStats("all", 1, 1, 0.0, 0.0)
