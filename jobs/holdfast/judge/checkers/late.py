"""Late records of windowed tables: what they explain, and what they cannot.

A record whose window has closed is dropped and counted, once per window it would belong to; the
commit markers carry the number.  Which records that hits depends on how the input was cut into
batches, so the judge cannot recompute it.  But the numbers must add up: a window's COUNT(*) may
only be lower than the recomputed one, and all windows together must lack as many records as were
dropped.  And once a window has closed it stays so: of a window's records in each topic partition
the first ones count and the rest is late, so that the other columns can be recomputed, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.judge.evidence import TableEvidence
from holdfast.judge.values import Key
from holdfast.judge.verdict import Verdict

__all__ = ["Excuse", "beyond_counts", "doubt", "explained", "lacks_records", "missing_records"]


@dataclass(frozen=True)
class Excuse:
    """What a difference is worth after all, and words that are added to the fact."""

    verdict: Verdict
    words: str = ""


def doubt(table: TableEvidence) -> Excuse:
    """Input that lets more than one answer be right excuses everything, as unknown."""
    if table.doubtful:
        return Excuse(Verdict.UNKNOWN, f"; {table.doubtful}")
    return Excuse(Verdict.INVALID)


def missing_records(table: TableEvidence) -> int | None:
    """Records that all windows together lack, by COUNT(*); None where no column shows it."""
    column, expected = table.record_count, table.expected
    if not column or expected is None:
        return None
    rows = table.history.rows
    missing = 0
    for key, row in expected.items():
        actual = rows[key].get(column) if key in rows else 0
        missing += row[column] - (actual if isinstance(actual, int) else 0)
    return missing


def lacks_records(table: TableEvidence, key: Key) -> bool:
    """May late records be the reason why the row at `key` differs?"""
    expected, actual = (table.expected or {})[key], table.history.rows[key]
    if not table.windowed:
        return False
    for column in table.counts:
        found = actual.get(column)
        if isinstance(found, int) and found > expected[column]:
            return False
    column = table.record_count
    return not column or actual.get(column) != expected[column]


def explained(table: TableEvidence, differences: int) -> Excuse:
    """What it is worth that records are missing from so many rows."""
    dropped = table.dropped_late
    if not table.windowed or dropped == 0:
        return doubt(table)
    if dropped is None:
        return Excuse(Verdict.UNKNOWN, "; nobody can say how many late records were dropped")
    missing = missing_records(table)
    if missing == dropped:
        words = f"; exactly the {dropped} late records that were dropped are missing"
        return Excuse(Verdict.VALID, words)
    if missing is None and dropped >= differences:
        words = f"; {dropped} late records were dropped, which may explain it"
        return Excuse(Verdict.UNKNOWN, words)
    return doubt(table)


def beyond_counts(table: TableEvidence, keys: Iterable[Key]) -> Excuse | None:
    """Values that late records explain and nobody can recompute; None when there are none."""
    expected = table.expected or {}
    others = {c for key in keys for c in expected[key] if c not in table.counts}
    if not others:
        return None
    words = (
        f"; without the dropped late records {', '.join(sorted(others))} cannot be recomputed "
        "where too many records are missing from one window"
    )
    return Excuse(Verdict.UNKNOWN, words)
