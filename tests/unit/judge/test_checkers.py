"""Every checker: one good history, and one bad history per anomaly."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.judge.checkers.checking import judge
from holdfast.judge.checkers.tables import (
    TABLE_CHECKERS,
    diverged_values,
    duplicated_updates,
    lost_keys,
    phantom_keys,
    sink_history_legal,
    sink_times,
    vacuous,
)
from holdfast.judge.evidence import TableEvidence
from holdfast.judge.values import Match
from holdfast.judge.verdict import Finding, Verdict, worst
from tests.unit.judge.judging import ROWS, UPDATES, changelog, evidence, history


@pytest.mark.parametrize("checker", TABLE_CHECKERS)
def test_a_good_history_is_valid(checker: Any) -> None:
    assert checker(evidence()).verdict is Verdict.VALID


def test_a_lost_key_is_invalid_and_named() -> None:
    finding = lost_keys(evidence(history(UPDATES[1:2])))
    assert finding.verdict is Verdict.INVALID
    assert finding.fact.startswith("1 of 2")
    assert finding.examples == ("Aliens",)


def test_a_key_removed_by_a_tombstone_is_lost() -> None:
    updates = [*UPDATES, (("Aliens",), None)]
    assert lost_keys(evidence(history(updates))).verdict is Verdict.INVALID


def test_a_phantom_key_is_invalid() -> None:
    finding = phantom_keys(evidence(history([*UPDATES, (("Alien",), {"SOLD": 1})])))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("Alien",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"SOLD": 3, "TOTAL": 30.5},
        {"SOLD": 2, "TOTAL": 30.500_001},
        {"SOLD": 2, "TOTAL": None},
        {"SOLD": 2},
        {"SOLD": "2", "TOTAL": 30.5},
    ],
)
def test_a_diverged_value_is_invalid(wrong: dict[str, Any]) -> None:
    finding = diverged_values(evidence(history([*UPDATES, (("Aliens",), wrong)])))
    assert finding.verdict is Verdict.INVALID
    assert finding.fact == "1 of 2 compared rows differ"


def test_doubles_agree_to_a_billionth() -> None:
    close = {"SOLD": 2, "TOTAL": 30.5 * (1 + 1e-11)}
    assert diverged_values(evidence(history([*UPDATES, (("Aliens",), close)]))).verdict is (
        Verdict.VALID
    )


def _timed(at: int, newest: int = 70, **known: Any) -> TableEvidence:
    sink = history()
    sink.update(("Aliens",), ROWS["Aliens",], at)
    sink.update(("Die Hard",), ROWS["Die Hard",], 90)
    newest_of = {("Aliens",): newest, ("Die Hard",): 90}
    return evidence(sink, newest=newest_of, timed=True, **known)


def test_a_rows_record_has_the_newest_event_time_of_what_it_is_made_of() -> None:
    assert sink_times(_timed(70)).verdict is Verdict.VALID
    wrong = sink_times(_timed(1_795_000_000_000))
    assert wrong.verdict is Verdict.INVALID
    assert wrong.examples == ("Aliens: at 1795000000000 ms, must be 70",)


def test_event_time_0_is_not_now() -> None:
    """A client that is given 0 takes it for no time; the nearest that it can write is 1."""
    assert sink_times(_timed(1_795_000_000_000, newest=0)).verdict is Verdict.INVALID
    for near in (0, 1):
        assert sink_times(_timed(near, newest=0)).verdict is Verdict.VALID
    assert sink_times(_timed(2, newest=1)).verdict is Verdict.INVALID


def test_a_window_without_its_late_record_may_be_older_and_never_newer() -> None:
    late = {"windowed": True, "dropped_late": 1}
    assert sink_times(_timed(60, **late)).verdict is Verdict.VALID
    assert sink_times(_timed(71, **late)).verdict is Verdict.INVALID


def test_an_update_written_twice_is_invalid() -> None:
    finding = duplicated_updates(evidence(history([*UPDATES, UPDATES[-1]])))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("Aliens: SOLD 2 -> 2",)


def test_a_count_that_goes_back_is_invalid_even_when_it_ends_right() -> None:
    finding = duplicated_updates(evidence(history([UPDATES[2], UPDATES[0], UPDATES[2]])))
    assert finding.verdict is Verdict.INVALID
    assert len(finding.examples) == 2


def test_a_count_goes_on_growing_across_a_tombstone() -> None:
    """HAVING removes a row and brings it back; its count must not start anew."""
    back = [UPDATES[0], (("Aliens",), None), UPDATES[0]]
    on = [UPDATES[0], (("Aliens",), None), UPDATES[2]]
    assert duplicated_updates(evidence(history(back))).verdict is Verdict.INVALID
    assert duplicated_updates(evidence(history(on))).verdict is Verdict.VALID


def test_a_count_of_a_column_may_stay_but_not_shrink() -> None:
    """COUNT(x) stays where x is null."""

    def judged(*counts: int) -> Verdict:
        updates = [(("a",), {"N": n}) for n in counts]
        return duplicated_updates(evidence(history(updates, (), ("N",)))).verdict

    assert judged(1, 1, 2) is Verdict.VALID
    assert judged(2, 1) is Verdict.INVALID


def test_a_count_above_the_input_s_is_illegal_even_when_it_is_gone_in_the_end() -> None:
    """A dirty read: it was there for a moment."""
    updates = [(("Aliens",), {"SOLD": 3}), UPDATES[1], UPDATES[2]]
    finding = sink_history_legal(evidence(history(updates, (), ("SOLD",))))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("Aliens: SOLD was 3, the input gives 2",)


def test_a_key_written_more_often_than_it_was_read_is_illegal() -> None:
    """Also where no count shows it."""
    sink = history([*UPDATES, UPDATES[0], UPDATES[2]], growing=())
    finding = sink_history_legal(evidence(sink))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("Aliens: written 4 times, the input has 2 records of it",)
    assert duplicated_updates(evidence(sink)).verdict is Verdict.VALID


def test_a_group_that_having_keeps_out_is_counted_as_well() -> None:
    out = [(("Alien",), None)] * 2
    records = {("Aliens",): 2, ("Die Hard",): 3, ("Alien",): 2}
    assert sink_history_legal(evidence(history([*UPDATES, *out]), records=records)).verdict is (
        Verdict.VALID
    )
    records[("Alien",)] = 1
    assert sink_history_legal(evidence(history([*UPDATES, *out]), records=records)).verdict is (
        Verdict.INVALID
    )


def test_a_comparison_of_nothing_is_not_valid() -> None:
    assert vacuous(evidence(input_records=0)).verdict is Verdict.UNKNOWN
    assert vacuous(evidence(history([]))).verdict is Verdict.UNKNOWN
    empty = evidence(history([]), {}, changelog=changelog(rows_min=0))
    assert worst(f.verdict for f in judge(empty, TABLE_CHECKERS)) is Verdict.UNKNOWN


def test_doubtful_input_turns_a_difference_into_unknown() -> None:
    finding = lost_keys(evidence(history(UPDATES[1:2]), doubtful="3 values are odd"))
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.fact.endswith("3 values are odd")


def test_what_was_not_recomputed_is_unknown_with_the_reason() -> None:
    findings = judge(evidence(expected=None, unjudged="a join"), TABLE_CHECKERS)
    by_name = {f.checker: f for f in findings}
    assert by_name["lost_keys"].fact == "a join"
    assert by_name["hanging_transactions"].verdict is Verdict.VALID
    assert worst(f.verdict for f in findings) is Verdict.UNKNOWN


def test_a_crashed_checker_is_unknown_and_hides_no_other() -> None:
    def crashes(_: TableEvidence) -> Finding:
        raise ZeroDivisionError("oh")

    findings = judge(evidence(history([])), [crashes, lost_keys])
    assert [f.verdict for f in findings] == [Verdict.UNKNOWN, Verdict.INVALID]
    assert "ZeroDivisionError" in findings[0].fact


def test_a_value_that_depends_on_the_order_may_be_any_of_several() -> None:
    def judged(actual: int | None, legal: list[int]) -> Verdict:
        table = evidence(
            history([(("a",), {"L": actual})], ()),
            {("a",): {"L": legal}},
            matches={"L": Match.ANY_OF},
        )
        return diverged_values(table).verdict

    assert judged(1, [1, 2]) is Verdict.VALID
    assert judged(3, [1, 2]) is Verdict.INVALID
    assert judged(None, []) is Verdict.VALID
    assert judged(None, [1]) is Verdict.INVALID


def test_a_bag_has_the_same_elements_in_any_order_up_to_its_limit() -> None:
    def judged(actual: list[int], expected: list[int]) -> Verdict:
        table = evidence(
            history([(("a",), {"L": actual})], ()),
            {("a",): {"L": expected}},
            matches={"L": Match.BAG},
        )
        return diverged_values(table).verdict

    many = list(range(1500))
    assert judged([2, 1, 1], [1, 1, 2]) is Verdict.VALID
    assert judged([2, 1], [1, 1, 2]) is Verdict.INVALID
    assert judged([2, 2, 1], [1, 1, 2]) is Verdict.INVALID
    assert judged(many[500:], many) is Verdict.VALID
    assert judged(many[501:], many) is Verdict.INVALID


def test_the_worst_verdict_wins_and_no_verdict_is_unknown() -> None:
    assert worst([Verdict.VALID, Verdict.INVALID, Verdict.UNKNOWN]) is Verdict.INVALID
    assert worst([Verdict.VALID, Verdict.UNKNOWN]) is Verdict.UNKNOWN
    assert worst([Verdict.VALID]) is Verdict.VALID
    assert worst([]) is Verdict.UNKNOWN


def test_the_rows_of_the_good_history_are_what_it_ends_with() -> None:
    assert history().rows == ROWS
