"""Relations: the columns that an expression may name, and how each of them is read.

ksqlDB's model: the columns of a source are its own; after a join they are all there as
`SOURCE_COLUMN`, and an expression names them `SOURCE.COLUMN`, or `COLUMN` where that is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.sql.expressions.engines import DUCKDB, SPARK
from holdfast.types.columns.schema import BIGINT, INTEGER, Column, SqlType
from holdfast.types.statements.expressions import Expression, NamedExpression, in_duckdb
from holdfast.types.statements.topology import (
    HEADERS,
    HEADERS_TYPE,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    WINDOW_END,
    WINDOW_START,
    HeaderColumn,
    Source,
)

__all__ = [
    "PSEUDO_COLUMNS",
    "RESERVED_NAMES",
    "WINDOW_BOUNDS",
    "Field",
    "FieldKind",
    "Relation",
    "read_column",
    "read_named",
    "relation_of",
]

PSEUDO_COLUMNS: dict[str, tuple[str, SqlType]] = {
    "ROWTIME": (TIMESTAMP, BIGINT),
    "ROWPARTITION": (PARTITION, INTEGER),
    "ROWOFFSET": (OFFSET, BIGINT),
}
WINDOW_BOUNDS = {"WINDOWSTART": WINDOW_START, "WINDOWEND": WINDOW_END}
RESERVED_NAMES = (*PSEUDO_COLUMNS, *WINDOW_BOUNDS)


class FieldKind(StrEnum):
    """The role of a column in its source."""

    KEY = "key"
    VALUE = "value"
    BOUND = "bound"  # WINDOWSTART, WINDOWEND
    PSEUDO = "pseudo"


@dataclass(frozen=True)
class Field:
    """One column: `owner.name` to the user, `column` in the row of the relation.

    `read` is how it is read from the relation's source: the same column is read in different ways
    from its own topic and from that of a join.
    """

    owner: str
    name: str
    column: Column
    kind: FieldKind
    read: Expression = field(compare=False)

    @property
    def event_time(self) -> bool:
        """Whether it compares with date strings."""
        return self.name == "ROWTIME" or self.kind is FieldKind.BOUND


@dataclass(frozen=True)
class Relation:
    """The rows a clause sees.

    Attributes:
        source: the topic they come from.
        fields: in the order of `SELECT *`, with those between them that a star leaves out.
        owners: the sources' aliases, from left to right.
        joined: whether columns are called `OWNER_NAME` in the row.
        keys: the fields that are the key of the rows.
        names: what else a source answers to: (other name, alias).
    """

    source: Source
    fields: tuple[Field, ...]
    owners: tuple[str, ...]
    keys: tuple[Field, ...]
    joined: bool = False
    names: tuple[tuple[str, str], ...] = ()

    def find(self, name: str, qualifier: str | None) -> list[Field]:
        """The columns that a reference may mean: none, one, or several when it is ambiguous."""
        if qualifier is None:
            found = [f for f in self.fields if f.name == name]
            return [f for f in found if not f.owner] or found
        owner = dict(self.names).get(qualifier, qualifier)
        return [f for f in self.fields if f.name == name and f.owner == owner]

    def clashing(self, name: str) -> bool:
        """Whether more than one source has a column of that name."""
        return sum(f.name == name for f in self.fields) > 1

    def star(self, owner: str | None, *, partitioned: bool = False) -> list[Field]:
        """The columns of `*` or `owner.*`.

        `partitioned`: PARTITION BY puts the old key behind the value, and after a join all the
        columns that ksqlDB adds are part of it, too.
        """
        wanted = None if owner is None else dict(self.names).get(owner, owner)
        owned = [f for f in self.fields if wanted in (None, f.owner)]
        if not partitioned:
            return [f for f in owned if f.kind is not FieldKind.PSEUDO and self._shown(f)]
        return [
            f
            for each in dict.fromkeys(f.owner for f in owned)
            for kind in (FieldKind.VALUE, FieldKind.PSEUDO, FieldKind.KEY, FieldKind.BOUND)
            for f in owned
            if (f.owner, f.kind) == (each, kind) and self._shown(f)
        ]

    def _shown(self, field: Field) -> bool:
        return self.joined or field.kind in (FieldKind.KEY, FieldKind.VALUE)

    def all_names(self) -> list[str]:
        """Every column's name, without its source."""
        return [f.name for f in self.fields]


def relation_of(source: Source, alias: str | None) -> Relation:
    """The columns of one source, under its alias."""
    owner = alias or source.name
    fields = [_column(owner, c, FieldKind.KEY) for c in source.key_columns]
    bounds = [
        _field(owner, name, Column(column, BIGINT), FieldKind.BOUND)
        for name, column in WINDOW_BOUNDS.items()
        if source.window is not None
    ]
    headers = [
        Field(owner, h.column.name, h.column, FieldKind.VALUE, _header(h)) for h in source.headers
    ]
    values = [_column(owner, c, FieldKind.VALUE) for c in source.value_columns]
    pseudo = [
        _field(owner, name, Column(column, sql_type), FieldKind.PSEUDO)
        for name, (column, sql_type) in PSEUDO_COLUMNS.items()
    ]
    return Relation(
        source,
        (*fields, *bounds, *values, *headers, *pseudo),
        (owner,),
        keys=tuple(fields),
        names=((source.name, owner),) if owner != source.name else (),
    )


def _column(owner: str, column: Column, kind: FieldKind) -> Field:
    return _field(owner, column.name, column, kind)


def _field(owner: str, name: str, column: Column, kind: FieldKind) -> Field:
    return Field(owner, name, column, kind, read_column(column))


def _header(header: HeaderColumn) -> Expression:
    headers = read_column(Column(HEADERS, HEADERS_TYPE))
    key = header.key
    if key is None:
        return headers
    return headers.mapped(
        lambda sql: DUCKDB.header(sql, key),
        header.column.type,
        released=lambda sql: SPARK.header(sql, key),
    )


def read_column(column: Column) -> Expression:
    """A column of the source's rows, as it is."""
    name = column.name
    text = DUCKDB.zoneless(DUCKDB.quote(in_duckdb(name)), column.type)
    return Expression(text, column.type, columns=(name,), ref=name, released=SPARK.quote(name))


def read_named(column: Column) -> NamedExpression:
    """A column of the source's rows under its own name."""
    return NamedExpression(column.name, read_column(column))
