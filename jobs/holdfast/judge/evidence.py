"""The facts a judgement rests on, as plain data: no Kafka, no SQL, no engine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from holdfast.judge.read.changelog_fold import FoldedPartition
from holdfast.types.stores import StoreDigest

__all__ = [
    "COLLECT_LIMIT",
    "EXAMPLES_MAX",
    "ChangelogEvidence",
    "Key",
    "Match",
    "OpenTransaction",
    "Progress",
    "QueryState",
    "Row",
    "RowHead",
    "SinkHistory",
    "StreamEvidence",
    "TableEvidence",
    "no_number",
    "same",
    "show_key",
]

Key = tuple[Any, ...]  # key columns in order, then the window start in ms when windowed
Row = Mapping[str, Any]  # value columns as their JSON form

EXAMPLES_MAX = 5
COLLECT_LIMIT = 1000  # ksqlDB keeps this many elements of COLLECT_LIST and COLLECT_SET
_RELATIVE, _ABSOLUTE = 1e-9, 1e-9  # for doubles: the order of a sum is not fixed


class Match(StrEnum):
    """How a recomputed value is compared with the table's."""

    EXACT = "exact"
    ANY_OF = "any of"  # expected lists every value that some legal order of records gives
    BAG = "bag"  # a list whose order is not fixed, cut off at COLLECT_LIMIT


@dataclass(frozen=True)
class OpenTransaction:
    """A topic partition whose last stable offset stays behind its end."""

    topic: str
    partition: int
    last_stable_offset: int
    end_offset: int


@dataclass(frozen=True)
class Regression:
    """An update that a count which only grows cannot have made."""

    key: Key
    column: str
    before: int
    after: int


class SinkHistory:
    """Owns what a sink's history says: the last row of every key and its record's time, how often
    it was written, the highest of each of its counts, and counts that did not grow.

    Feed it the sink's records, each key's in offset order.

    Args:
        growing: value columns that every update of a key must increase (COUNT(*)).
        never_shrinking: value columns that no update may decrease (COUNT(x)).
    """

    def __init__(self, growing: Sequence[str] = (), never_shrinking: Sequence[str] = ()) -> None:
        self._limits = [(c, 1) for c in growing] + [(c, 0) for c in never_shrinking]
        self.highest: dict[tuple[Key, str], int] = {}
        self.updates_of: Counter[Key] = Counter()
        self.rows: dict[Key, Row] = {}
        self.times: dict[Key, int] = {}
        self.regressions: list[Regression] = []

    def update(self, key: Key, row: Row | None, time_ms: int = -1) -> None:
        """One record of the sink and its time; None is a tombstone."""
        self.updates_of[key] += 1
        self.times[key] = time_ms
        if row is None:
            self.rows.pop(key, None)
            return
        self.rows[key] = row
        for column, least in self._limits:
            self._grow(key, column, row.get(column), least)

    @property
    def updates(self) -> int:
        """Records of the sink, tombstones included."""
        return self.updates_of.total()

    @property
    def watched(self) -> bool:
        """Is there any column whose growth can be judged?"""
        return bool(self._limits)

    def _grow(self, key: Key, column: str, after: Any, least: int) -> None:
        before = self.highest.get((key, column))
        if not isinstance(after, int):
            return
        if before is not None and after < before + least:
            self.regressions.append(Regression(key, column, before, after))
        self.highest[key, column] = after if before is None else max(before, after)


@dataclass(frozen=True)
class Progress:
    """How far queries say they are, by topic partition of their input (`orders-0`).

    Attributes:
        ends: the input's end; topic partitions that never held a record are left out.
        taken_in: what the commit markers cover.
        group: the consumer group's offsets.
        unlevel: markers that do not reach the input's end, in words.
        contradictions: markers that go back, lack a place or are another's, in words.
    """

    ends: Mapping[str, int] = field(default_factory=dict)
    taken_in: Mapping[str, int] = field(default_factory=dict)
    group: Mapping[str, int] = field(default_factory=dict)
    unlevel: Sequence[str] = ()
    contradictions: Sequence[str] = ()


@dataclass(frozen=True)
class RowHead:
    """What every row of a changelog says.

    Attributes:
        newest_ms: the newest event time of its records.
        records: their number; None where COUNT(*) is not the first aggregate.
    """

    newest_ms: int
    records: int | None


@dataclass(frozen=True)
class ChangelogEvidence:
    """A table's changelog and stores.

    Attributes:
        folded: by state partition.
        rows_min: least and most live rows that the input allows over all state partitions.
        stores: by state partition; None: nobody could read them.
        heads: what each row says; a row is None when its layout is another one, all of them are
            when keys of these types are not read.
    """

    folded: Mapping[int, FoldedPartition]
    rows_min: int
    rows_max: int
    stores: Mapping[int, StoreDigest] | None = None
    heads: Mapping[Key, RowHead | None] | None = None

    @property
    def rows(self) -> int:
        """Keys whose last changelog record is not a tombstone."""
        return sum(p.rows for p in self.folded.values())


@dataclass(frozen=True)
class QueryState:
    """What one query of a statement keeps: its changelog, folded, and its stores.

    Attributes:
        folded: by state partition; `stores` likewise, None: nobody could read them.
    """

    query_id: str
    folded: Mapping[int, FoldedPartition]
    stores: Mapping[int, StoreDigest] | None = None


@dataclass(frozen=True)
class TableEvidence:
    """One table seen from outside.

    Attributes:
        expected: recomputed rows by key; None when they could not be recomputed (see `unjudged`).
        matches: how each value column is compared; columns left out are exact.
        history: the sink, folded.
        counts: value columns that are a plain COUNT.
        records: input records of each group; of groups that HAVING keeps out as well.
        newest: the newest event time of each group, in ms.
        record_count: the value column that is COUNT(*), when every group is in the table; empty
            when there is none.
        dropped_late: records the markers say were dropped as late, once per window; None when
            they do not say.
        first: for windows that lack records, rows recomputed from as many first records as the
            table's row counts: what comes late is the end of a window.  One of them must be right.
        doubtful: input records or deletions that let more than one answer be right, in words.
        empty: the row of a group that all rows have left: such groups may be there although no
            record that is left tells of them.
        late: records that must have been dropped as late; None: nobody recomputed it.
        states: of a statement that several queries may make, what each of them keeps.
        undecodable: input records that cannot be decoded; None: nobody counted them.
        dead_letters: records that the query says it has set aside; None: it sets none aside.
        timed: do the sink's records carry the newest event time of their rows?
        late_most: records that may have been dropped as late, by the input alone, once per window;
            None: nobody asked, or it does not follow.
    """

    name: str
    input_records: int
    history: SinkHistory
    expected: Mapping[Key, Row] | None
    unjudged: str = ""
    matches: Mapping[str, Match] = field(default_factory=dict)
    counts: Sequence[str] = ()
    records: Mapping[Key, int] = field(default_factory=dict)
    newest: Mapping[Key, int] = field(default_factory=dict)
    record_count: str = ""
    windowed: bool = False
    changelog: ChangelogEvidence | None = None
    progress: Progress = field(default_factory=Progress)
    dropped_late: int | None = 0
    first: Mapping[Key, Sequence[Row]] = field(default_factory=dict)
    open_transactions: Sequence[OpenTransaction] = ()
    doubtful: str = ""
    empty: Row | None = None
    late: int | None = None
    states: Sequence[QueryState] = ()
    undecodable: int | None = None
    dead_letters: int | None = None
    timed: bool = False
    late_most: int | None = None


@dataclass(frozen=True)
class StreamEvidence:
    """A stream seen from outside: how often each output record is there.

    Attributes:
        expected: records that are there in whatever order the input came.
        possible: records that some order makes; None: no others.
        undetermined: why there are others, in words.
        count: how many records there are in whatever order; None: it depends on it.
        written: the sink's records, each key's in their order.
        order: `expected`, each behind the number of the record that made it; None: nobody knows.
        keys: how many columns of a record are its key.
        late: records that must have been dropped as late; None: nobody recomputed it.
        states: what each query of the statement keeps.
        undecodable, dead_letters: see `TableEvidence`.
        strange_times: records of the sink with a time that no input record has, in words.
    """

    name: str
    input_records: int
    actual: Counter[Key]
    expected: Counter[Key] | None
    unjudged: str = ""
    progress: Progress = field(default_factory=Progress)
    open_transactions: Sequence[OpenTransaction] = ()
    doubtful: str = ""
    possible: Counter[Key] | None = None
    undetermined: str = ""
    count: int | None = None
    written: Sequence[Key] = ()
    order: Sequence[tuple[int, Key]] | None = None
    keys: int = 0
    dropped_late: int | None = 0
    late: int | None = None
    states: Sequence[QueryState] = ()
    undecodable: int | None = None
    dead_letters: int | None = None
    strange_times: Sequence[str] = ()

    @property
    def allowed(self) -> Counter[Key] | None:
        """Every record that may be there."""
        return self.expected if self.possible is None else self.possible


def same(expected: Any, actual: Any, match: Match = Match.EXACT) -> bool:
    """Does a recomputed value agree with the one in the table?  Both in JSON form."""
    if match is Match.EXACT:
        return _equal(expected, actual)
    if match is Match.ANY_OF:
        return any(_equal(e, actual) for e in expected) or (not expected and actual is None)
    if not isinstance(actual, list) or not isinstance(expected, list):
        return expected is None and actual is None
    if len(actual) != min(len(expected), COLLECT_LIMIT):
        return False
    return Counter(map(_bagged, actual)) <= Counter(map(_bagged, expected))


def show_key(key: Key) -> str:
    """A key as a person writes it."""
    return " | ".join("null" if part is None else str(part) for part in key)


def _bagged(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9e}" if math.isfinite(value) else repr(no_number(value))
    return f"{value:.9e}" if isinstance(value, Decimal) else repr(value)


def no_number(value: float) -> str:
    """What JSON has no number for, as Jackson writes it."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _equal(expected: Any, actual: Any) -> bool:
    if isinstance(expected, float) and not math.isfinite(expected):
        return bool(actual == no_number(expected))
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, float) or isinstance(actual, float):
        return _close(expected, actual)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_equal, expected, actual))
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            _equal(v, actual[k]) for k, v in expected.items()
        )
    return bool(expected == actual)


def _close(expected: Any, actual: Any) -> bool:
    numbers = (int, float, Decimal)
    if not isinstance(expected, numbers) or not isinstance(actual, numbers):
        return False
    return math.isclose(float(expected), float(actual), rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
