"""Small evidence for the checkers' tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.chaos.evidence import Key, SinkHistory, TableEvidence

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


def evidence(
    sink: SinkHistory | None = None,
    expected: Mapping[Key, Mapping[str, Any]] | None = ROWS,
    **known: Any,
) -> TableEvidence:
    """A table that is right, but for what is given."""
    facts: dict[str, Any] = {"input_records": 5, "counts": ("SOLD",)}
    facts |= {"changelog_rows": 2, "changelog_rows_min": 2, "changelog_rows_max": 2}
    facts |= known
    return TableEvidence("T", history=sink or history(), expected=expected, **facts)
