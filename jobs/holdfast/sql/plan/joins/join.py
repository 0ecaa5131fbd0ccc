"""Joins: what joins what, by which key, and what the result's columns are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from holdfast.sql.expressions.determinism import check_determined
from holdfast.sql.expressions.names import relation_translator
from holdfast.sql.expressions.translator import Translator
from holdfast.sql.expressions.type_rules import common_type
from holdfast.sql.parse.statements import JoinClause, Select
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.joins.condition import Condition, check_windows, condition_of, field_of
from holdfast.sql.plan.joins.foreign_key import ForeignJoin
from holdfast.sql.plan.joins.joined import PlainJoin, Side
from holdfast.sql.plan.joins.rules import Joining, check_partitions, form_of
from holdfast.sql.plan.joins.tree import Equal, combine, in_projection, prefixed, synthetic_key
from holdfast.sql.plan.keys import check_key_type
from holdfast.sql.plan.relation import Relation, relation_of
from holdfast.sql.plan.sources.sink import Target
from holdfast.types.statements.differences import DIFFERENCES
from holdfast.types.statements.topology import JoinForm, Query, Source

__all__ = ["Join", "join_sources"]

Join = PlainJoin | ForeignJoin


def join_sources(
    context: Context,
    target: Target,
    select: Select,
    sources: Sequence[Source],
    numbered: Callable[[], str],
) -> tuple[tuple[Query, ...], Join]:
    """The queries before the last join of a statement, and that one.

    `numbered` gives the ids of queries before the statement's own.

    Raises:
        InvalidStatement: ksqlDB does not join these, or not on this condition.
    """
    relations = _aliased(context, select, sources)
    planner = _Joins(context, target, select, relations)
    queries: list[Query] = []
    left, equal = relations[0], Equal()
    join: Join | None = None
    conditions = planner.conditions(relations[1:])
    for clause, right, condition in zip(select.joins, relations[1:], conditions, strict=True):
        if join is not None:
            before, left = join.materialized(numbered)
            # A key that no source has is known to the join that made it only.
            left = replace(left, fields=tuple(f for f in left.fields if f.owner))
            queries += before
        join, equal = planner.join(clause, condition, (left, right), equal)
    assert join is not None
    return tuple(queries), join


def _aliased(context: Context, select: Select, sources: Sequence[Source]) -> list[Relation]:
    names = [(select.source, select.source_alias), *((j.source, j.alias) for j in select.joins)]
    relations: list[Relation] = []
    for (name, alias), source in zip(names, sources, strict=True):
        relation = prefixed(relation_of(source, alias.text if alias else None))
        if any(relation.owners[0] in r.owners for r in relations):
            raise context.script.invalid(
                name.at,
                _twice(source, len(relations)),
                cause="self joins need an alias for each side",
                action="give each of them an alias of its own",
            )
        if context.as_ksqldb and any(source.name == r.source.name for r in relations):
            raise context.script.invalid(
                name.at,
                _twice(source, len(relations)),
                cause=f"{DIFFERENCES} is 'none'",
                action=f"SET '{DIFFERENCES}'='kept' and an alias for each side join it",
            )
        relations.append(relation)
    return relations


def _twice(source: Source, before: int) -> str:
    """ksqlDB's words for a source that a join names again after `before` sources."""
    if before > 1:
        return (
            "N-way joins do not support multiple occurrences of the same source. Source: "
            f"'{source.name}'."
        )
    return f"Can not join '{source.name}' to '{source.name}': self joins are not yet supported."


class _Joins:
    def __init__(
        self, context: Context, target: Target, select: Select, relations: Sequence[Relation]
    ) -> None:
        self._context = context
        self._target = target
        self._select = select
        self._first = relations[0]
        self._sources = {r.owners[0]: r.source for r in relations}
        everything = relations[0]
        for relation in relations[1:]:
            everything = combine(everything, relation)
        self._everything = everything

    def conditions(self, rights: Sequence[Relation]) -> list[Condition]:
        """The conditions of all joins, before anything else is looked at."""
        found: list[Condition] = []
        for clause, right in zip(self._select.joins, rights, strict=True):
            condition = condition_of(self._context, clause, right, self._everything)
            own = self._sources[condition.left_owner]
            check_windows(self._context, clause, own, right.source)
            found.append(condition)
        return found

    def join(
        self,
        clause: JoinClause,
        condition: Condition,
        relations: tuple[Relation, Relation],
        equal: Equal,
    ) -> tuple[Join, Equal]:
        """One join, and what is equal to its key."""
        left, right = relations
        own = self._sources[condition.left_owner]
        sides = self._keyed(left, condition.left), self._keyed(right, condition.right)
        joining = Joining(left, own, sides[0].key), Joining(right, right.source, sides[1].key)
        form = form_of(self._context, clause, condition, *joining)
        relation = combine(left, right)
        if form is JoinForm.FOREIGN_KEY:
            relation = replace(relation, keys=left.keys)
            foreign = ForeignJoin(
                self._context, self._target, self._select, clause, sides, relation
            )
            return foreign, Equal.of(left.keys)
        check_partitions(self._context, clause, self._first, right)
        for side, node in zip(sides, (condition.left, condition.right), strict=True):
            check_determined(self._context.script, side.key, node, "JOIN … ON")
        after = equal.joined(
            clause.kind,
            (condition.left_text, field_of(relation, condition.left)),
            (condition.right_text, field_of(relation, condition.right)),
        )
        return self._plain(clause, condition, form, sides, relation, after), after

    def _plain(
        self,
        clause: JoinClause,
        condition: Condition,
        form: JoinForm,
        sides: tuple[Side, Side],
        relation: Relation,
        equal: Equal,
    ) -> PlainJoin:
        sides = self._same_type(clause, condition, sides)
        key_type = sides[0].key.type
        selected = [f for f in equal.viable if in_projection(self._select, relation, f)]
        chosen = (selected or list(equal.viable) or [synthetic_key(relation, key_type)])[0]
        if not chosen.owner:
            relation = replace(relation, fields=(chosen, *relation.fields))
        relation = replace(relation, keys=(chosen,))
        check_key_type(self._context.script, clause.at, chosen.column.name, key_type)
        return PlainJoin(
            self._context, self._target, self._select, clause, form, sides, relation, equal
        )

    def _keyed(self, relation: Relation, node: exp.Expr) -> Side:
        key = self._before(relation).expression(node)
        assert key is not None  # each side of a condition names a column
        return Side(relation, key)

    def _same_type(
        self, clause: JoinClause, condition: Condition, sides: tuple[Side, Side]
    ) -> tuple[Side, Side]:
        """Both keys of one type: state keys are compared as bytes."""
        types = [s.key.type for s in sides]
        wanted = common_type(types)
        if wanted is None:
            raise self._context.script.invalid(
                clause.at,
                f"Invalid join condition: types don't match. Got {condition.left_text}"
                f"{{{types[0]}}} = {condition.right_text}{{{types[1]}}}.",
                action="use CAST",
            )
        left, right = (
            Side(s.relation, self._before(s.relation).coerced(node, wanted))
            for s, node in zip(sides, (condition.left, condition.right), strict=True)
        )
        return left, right

    def _before(self, relation: Relation) -> Translator:
        return relation_translator(
            self._context.script, relation, self._context.functions, "JOIN ON"
        )
