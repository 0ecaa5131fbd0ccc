"""Small evidence for the checkers' tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.judge.evidence import ChangelogEvidence, Progress, SinkHistory, TableEvidence
from holdfast.judge.read.changelog_fold import FoldedPartition
from holdfast.judge.values import Key, RowHead
from holdfast.types.stores import StoreDigest

ROWS: dict[Key, dict[str, Any]] = {
    ("Aliens",): {"SOLD": 2, "TOTAL": 30.5},
    ("Die Hard",): {"SOLD": 3, "TOTAL": 30.0},
}
UPDATES: list[tuple[Key, dict[str, Any] | None]] = [
    (("Aliens",), {"SOLD": 1, "TOTAL": 10.0}),
    (("Die Hard",), {"SOLD": 3, "TOTAL": 30.0}),
    (("Aliens",), {"SOLD": 2, "TOTAL": 30.5}),
]


def history(
    updates: Sequence[tuple[Key, dict[str, Any] | None]] = UPDATES,
    growing: Sequence[str] = ("SOLD",),
    never_shrinking: Sequence[str] = (),
) -> SinkHistory:
    """A sink with these records."""
    sink = SinkHistory(growing, never_shrinking)
    for key, row in updates:
        sink.update(key, row)
    return sink


HEADS: dict[Key, RowHead | None] = {
    ("Aliens",): RowHead(70, 2),
    ("Die Hard",): RowHead(90, None),
}


def folded(rows: int = 1, digest: str = "d", last_offset: int = 7) -> FoldedPartition:
    return FoldedPartition(rows, digest, last_offset)


def changelog(*partitions: FoldedPartition, **known: Any) -> ChangelogEvidence:
    """A changelog of two state partitions with a row each, but for what is given."""
    facts: dict[str, Any] = {"rows_min": 2, "rows_max": 2, "heads": HEADS} | known
    return ChangelogEvidence(dict(enumerate(partitions or (folded(), folded()))), **facts)


def stores(*changes: dict[str, Any]) -> dict[int, Sequence[StoreDigest]]:
    """The stores of `changelog()`; each dict changes one of them."""
    right = {"rows": 1, "position": 8, "digest": "d"}
    return {p: [StoreDigest("app", "q", p, **{**right, **c})] for p, c in enumerate(changes)}


ENDS = {"in-0": 5, "in-1": 3}
LEVEL = Progress(ends=ENDS, taken_in=ENDS, group=ENDS)


def evidence(
    sink: SinkHistory | None = None,
    expected: Mapping[Key, Mapping[str, Any]] | None = ROWS,
    **known: Any,
) -> TableEvidence:
    """A table that is right, but for what is given."""
    facts: dict[str, Any] = {"input_records": 5, "counts": ("SOLD",), "progress": LEVEL}
    facts |= {"changelog": changelog(), "records": {("Aliens",): 2, ("Die Hard",): 3}}
    facts |= {"newest": {("Aliens",): 70, ("Die Hard",): 90}}
    facts |= known
    return TableEvidence("T", history=sink or history(), expected=expected, **facts)
