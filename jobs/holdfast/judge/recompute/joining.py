"""One join of a statement: the rows that meet, given what is known of their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from holdfast.judge.read.arrivals import Batches, Lane, home_of
from holdfast.judge.read.incarnations import partition_of
from holdfast.judge.recompute.lookups import found_in_any_order, found_in_order, tables_joined
from holdfast.judge.recompute.meetings import Meeting, Side, in_any_order, in_order
from holdfast.judge.recompute.relations import Joined, Relation
from holdfast.judge.statement.statement import JoinClause, resolved
from holdfast.judge.values import Untranslatable
from holdfast.types.columns.schema import BIGINT, STRING
from holdfast.types.statements.topology import Query, Source

__all__ = ["Joiner"]

_INTERNAL = "the join reads an internal topic"


@dataclass(frozen=True)
class Joiner:
    """Joins the rows of a statement, one JOIN after the other.

    Attributes:
        queries: the statement's queries.
        batches: the batches from each query's commit markers, by query id.
        state_partitions: number of state partitions of each query.
    """

    queries: Sequence[Query]
    batches: Mapping[str, Batches]
    state_partitions: Mapping[str, int]

    def join(self, left: Relation, right: Relation, clause: JoinClause) -> Relation:
        """The joined rows.

        Raises:
            Untranslatable: the judge does not support the join.
        """
        ours, theirs = _condition(clause, left, right)
        if left.kind == "TABLE" and right.kind == "TABLE":
            return self._tables(left, right, clause.kind, (ours, theirs))
        key_type = left.columns.get(_written(ours), STRING)
        keys = _keys(left, ours), _keys(right, theirs)
        if left.size_ms != right.size_ms:  # ksqlDB's rule: windows that start together meet
            keys = keys[0], [key and _resized(key, left.size_ms) for key in keys[1]]
        if right.kind == "TABLE":
            joined = self._lookup(left, right, clause.kind, keys)
        elif clause.within is not None:
            joined = self._meeting(left, right, clause, keys)
        else:
            raise Untranslatable("a join of two streams without WITHIN")
        values = [
            _either(keys[0], ours_row, keys[1], theirs_row)
            for ours_row, theirs_row in zip(joined.left, joined.right, strict=True)
        ]
        return left.joined(right, joined, "STREAM", (values, key_type))

    def _tables(
        self, left: Relation, right: Relation, kind: str, on: tuple[exp.Expr, exp.Expr]
    ) -> Relation:
        """Joins the final rows of two tables; a foreign-key join keeps the left key."""
        ours = left.final() if left.topic else left
        theirs = right.final() if right.topic else right
        pointing = _keys(ours, on[0])
        keys = _keys(theirs, on[1])
        joined = tables_joined(pointing, keys, kind)
        if kind in ("INNER", "LEFT"):  # the key of the left row, whatever its foreign key
            return ours.joined(theirs, joined, "TABLE", None)
        values = [
            _either(pointing, ours_row, keys, theirs_row)
            for ours_row, theirs_row in zip(joined.left, joined.right, strict=True)
        ]
        key_type = left.columns.get(_written(on[0]), STRING)
        return ours.joined(theirs, joined, "TABLE", (values, key_type))

    def _meeting(
        self,
        left: Relation,
        right: Relation,
        clause: JoinClause,
        keys: tuple[list[Any], list[Any]],
    ) -> Joined:
        assert clause.within is not None
        rules = Meeting.of(clause.kind, clause.within)
        query = self._query(left, right)
        home = self._home(query, len(left.bounds))
        sides = _sides((left, right), keys, home)
        if query is None or home is None or self.batches[query.id].broken:
            why = self._why(query)
            return in_any_order(rules, sides, apart=home is not None, why=why)
        return in_order(rules, sides, self._order(query, (left, right), sides))

    def _lookup(
        self, left: Relation, right: Relation, kind: str, keys: tuple[list[Any], list[Any]]
    ) -> Joined:
        query = self._query(left, right)
        home = self._home(query, 0)
        outer, table = kind == "LEFT", self._table(query)
        sides = _sides((left, right), keys, home)
        if query is None or table is None:
            return found_in_any_order(sides, outer=outer, why=_INTERNAL)
        if table.broadcast:
            sides = self._broadcast(left, right, keys, query)
        if self.batches[query.id].broken or (home is None and not table.broadcast):
            return found_in_any_order(sides, outer=outer, why=self._why(query))
        order = self._order(query, (left, right), sides)
        return found_in_order(sides, order, outer=outer, history_ms=table.history_ms)

    def _broadcast(
        self, left: Relation, right: Relation, keys: tuple[list[Any], list[Any]], query: Query
    ) -> tuple[Side, Side]:
        """Places a stream's records by topic partition, and a table's in every state partition."""
        count = self.state_partitions[query.id]
        ours, theirs = _sides((left, right), keys, None)
        homes = [(partition_of(p) % count,) for p in left.column("__partition")]
        everywhere = [tuple(range(count))] * len(theirs.keys)
        return (
            Side(ours.keys, ours.times, ours.dead, ours.sure, homes),
            Side(theirs.keys, theirs.times, theirs.dead, theirs.sure, everywhere),
        )

    def _order(
        self, query: Query, relations: tuple[Relation, Relation], sides: tuple[Side, Side]
    ) -> list[tuple[int, int, int]]:
        lanes = [
            Lane(r.topic, s.homes, r.column("__partition"), r.column("__offset"), s.times)
            for r, s in zip(relations, sides, strict=True)
        ]
        return list(self.batches[query.id].in_order(lanes))

    def _query(self, left: Relation, right: Relation) -> Query | None:
        """The query that reads both sides, if both are topics without deleted records."""
        wanted = [left.topic, right.topic]
        return next((q for q in self.queries if [s.topic for s in q.sources] == wanted), None)

    def _table(self, query: Query | None) -> Source | None:
        return query.sources[1] if query is not None else None

    def _home(self, query: Query | None, bounds: int) -> Callable[[Any], int] | None:
        if query is None:
            return None
        types = [c.type for c in query.sink.key_columns] + [BIGINT] * bounds
        return home_of(types, self.state_partitions[query.id])

    def _why(self, query: Query | None) -> str:
        if query is None:
            return _INTERNAL
        return self.batches[query.id].broken or "keys of their type are not placed here"


def _sides(
    relations: tuple[Relation, Relation],
    keys: tuple[list[Any], list[Any]],
    home: Callable[[Any], int] | None,
) -> tuple[Side, Side]:
    sides = [
        Side(
            of,
            relation.column("__timestamp"),
            relation.column("__dead"),
            relation.column("__sure"),
            [(home(key) if home is not None else 0,) for key in of],
        )
        for relation, of in zip(relations, keys, strict=True)
    ]
    return sides[0], sides[1]


def _condition(clause: JoinClause, left: Relation, right: Relation) -> tuple[exp.Expr, exp.Expr]:
    """(the left side's expression, the right side's)."""
    on = clause.on.unnest()
    if not isinstance(on, exp.EQ):
        raise Untranslatable(f"a join on {on.sql()}")
    first, second = on.left, on.right
    if _is_of(first, right, left) or _is_of(second, left, right):
        first, second = second, first
    return first, second


def _is_of(node: exp.Expr, relation: Relation, other: Relation) -> bool:
    """Whether an expression names columns of `relation` and not of `other`."""
    names = {_written(column) for column in node.find_all(exp.Column)}
    return bool(names) and names <= relation.columns.keys() - other.columns.keys()


def _written(node: exp.Expr) -> str:
    if not isinstance(node, exp.Column):
        return ""
    table = node.args.get("table")
    name = resolved(node.this)
    return f"{resolved(table)}.{name}" if table is not None else name


def _keys(relation: Relation, node: exp.Expr) -> list[Any]:
    """The join key of every row, with its window; None for a row without a key."""
    found = relation.values(node)
    bounds = [relation.column(name) for name in relation.bounds]
    windows = list(zip(*bounds, strict=True)) or [()] * len(found)
    return [
        None if value is None else (value, *window)
        for (value,), window in zip(found, windows, strict=True)
    ]


def _resized(key: tuple[Any, ...], size_ms: int) -> tuple[Any, ...]:
    """A key whose window, from the same start on, has another size."""
    value, start, _ = key
    return value, start, start + size_ms


def _either(
    left: Sequence[Any], left_row: int | None, right: Sequence[Any], right_row: int | None
) -> Any:
    """The value of the join key in a result."""
    found = left[left_row] if left_row is not None else None
    if found is None and right_row is not None:
        found = right[right_row]
    return _first(found)


def _first(key: Any) -> Any:
    return None if key is None else key[0]
