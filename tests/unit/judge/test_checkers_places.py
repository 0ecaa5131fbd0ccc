"""Places that tell of one query: one good history, one bad per disagreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast.judge.checkers.places import (
    changelog_agrees,
    changelog_rows,
    dead_letters_agree,
    elements_agree,
    group_agrees,
    hanging_transactions,
    markers_agree,
    stores_agree,
)
from holdfast.judge.values import OpenTransaction, RowHead
from holdfast.judge.verdict import Finding, Verdict
from holdfast.types.stores import StoreDigest
from tests.unit.judge.judging import HEADS, LEVEL, changelog, evidence, folded, stores


@pytest.mark.parametrize("rows", [0, 2])
def test_a_changelog_with_too_few_or_too_many_rows_is_invalid(rows: int) -> None:
    log = changelog(folded(), folded(rows))
    assert changelog_agrees(evidence(changelog=log)).verdict is Verdict.INVALID


def test_a_windowed_changelog_may_have_expired_rows_and_no_others() -> None:
    def judged(rows: int) -> Verdict:
        log = changelog(folded(rows), rows_min=1)
        return changelog_agrees(evidence(changelog=log, windowed=True)).verdict

    assert [judged(n) for n in range(4)] == [
        Verdict.INVALID, Verdict.VALID, Verdict.VALID, Verdict.INVALID,
    ]  # fmt: skip


def test_a_changelog_nobody_read_is_unknown() -> None:
    assert changelog_agrees(evidence(changelog=None)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (RowHead(70, 1), "Aliens: made of 1 records, must be 2"),
        (RowHead(70, 3), "Aliens: made of 3 records, must be 2"),
        (RowHead(69, 2), "Aliens: newest record at 69 ms, must be 70"),
        (RowHead(71, None), "Aliens: newest record at 71 ms, must be 70"),
    ],
)
def test_a_row_of_the_changelog_of_other_records_is_invalid(head: RowHead, told: str) -> None:
    log = changelog(heads={**HEADS, ("Aliens",): head})
    finding = changelog_rows(evidence(changelog=log))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == (told,)


def test_a_row_of_the_changelog_from_nowhere_is_invalid() -> None:
    log = changelog(heads={**HEADS, ("Alien",): None})
    finding = changelog_rows(evidence(changelog=log))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("Alien: comes from no input record",)


def test_rows_that_cannot_be_read_are_not_compared() -> None:
    unread = changelog_rows(evidence(changelog=changelog(heads={("Aliens",): None})))
    assert (unread.verdict, unread.fact[-15:]) == (Verdict.VALID, "0 could be read")
    assert changelog_rows(evidence(changelog=changelog(heads=None))).verdict is Verdict.VALID


def test_where_late_records_were_dropped_the_sink_says_how_many_there_are() -> None:
    def judged(records: int, newest_ms: int) -> Verdict:
        log = changelog(heads={("Aliens",): RowHead(newest_ms, records)})
        facts: dict[str, Any] = {"records": {("Aliens",): 5}, "windowed": True}
        return changelog_rows(
            evidence(changelog=log, record_count="SOLD", dropped_late=3, **facts)
        ).verdict

    assert judged(2, 60) is Verdict.VALID
    assert judged(3, 60) is Verdict.INVALID
    assert judged(2, 71) is Verdict.INVALID


def judged_stores(found: Mapping[int, Sequence[StoreDigest]] | None) -> Finding:
    return stores_agree(evidence(changelog=changelog(stores=found)))


def test_stores_with_their_changelog_s_rows_are_valid() -> None:
    finding = judged_stores(stores({}, {}))
    assert finding.verdict is Verdict.VALID
    assert finding.fact == "0 of 2 stores differ from their changelog, 2 row by row"


def test_a_store_without_a_digest_is_compared_by_its_rows() -> None:
    finding = judged_stores(stores({}, {"digest": None}))
    assert finding.verdict is Verdict.VALID
    assert finding.fact.endswith("1 row by row")
    assert judged_stores(stores({}, {"digest": None, "rows": 2})).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"digest": "e"}, "as many rows (1), but other ones"),
        ({"rows": 2}, "2 rows in the store, 1 in the changelog"),
        ({"position": 7}, "store at 7, last changelog record at 7"),
    ],
)
def test_a_store_that_differs_is_invalid_and_named(wrong: dict[str, Any], told: str) -> None:
    finding = judged_stores(stores({}, wrong))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == (f"state partition 1: {told}",)


@pytest.mark.parametrize(
    ("copy", "wrong"),
    [
        ({}, []),
        ({"position": 9}, []),
        ({"position": 9, "digest": "e"}, ["as many rows (1), but other ones"]),
        ({"rows": 0}, ["0 rows in the store, 1 in the changelog"]),
        ({"position": 7, "rows": 0}, []),  # it has moved away, or it is not level yet
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_standby_that_is_level_is_judged_as_its_owner_is(
    copy: dict[str, Any], wrong: list[str], first: bool
) -> None:
    (owner,), (standby,) = stores({"volume": 0})[0], stores({"volume": 1, **copy})[0]
    copies = sorted([owner, standby] if first else [standby, owner], key=lambda s: -s.position)
    finding = judged_stores({0: copies, 1: stores({}, {})[1]})
    assert finding.examples == tuple(f"state partition 0 on volume 1: {text}" for text in wrong)
    assert finding.verdict is (Verdict.INVALID if wrong else Verdict.VALID)


def test_a_store_nobody_could_read_is_unknown() -> None:
    assert judged_stores(stores({})).verdict is Verdict.UNKNOWN
    assert judged_stores(None).verdict is Verdict.UNKNOWN


def test_a_state_partition_that_never_held_anything_needs_no_store() -> None:
    log = changelog(folded(), folded(0, "0", -1), stores=stores({}))
    assert stores_agree(evidence(changelog=log)).verdict is Verdict.VALID


def test_a_state_partition_short_of_the_input_is_invalid() -> None:
    progress = replace(LEVEL, unlevel=["state partition 1: has {}"])
    finding = markers_agree(evidence(progress=progress))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("state partition 1: has {}",)


def test_a_group_ahead_of_the_markers_is_invalid() -> None:
    finding = group_agrees(evidence(progress=replace(LEVEL, taken_in={"in-0": 4, "in-1": 3})))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("topic partition in-0: group 5, commit markers 4, end 5",)
    assert group_agrees(evidence(progress=replace(LEVEL, taken_in={"in-1": 3}))).verdict is (
        Verdict.INVALID
    )


@pytest.mark.parametrize("group", [{"in-0": 5}, {"in-0": 5, "in-1": 2}])
def test_a_group_behind_the_input_is_not_valid(group: dict[str, int]) -> None:
    assert group_agrees(evidence(progress=replace(LEVEL, group=group))).verdict is Verdict.UNKNOWN


def test_an_open_transaction_is_invalid_and_named() -> None:
    finding = hanging_transactions(evidence(open_transactions=[OpenTransaction("T", 1, 5, 9)]))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("T-1: stable to 5, end 9",)


@pytest.mark.parametrize(
    ("undecodable", "dead_letters", "doubtful", "verdict"),
    [
        (3, 3, "", Verdict.VALID),
        (0, None, "", Verdict.VALID),
        (3, 2, "", Verdict.INVALID),
        (3, 4, "", Verdict.UNKNOWN),
        (3, 2, "5 input offsets are deleted by retention", Verdict.UNKNOWN),
    ],
)
def test_an_undecodable_record_that_was_not_set_aside_is_found(
    undecodable: int, dead_letters: int | None, doubtful: str, verdict: Verdict
) -> None:
    table = evidence(undecodable=undecodable, dead_letters=dead_letters, doubtful=doubtful)
    assert dead_letters_agree(table).verdict is verdict


def test_a_changelog_without_one_of_the_values_that_a_result_counts_is_invalid() -> None:
    elements: dict[Any, Any] = {("Aliens",): {"SOLD": 2}, ("Die Hard",): {"SOLD": 3}}
    assert elements_agree(evidence(changelog=changelog(elements=elements))).verdict is Verdict.VALID
    elements |= {("Die Hard",): {"SOLD": 2}, ("expired",): {"SOLD": 9}}
    finding = elements_agree(evidence(changelog=changelog(elements=elements)))
    assert finding.verdict is Verdict.INVALID
    assert finding.examples == ("Die Hard: SOLD is 3, the changelog has 2 values",)
    assert elements_agree(evidence(changelog=None)).verdict is Verdict.VALID
