"""The facts of a judgement as plain data: no Kafka, no SQL, no engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.judge.read.changelog_fold import FoldedPartition
from holdfast.judge.values import Key, Match, OpenTransaction, Row, RowHead
from holdfast.types.stores import StoreDigest

__all__ = [
    "ChangelogEvidence",
    "Progress",
    "QueryState",
    "SinkHistory",
    "StreamEvidence",
    "TableEvidence",
]


@dataclass(frozen=True)
class Regression:
    """An update that a growing count cannot have made."""

    key: Key
    column: str
    before: int
    after: int


class SinkHistory:
    """Owns the folded history of a sink: every key's last row and its time, its number of writes,
    the highest value of each of its counts, and counts that did not grow.

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
        """Takes in one record of the sink and its time; None is a tombstone."""
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
        """The number of the sink's records, tombstones included."""
        return self.updates_of.total()

    @property
    def watched(self) -> bool:
        """Whether there is any column whose growth can be judged."""
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
    """The progress that queries report, by topic partition of their input (`orders-0`).

    Attributes:
        ends: the input's ends; topic partitions that never held a record are left out.
        taken_in: the offsets that the commit markers cover.
        group: the consumer group's offsets.
        unlevel: markers that do not reach the input's end, in words.
        contradictions: markers that go back, lack a partition or name another query, in words.
    """

    ends: Mapping[str, int] = field(default_factory=dict)
    taken_in: Mapping[str, int] = field(default_factory=dict)
    group: Mapping[str, int] = field(default_factory=dict)
    unlevel: Sequence[str] = ()
    contradictions: Sequence[str] = ()


@dataclass(frozen=True)
class ChangelogEvidence:
    """A table's changelog and stores.

    Attributes:
        folded: by state partition.
        rows_min: least and most live rows that the input allows over all state partitions.
        stores: by state partition; None: they could not be read.
        heads: the head of each row; a row in another layout is None, and all of it is None when
            keys of these types are not read.
        elements: of rows whose distinct values are records of their own, the number of those by
            the value column that counts them.
    """

    folded: Mapping[int, FoldedPartition]
    rows_min: int
    rows_max: int
    stores: Mapping[int, Sequence[StoreDigest]] | None = None
    heads: Mapping[Key, RowHead | None] | None = None
    elements: Mapping[Key, Mapping[str, int]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Keys whose last changelog record is not a tombstone."""
        return sum(p.rows for p in self.folded.values())


@dataclass(frozen=True)
class QueryState:
    """The state of one query of a statement: its changelog, folded, and its stores.

    Attributes:
        folded: by state partition; `stores` likewise, None: they could not be read.
    """

    query_id: str
    folded: Mapping[int, FoldedPartition]
    stores: Mapping[int, Sequence[StoreDigest]] | None = None


@dataclass(frozen=True)
class TableEvidence:
    """The evidence about one table, gathered from outside.

    Attributes:
        expected: recomputed rows by key; None when they could not be recomputed (see `unjudged`).
        matches: how each value column is compared; other columns are compared exactly.
        history: the sink, folded.
        counts: value columns that are a plain COUNT.
        records: input records of each group, including groups that HAVING filters out.
        newest: the newest event time of each group, in ms.
        record_count: the value column that is COUNT(*), when every group is in the table; empty
            when there is none.
        dropped_late: records dropped as late according to the markers, once per window; None when
            they do not say.
        first: for windows that lack records, rows recomputed from only as many first records as the
            table's row counts, as late records come at a window's end.  One row must be right.
        doubtful: inputs or deletions that allow more than one right answer, in words.
        empty: the row of a group that all rows have left: such groups may exist although no
            remaining record shows them.
        late: records that must have been dropped as late; None: not recomputed.
        states: the states of a statement's queries, for statements that may have several queries.
        undecodable: input records that cannot be decoded; None: not counted.
        dead_letters: records that the query reports as dead letters; None: it writes none.
        timed: whether the sink's records carry the newest event time of their rows.
        late_most: most records that can be late by the input alone, once per window; None: not
            computed, or it cannot be derived.
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
    """The evidence about one stream, gathered from outside: how often each output record occurs.

    Attributes:
        expected: records that every order of the input makes.
        possible: records that some order makes; None: no others.
        undetermined: why some records depend on the order, in words.
        count: the number of records in any order; None: it depends on the order.
        written: the sink's records, each key's in offset order.
        order: `expected`, each preceded by the number of the record that made it; None: unknown.
        keys: the number of key columns in a record.
        late: records that must have been dropped as late; None: not recomputed.
        states: the state of each query of the statement.
        undecodable, dead_letters: see `TableEvidence`.
        strange_times: sink records whose time no input record has, in words.
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
        """Every record that may be in the sink."""
        return self.expected if self.possible is None else self.possible
