"""Recomputes a statement of joins, tables, sessions or final results from its whole input.

Rows pass through the statement as a whole: joins pair rows in Python, DuckDB evaluates expressions,
and the topics between the statement's own queries are not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from holdfast.judge.read.arrivals import Batches, Lane, Seen, home_of
from holdfast.judge.read.decode import json_form, key_part
from holdfast.judge.recompute.closings import (
    Windowed,
    alone_within,
    once_within,
    sessions_in_batches,
    sessions_in_order,
    windows_in_order,
)
from holdfast.judge.recompute.joining import Joiner
from holdfast.judge.recompute.recompute import recomputed_rows, run_sql, stream_record
from holdfast.judge.recompute.relations import Relation
from holdfast.judge.statement.expressions import Translator
from holdfast.judge.statement.statement import Parts, WindowClause
from holdfast.judge.statement.translate import INPUT, BatchQuery, Outline
from holdfast.judge.values import Key, Match, Row, Untranslatable
from holdfast.types.columns.schema import Column
from holdfast.types.statements.topology import AggregateStep, Emit, Query, Sink

__all__ = ["Facts", "RebuiltStream", "RebuiltTable", "rebuilt_stream", "rebuilt_table"]


@dataclass(frozen=True)
class Facts:
    """One statement and the known facts of its run.

    Attributes:
        queries: the statement's queries, in processing order.
        relations: the relations of FROM and JOIN, in order.
        batches: the batches from the commit markers of each query with state, by query id.
        state_partitions: number of state partitions of each query.
        dropped_late: records that the last query dropped as late; None: its markers do not say.
    """

    parts: Parts
    queries: Sequence[Query]
    relations: Sequence[Relation]
    batches: Mapping[str, Batches]
    state_partitions: Mapping[str, int]
    dropped_late: int | None = 0

    @property
    def sink(self) -> Sink:
        return self.queries[-1].sink

    @property
    def by_batch(self) -> bool:
        """Whether only the last changes of a batch are written."""
        step = self.queries[-1].step
        return isinstance(step, AggregateStep) and step.emit is Emit.BATCH


@dataclass(frozen=True)
class RebuiltTable:
    """A table's final rows.

    Attributes:
        empty: the row of a group that all of its rows have left; None: there is no such row.
        late: records that must have been dropped as late; None: it cannot be derived.
    """

    rows: dict[Key, Row]
    matches: Mapping[str, Match] = field(default_factory=dict)
    batch: BatchQuery | None = None
    empty: Row | None = None
    late: int | None = None


@dataclass(frozen=True)
class RebuiltStream:
    """A stream's records, as key and value columns.

    Attributes:
        ranked: the records of every order of the input, each preceded by the number of the record
            that made it, where the order is known.
        possible: the records of some order.
        doubt: why some records depend on the order, in words.
        ordered: whether the order is known.
        count: the number of records in any order; None: it depends on the order.
    """

    ranked: list[tuple[int, Key]]
    possible: Counter[Key]
    doubt: str = ""
    ordered: bool = False
    late: int | None = None
    count: int | None = None


def rebuilt_table(facts: Facts) -> RebuiltTable:
    """The content that the statement's table must have.

    Raises:
        Untranslatable: the judge does not support the statement, or the result is not determined.
    """
    joined = _joined(facts)
    if facts.parts.select.args.get("group") is None:
        return _projected(facts, joined)
    if joined.doubt:
        raise Untranslatable(joined.doubt)
    grouped = _Grouped(facts, joined)
    return grouped.of_table() if joined.kind == "TABLE" else grouped.of_stream()


def rebuilt_stream(facts: Facts) -> RebuiltStream:
    """The records that the statement's stream must have.

    Raises:
        Untranslatable: the judge does not support the statement.
    """
    joined, late = _joined(facts), None
    if facts.parts.once_within_ms is not None:
        joined, late = _once(facts, joined)
    ordered = late is not None or (joined.ordered and len(facts.parts.joins) == 1)
    batch = _outline(facts, joined).stream("__dead", "__sure", "__rank")
    columns = (*facts.sink.key_columns, *facts.sink.value_columns)
    found = sorted(run_sql(batch.sql, {INPUT: joined.data}), key=lambda row: row[-1])
    rows = [
        (rank, stream_record(batch, columns, row, dead=dead), sure)
        for *row, dead, sure, rank in found
    ]
    return RebuiltStream(
        ranked=[(rank, key) for rank, key, sure in rows if sure],
        possible=Counter(key for _, key, _ in rows),
        doubt=joined.doubt,
        ordered=ordered,
        late=late,
        count=joined.count if _one_to_one(facts.parts) else None,
    )


def _one_to_one(parts: Parts) -> bool:
    """Whether every joined row becomes one record."""
    return parts.select.args.get("where") is None and not list(parts.select.find_all(exp.Explode))


def _as_json(row: Sequence[Any], columns: Sequence[Column]) -> Key:
    return tuple(json_form(v, c.type) for v, c in zip(row, columns, strict=False))


def _joined(facts: Facts) -> Relation:
    """The rows that SELECT reads: all records of a stream, or all changes of one table."""
    joiner = Joiner(facts.queries, facts.batches, facts.state_partitions)
    current = facts.relations[0]
    for clause, right in zip(facts.parts.joins, facts.relations[1:], strict=True):
        current = joiner.join(current, right, clause)
    whole = not facts.parts.joins and facts.parts.select.args.get("where") is None
    grouped = facts.parts.select.args.get("group") is not None
    if current.kind == "STREAM" and (grouped or not whole):  # otherwise it passes unchanged
        dead = current.column("__dead")
        return current.at([row for row, gone in enumerate(dead) if not gone])
    return current


def _outline(facts: Facts, joined: Relation, *, prepared: bool = False) -> Outline:
    several = bool(facts.parts.joins)
    stars = tuple(
        (of, name if several else _plain(written), written) for of, name, written in joined.stars
    )
    key = tuple(_plain(name) for name in joined.key if "." in name)
    return Outline(
        sink=facts.sink,
        parts=facts.parts,
        translator=Translator(joined.scope(_ordering(joined))),
        stars=stars,
        carried=() if several else key,
        prepared=prepared,
        own_key=key,
    )


def _plain(name: str) -> str:
    """The name without its owner."""
    return name.split(".", 1)[1]


def _ordering(joined: Relation) -> list[int]:
    """The topic partitions whose offsets order the rows; none for tables and joins."""
    if joined.kind == "TABLE" or not joined.topic:
        return []
    return sorted(set(joined.column("__partition"))) or [0]


def _projected(facts: Facts, joined: Relation) -> RebuiltTable:
    """A table without GROUP BY: its source's final rows that pass WHERE."""
    final = joined.final() if joined.topic else joined
    sink = facts.sink
    bounds = [f'"{name}"' for name in final.bounds[: 1 if sink.window_size_ms else 2]]
    batch = _outline(facts, final).stream(*bounds)
    width, kinds = len(sink.key_columns), (*sink.key_columns, *sink.value_columns)
    rows: dict[Key, Row] = {}
    for row in run_sql(batch.sql, {INPUT: final.data}):
        values = _as_json(row[: len(kinds)], kinds)
        named = zip(batch.values, values[width:], strict=True)
        rows[(*values[:width], *row[len(kinds) :])] = dict(named)
    return RebuiltTable(rows)


def _once(facts: Facts, joined: Relation) -> tuple[Relation, int | None]:
    """DEDUPLICATE_WITHIN: (the records that pass, the number of late ones)."""
    within_ms = facts.parts.once_within_ms
    assert within_ms is not None
    passing = joined.at(_passing(facts, joined))
    by = [Translator(passing.scope()).sql(node) for node in facts.parts.partition_by]
    found = passing.evaluated(*(by or [f'"{name}"' for name in passing.key]))
    keys = [None if None in key else tuple(key) for key in found]
    times, lane = passing.column("__timestamp"), _lane(facts, passing, keys)
    if lane is None:
        return _maybe_once(facts, passing, keys, times), None
    kept, late = once_within(within_ms, keys, times, _order(lane), _seen(lane))
    return passing.at(kept).with_column("__rank", range(len(kept))), late


def _maybe_once(
    facts: Facts, passing: Relation, keys: Sequence[Key | None], times: Sequence[int]
) -> Relation:
    """Without an order any record of a key may be the first; one that is alone passes surely."""
    assert facts.parts.once_within_ms is not None
    alone = alone_within(facts.parts.once_within_ms, keys, times)
    sure = [each and facts.dropped_late == 0 for each in alone]
    there = [row for row, key in enumerate(keys) if key is not None]
    doubt = f"it is unknown which of a key's records came first: {_why(facts)}"
    found = passing.with_column("__sure", sure).at(there)
    return found if all(sure[row] for row in there) else replace(found, doubt=doubt)


def _passing(facts: Facts, joined: Relation) -> list[int]:
    """The rows that pass WHERE."""
    where = facts.parts.select.args.get("where")
    if where is None:
        return list(range(joined.data.num_rows))
    found = joined.values(where.this)
    return [row for row, (passed,) in enumerate(found) if passed]


def _lane(
    facts: Facts, rows: Relation, keys: Sequence[tuple[Any, ...] | None]
) -> tuple[Batches, Lane] | None:
    """The rows in the last query's order; None: the order is unknown."""
    query = facts.queries[-1]
    batches = facts.batches[query.id]
    types = [c.type for c in facts.sink.key_columns]
    home = home_of(types, facts.state_partitions[query.id])
    if batches.broken or home is None or not rows.topic:
        return None
    names = ("__partition", "__offset", "__timestamp")
    return batches, Lane(rows.topic, [(home(key),) for key in keys], *map(rows.column, names))


def _order(found: tuple[Batches, Lane]) -> list[tuple[int, int]]:
    """(state partition, row) in processing order."""
    batches, lane = found
    return [(at, row) for at, _, row in batches.in_order([lane])]


def _seen(found: tuple[Batches, Lane] | None) -> Seen | None:
    """The stream time that the rows meet, where watermarks hold it back."""
    return None if found is None else found[0].seen(found[1])


def _why(facts: Facts) -> str:
    """Why the order is unknown."""
    broken = facts.batches[facts.queries[-1].id].broken
    return broken or "its records come through an internal topic, or have keys of other types"


@dataclass(frozen=True)
class _Grouped:
    """GROUP BY over joined rows."""

    facts: Facts
    joined: Relation

    def of_table(self) -> RebuiltTable:
        """GROUP BY over a table: groups of its final rows, and groups that all rows have left."""
        facts = self.facts
        final = self.joined.final() if self.joined.topic else self.joined
        outline = _outline(facts, final)
        batch = outline.table()
        made = recomputed_rows(run_sql(batch.sql, {INPUT: final.data}), batch, facts.sink, -1)
        (*values, passes), *_ = run_sql(outline.empty(batch), {INPUT: final.data})
        empty = None
        if passes:
            types = [c.type for c in facts.sink.value_columns]
            empty = dict(zip(batch.values, map(json_form, values, types), strict=True))
        rows: dict[Key, Row] = dict(made.rows)
        if empty is not None:
            rows |= {key: empty for key in self._groups_ever() if key not in made.records}
        return RebuiltTable(rows, batch.matches, batch, empty)

    def _groups_ever(self) -> set[Key]:
        """Every group that a change of the table was ever in."""
        rows = self.joined.at(
            [r for r, dead in enumerate(self.joined.column("__dead")) if not dead]
        )
        rows = rows.at(_passing(self.facts, rows))
        keys = rows.values(*_outline(self.facts, rows).groups)
        return {tuple(map(key_part, key)) for key in keys if None not in key}

    def of_stream(self) -> RebuiltTable:
        """GROUP BY over a stream: sessions and final results by their rules, the rest at once."""
        facts, window = self.facts, self.facts.parts.window
        late, rows, prepared = None, self.joined, False
        if window is not None and (window.session or facts.parts.final):
            rows, late = self._windowed()
            prepared = True
        elif window is not None and facts.dropped_late != 0:
            raise Untranslatable(
                f"{facts.dropped_late} late records were dropped from windows over joined rows"
            )
        outline = _outline(facts, rows, prepared=prepared)
        batch = outline.table()
        made = recomputed_rows(run_sql(batch.sql, {INPUT: rows.data}), batch, facts.sink, -1)
        return RebuiltTable(dict(made.rows), batch.matches, batch, late=late)

    def _windowed(self) -> tuple[Relation, int | None]:
        """(rows with the window of each, number of late ones)."""
        facts, window = self.facts, self._window()
        passing = self.joined.at(_passing(facts, self.joined))
        groups: list[exp.Expr] = list(facts.parts.select.args["group"].expressions)
        found = passing.values(*groups)
        rows = passing.at([row for row, key in enumerate(found) if None not in key])
        keys = [tuple(key) for key in found if None not in key]
        times = rows.column("__timestamp")
        made = self._placed(window, keys, times, _lane(facts, rows, keys))
        placed = rows.at(made.rows)
        data = placed.data.append_column("__window", pa.array(made.starts, pa.int64()))
        data = data.append_column("__window_end", pa.array(made.ends, pa.int64()))
        return replace(placed, data=data), made.late

    def _window(self) -> WindowClause:
        """The statement's window, with the properties that were set."""
        window, step = self.facts.parts.window, self.facts.queries[-1].step
        assert window is not None
        if not isinstance(step, AggregateStep) or step.window is None:
            return window
        return replace(window, final_within_retention=step.window.final_within_retention)

    def _placed(
        self,
        window: WindowClause,
        keys: Sequence[Key],
        times: Sequence[int],
        lane: tuple[Batches, Lane] | None,
    ) -> Windowed:
        final = self.facts.parts.final
        order = self._timely(keys, times) if lane is None else _order(lane)
        seen = _seen(lane)
        if not window.session:
            return windows_in_order(window, keys, times, order, seen)
        if lane is not None and self.facts.by_batch:
            batches, of_query = lane
            by_batch = batches.by_batch(of_query)
            return sessions_in_batches(window, keys, times, by_batch, seen)
        return sessions_in_order(window, keys, times, order, final=final, seen=seen)

    def _timely(self, keys: Sequence[Key], times: Sequence[int]) -> list[tuple[int, int]]:
        """An order without late records, if none was late."""
        facts = self.facts
        home = home_of(
            [c.type for c in facts.sink.key_columns], facts.state_partitions[facts.queries[-1].id]
        )
        if facts.dropped_late != 0 or home is None:
            raise Untranslatable(
                f"{facts.dropped_late} late records were dropped, and it is unknown which: "
                f"{_why(facts)}"
            )
        return sorted(
            ((home(key), row) for row, key in enumerate(keys)), key=lambda at: times[at[1]]
        )
