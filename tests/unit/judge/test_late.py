"""Late records: exactly as many as were dropped may be missing, and nothing else."""

from __future__ import annotations

from typing import Any

from holdfast.judge.checkers.places import changelog_agrees
from holdfast.judge.checkers.tables import diverged_values, late_records, lost_keys, phantom_keys
from holdfast.judge.evidence import TableEvidence
from holdfast.judge.verdict import Verdict, worst
from tests.unit.judge.judging import UPDATES, changelog, evidence, folded, history

HOUR = 3_600_000
EXPECTED: dict[Any, dict[str, Any]] = {("AA", 0): {"SOLD": 5}, ("AA", HOUR): {"SOLD": 2}}
RIGHT = {("AA", 0): 5, ("AA", HOUR): 2}


def windowed(
    updates: dict[tuple[str, int], int], dropped: int | None, **known: Any
) -> TableEvidence:
    records = [(k, {"SOLD": n}) for k, n in updates.items()]
    facts = {"windowed": True, "record_count": "SOLD", "records": {}} | known
    return evidence(history(records), EXPECTED, dropped_late=dropped, **facts)


def judged(table: TableEvidence) -> Verdict:
    checkers = (lost_keys, phantom_keys, diverged_values, late_records)
    return worst(checker(table).verdict for checker in checkers)


def test_exactly_the_dropped_records_may_be_missing() -> None:
    fewer = {("AA", 0): 4, ("AA", HOUR): 2}
    assert [judged(windowed(fewer, n)) for n in (0, 1, 2)] == [
        Verdict.INVALID, Verdict.VALID, Verdict.INVALID,
    ]  # fmt: skip
    finding = diverged_values(windowed(fewer, 1))
    assert finding.fact.endswith("exactly the 1 late records that were dropped are missing")


def test_a_window_that_is_not_there_lacks_all_of_its_records() -> None:
    one = {("AA", 0): 5}
    assert [judged(windowed(one, n)) for n in (1, 2, 3)] == [
        Verdict.INVALID, Verdict.VALID, Verdict.INVALID,
    ]  # fmt: skip


def test_drops_that_hit_nothing_are_found() -> None:
    assert late_records(windowed(RIGHT, 1)).verdict is Verdict.INVALID
    assert late_records(windowed(RIGHT, 0)).verdict is Verdict.VALID


def test_too_many_in_one_window_does_not_make_up_for_too_few_in_another() -> None:
    """A record in the wrong window: the sum is right, the table is not."""
    assert judged(windowed({("AA", 0): 3, ("AA", HOUR): 3}, 1)) is Verdict.INVALID


def test_late_records_excuse_no_phantom_and_nothing_outside_windows() -> None:
    assert phantom_keys(windowed({**RIGHT, ("BB", 0): 1}, 9)).verdict is Verdict.INVALID
    assert lost_keys(evidence(history(UPDATES[1:2]), dropped_late=9)).verdict is Verdict.INVALID


def test_another_value_is_wrong_where_no_record_is_missing() -> None:
    expected = {k: {**row, "TOTAL": 7} for k, row in EXPECTED.items()}
    rows = [(("AA", 0), {"SOLD": 4, "TOTAL": 1}), (("AA", HOUR), {"SOLD": 2, "TOTAL": 8})]
    facts: dict[str, Any] = {"windowed": True, "record_count": "SOLD", "dropped_late": 1}
    assert diverged_values(evidence(history(rows), expected, **facts)).verdict is Verdict.INVALID


def test_another_value_cannot_be_judged_where_records_are_missing() -> None:
    expected = {k: {**row, "TOTAL": 7} for k, row in EXPECTED.items()}
    rows = [(("AA", 0), {"SOLD": 4, "TOTAL": 1}), (("AA", HOUR), {"SOLD": 2, "TOTAL": 7})]
    facts: dict[str, Any] = {"windowed": True, "record_count": "SOLD", "dropped_late": 1}
    finding = diverged_values(evidence(history(rows), expected, **facts))
    assert finding.verdict is Verdict.UNKNOWN
    assert "TOTAL cannot be recomputed" in finding.fact


def test_the_first_records_of_a_window_that_lacks_some_make_its_other_values() -> None:
    expected = {k: {**row, "TOTAL": 7} for k, row in EXPECTED.items()}
    rows = [(("AA", 0), {"SOLD": 4, "TOTAL": 1}), (("AA", HOUR), {"SOLD": 2, "TOTAL": 7})]
    facts: dict[str, Any] = {"windowed": True, "record_count": "SOLD", "dropped_late": 1}

    def judged_with(*totals: int) -> Verdict:
        first = {("AA", 0): [{"SOLD": 4, "TOTAL": total} for total in totals]}
        return diverged_values(evidence(history(rows), expected, first=first, **facts)).verdict

    assert judged_with(1) is Verdict.VALID
    assert judged_with(2, 1) is Verdict.VALID
    assert judged_with(2, 3) is Verdict.INVALID


def test_without_a_count_of_records_the_drops_are_an_excuse_as_far_as_they_reach() -> None:
    one = {("AA", HOUR): 2}

    def lost(updates: dict[tuple[str, int], int], dropped: int | None) -> Verdict:
        return lost_keys(windowed(updates, dropped, record_count="")).verdict

    assert [lost(one, n) for n in (0, 1, None)] == [
        Verdict.INVALID, Verdict.UNKNOWN, Verdict.UNKNOWN,
    ]  # fmt: skip
    assert lost({}, 1) is Verdict.INVALID
    smaller = windowed({("AA", 0): 4, ("AA", HOUR): 2}, 1, record_count="")
    larger = windowed({("AA", 0): 6, ("AA", HOUR): 2}, 1, record_count="")
    assert diverged_values(smaller).verdict is Verdict.UNKNOWN
    assert diverged_values(larger).verdict is Verdict.INVALID


def test_a_window_whose_records_all_came_late_may_be_absent_from_the_changelog() -> None:
    one = changelog(folded(), folded(0), rows_min=2)
    assert changelog_agrees(windowed({("AA", 0): 5}, 2, changelog=one)).verdict is Verdict.VALID
    assert changelog_agrees(windowed(RIGHT, 0, changelog=one)).verdict is Verdict.INVALID
