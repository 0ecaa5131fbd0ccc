"""One function per anomaly that only joins, sessions and final results can have."""

from __future__ import annotations

from collections import defaultdict, deque

from holdfast.judge.checkers.checking import Checker, finding, unjudged
from holdfast.judge.checkers.places import (
    group_agrees,
    hanging_transactions,
    markers_agree,
    markers_go_on,
    stores_differ,
)
from holdfast.judge.checkers.streams import STREAM_CHECKERS
from holdfast.judge.checkers.tables import (
    diverged_values,
    late_is_possible,
    lost_keys,
    phantom_keys,
    vacuous,
)
from holdfast.judge.evidence import StreamEvidence, TableEvidence
from holdfast.judge.values import EXAMPLES_MAX, Key, show_key
from holdfast.judge.verdict import Finding, Verdict

__all__ = [
    "FINAL_CHECKERS",
    "RESULT_CHECKERS",
    "RESULT_STREAM_CHECKERS",
    "all_stores_agree",
    "count_is_right",
    "late_agrees",
    "out_of_order",
    "undetermined_records",
    "written_once",
]


def written_once(table: TableEvidence) -> Finding:
    """A final result is written once, and never taken back."""
    bad = [
        f"{show_key(key)}: written {times} times"
        for key, times in table.history.updates_of.items()
        if times > 1
    ]
    bad += [
        f"{show_key(key)}: deleted"
        for key in table.history.updates_of
        if key not in table.history.rows
    ]
    fact = f"{len(bad)} of {len(table.history.updates_of)} final results are not the only word"
    return finding("written_once", Verdict.INVALID if bad else Verdict.VALID, fact, bad)


def late_agrees(evidence: TableEvidence | StreamEvidence) -> Finding:
    """As many records were dropped for coming late as had to be."""
    name, late, dropped = "late_agrees", evidence.late, evidence.dropped_late
    if late is None or dropped is None:
        return Finding(name, Verdict.VALID, "nothing here is dropped for coming late")
    fact = f"{dropped} records were dropped as late, {late} must be"
    if late == dropped:
        return Finding(name, Verdict.VALID, fact)
    verdict = Verdict.UNKNOWN if evidence.doubtful else Verdict.INVALID
    return Finding(name, verdict, f"{fact}; {evidence.doubtful}".rstrip("; "))


def count_is_right(stream: StreamEvidence) -> Finding:
    """Where order decides what records say, it need not decide how many there are."""
    name, count, actual = "count_is_right", stream.count, stream.actual.total()
    if count is None:
        return Finding(name, Verdict.VALID, f"{actual} records; how many depends on their order")
    fact = f"{actual} records, must be {count} in whatever order the input came"
    if actual == count:
        return Finding(name, Verdict.VALID, fact)
    verdict = Verdict.UNKNOWN if stream.doubtful else Verdict.INVALID
    return Finding(name, verdict, f"{fact}; {stream.doubtful}".rstrip("; "))


def undetermined_records(stream: StreamEvidence) -> Finding:
    """Records that one order of the input makes and another does not: nobody can judge them."""
    name, expected, possible = "undetermined_records", stream.expected, stream.possible
    if expected is None:
        return unjudged(name, stream.unjudged)
    open_ones = (possible or expected) - expected
    if not open_ones:
        return Finding(name, Verdict.VALID, "the input alone says which records there are")
    there = (open_ones & (stream.actual - expected)).total()
    fact = (
        f"{there} records are right in some order of the input and need not be in others; "
        f"{stream.undetermined}"
    )
    examples = [show_key(key) for key, _ in open_ones.most_common(EXAMPLES_MAX)]
    return finding(name, Verdict.UNKNOWN, fact, examples)


def out_of_order(stream: StreamEvidence) -> Finding:
    """Records of one key stand in the order in which the input made them."""
    name = "out_of_order"
    if stream.order is None:
        return Finding(name, Verdict.VALID, "the order in which they were made is not known")
    places: defaultdict[Key, deque[int]] = defaultdict(deque)
    for place, record in stream.order:
        places[record].append(place)
    last: dict[Key, tuple[int, Key]] = {}
    bad = []
    for record in stream.written:
        key = record[: stream.keys]
        if not places[record] or not key or None in key:
            continue  # another checker's business, or spread over the sink's partitions
        place = places[record].popleft()
        before = last.get(key)
        if before is not None and place < before[0]:
            bad.append(f"{show_key(record)} stands behind {show_key(before[1])}")
        last[key] = (place, record)
    fact = f"{len(bad)} of {len(stream.written)} records stand behind one that was made later"
    verdict = Verdict.VALID if not bad else Verdict.INVALID
    return finding(name, Verdict.UNKNOWN if bad and stream.doubtful else verdict, fact, bad)


def all_stores_agree(evidence: TableEvidence | StreamEvidence) -> Finding:
    """The stores of every query of the statement hold the rows of their changelogs."""
    name = "all_stores_agree"
    bad, missing, read, compared = [], [], 0, 0
    for state in evidence.states:
        if state.stores is None:
            continue
        differ, absent, count, digests = stores_differ(state.folded, state.stores)
        bad += [f"{state.query_id}: {text}" for text in differ]
        missing += [f"{state.query_id}: {text}" for text in absent]
        read, compared = read + count, compared + digests
    fact = f"{len(bad)} of {read} stores differ from their changelog, {compared} row by row"
    if bad:
        return finding(name, Verdict.INVALID, fact, bad)
    return finding(name, Verdict.UNKNOWN if missing else Verdict.VALID, fact, missing)


RESULT_CHECKERS: tuple[Checker[TableEvidence], ...] = (
    lost_keys,
    phantom_keys,
    diverged_values,
    late_agrees,
    late_is_possible,
    markers_agree,
    markers_go_on,
    group_agrees,
    hanging_transactions,
    all_stores_agree,
    vacuous,
)
"""Of tables that joins, sessions or other tables make."""

FINAL_CHECKERS: tuple[Checker[TableEvidence], ...] = (*RESULT_CHECKERS, written_once)
"""Of tables with EMIT FINAL."""

RESULT_STREAM_CHECKERS: tuple[Checker[StreamEvidence], ...] = (
    *STREAM_CHECKERS,
    count_is_right,
    undetermined_records,
    out_of_order,
    late_agrees,
    all_stores_agree,
)
"""Of streams that joins make, or that come without duplicates."""
