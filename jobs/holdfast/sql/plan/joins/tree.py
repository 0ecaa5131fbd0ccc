"""The joined rows so far: their columns, their key, and which columns are equal to the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from holdfast.sql.parse.script import resolve_identifier
from holdfast.sql.parse.statements import Select
from holdfast.sql.plan.projection import ColumnNames, plain_column
from holdfast.sql.plan.relation import Field, FieldKind, Relation, read_column
from holdfast.types.columns.schema import Column, SqlType
from holdfast.types.statements.topology import JoinKind, Source

__all__ = [
    "JOIN_KEY",
    "Equal",
    "combine",
    "in_projection",
    "mentioned",
    "prefixed",
    "stored",
    "synthetic_key",
]

JOIN_KEY = "__KEY"  # the join key's column in the rows of a join


@dataclass(frozen=True)
class Equal:
    """The expressions that are equal to a join's key.

    `texts` are expressions, `viable` the plain columns among them, in ksqlDB's order.
    """

    texts: frozenset[str] = frozenset()
    viable: tuple[Field, ...] = ()

    @staticmethod
    def of(fields: Sequence[Field]) -> Equal:
        """The columns of a table's primary key."""
        return Equal(frozenset(_text(f) for f in fields), tuple(fields))

    def joined(
        self,
        kind: JoinKind,
        left: tuple[str, Field | None],
        right: tuple[str, Field | None],
    ) -> Equal:
        """After a join on `left = right` (text, and the column it is, if it is one)."""
        if kind is JoinKind.FULL:
            return Equal()  # either side may be missing
        keys = frozenset((left[0], right[0]))
        texts = keys | self.texts if keys & self.texts else keys
        ordered = [*self.viable, left[1], right[1]]
        viable = dict.fromkeys(f for f in ordered if f is not None and _text(f) in texts)
        return Equal(texts, tuple(viable))


def _text(field: Field) -> str:
    return f"{field.owner}.{field.name}"


def prefixed(relation: Relation) -> Relation:
    """A source's columns by the names they have in a join."""
    if relation.joined:
        return relation

    def named(fields: Sequence[Field]) -> tuple[Field, ...]:
        return tuple(
            replace(f, column=Column(f"{f.owner}_{f.name}", f.column.type)) for f in fields
        )

    return replace(relation, fields=named(relation.fields), keys=named(relation.keys), joined=True)


def combine(left: Relation, right: Relation) -> Relation:
    """The columns of both, before the key of the join is known."""
    return Relation(
        source=left.source,
        fields=(*left.fields, *right.fields),
        owners=(*left.owners, *right.owners),
        keys=(),
        joined=True,
        names=tuple(n for n in (*left.names, *right.names) if _once(n[0], left, right)),
    )


def _once(name: str, left: Relation, right: Relation) -> bool:
    # A source that is joined with itself is known by its aliases only.
    return sum(other == name for other, _ in (*left.names, *right.names)) == 1


def synthetic_key(relation: Relation, sql_type: SqlType) -> Field:
    """The key of a join that no source's column is equal to."""
    name = ColumnNames(f.name for f in relation.fields).numbered("ROWKEY")
    column = Column(name, sql_type)
    return Field("", name, column, FieldKind.KEY, read_column(column))


def stored(relation: Relation, source: Source, same: Mapping[Field, str]) -> Relation:
    """A join's columns, read from the topic they were written to.

    `same` are the columns that have the value of a key column of the topic.  The key is read from
    there; of a table all of them are, since a tombstone has no other columns.
    """

    def read(field: Field, *, key: bool) -> Field:
        name = same.get(field) if key or source.kind == "TABLE" else None
        column = Column(name or field.column.name, field.column.type)
        return replace(field, read=read_column(column))

    return replace(
        relation,
        source=source,
        fields=tuple(read(f, key=f in relation.keys and not f.owner) for f in relation.fields),
        keys=tuple(read(f, key=True) for f in relation.keys),
    )


def mentioned(select: Select, relation: Relation) -> tuple[Field, ...]:
    """The columns that a SELECT may need."""
    nodes: list[exp.Expr] = [i.expression for i in select.items if i.expression is not None]
    nodes += [*select.group_by, *(select.partition_by or ()), *(j.on for j in select.joins)]
    nodes += [n for n in (select.where, select.having) if n is not None]
    names = {
        resolve_identifier(c.this)
        for n in nodes
        for c in n.find_all(exp.Column)
        if isinstance(c.this, exp.Identifier)
    }
    star = any(i.expression is None for i in select.items)
    partitioned = select.partition_by is not None
    return tuple(
        f
        for f in relation.fields
        if f.name in names or (star and (partitioned or f.kind is not FieldKind.PSEUDO))
    )


def in_projection(select: Select, relation: Relation, field: Field) -> bool:
    """Whether a SELECT has a column as it is, by itself or by a star."""
    for item in select.items:
        if item.expression is None:
            owner = item.qualifier.text if item.qualifier else None
            if field in relation.star(owner):
                return True
            continue
        column = plain_column(item.expression)
        if column is not None:
            table = column.args.get("table")
            qualifier = resolve_identifier(table) if table else None
            if relation.find(resolve_identifier(column.this), qualifier) == [field]:
                return True
    return False
