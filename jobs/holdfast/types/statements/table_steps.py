"""Steps over the rows of one source, and the three that make a foreign-key join."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.statements.inputs import Input, JoinKind

__all__ = [
    "GONE",
    "INSTRUCTION",
    "LEFT_KEY",
    "VERSION",
    "ChangesStep",
    "DeduplicateStep",
    "ResolveStep",
    "SubscribeStep",
    "TableStep",
]


@dataclass(frozen=True)
class ChangesStep:
    """A table's changes for an aggregate over it: what a row was, and what it is.

    Keeps the table's rows by its primary key (`input.keys`).  `input.columns` are the GROUP BY
    expressions (the first `groups` of them) and the aggregates' arguments.  Writes to its
    internal sink, keyed by the group, the value columns `old` and `new` of every carried column:
    `OLD_<name>` and `NEW_<name>`, and the BOOLEANs `HAS_OLD` and `HAS_NEW`.  When a row moves to
    another group, the old one is taken back there by a record of its own, first.
    """

    input: Input
    groups: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)

    def fingerprint_parts(self) -> dict[str, object]:
        return {"changes": self.input.fingerprint_parts(), "groups": self.groups}


@dataclass(frozen=True)
class TableStep:
    """WHERE over a table: only a row that was there before leaves a tombstone.

    Keeps which keys (`input.keys`, the primary key) passed `input.filter`.  Writes
    `input.columns` as they are, keyed by `input.keys`.  Without a WHERE a `ProjectStep` is enough.
    """

    input: Input

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)

    def fingerprint_parts(self) -> dict[str, object]:
        return {"table": self.input.fingerprint_parts()}


@dataclass(frozen=True)
class DeduplicateStep:
    """A stream's records, each key's at most once within any `within_ms` of event time.

    The first that comes passes; another of its key (`input.keys`) whose time is less than
    `within_ms` away from one that has passed does not.  Writes `input.columns`, keyed by
    `input.keys`.  A record as late as `within_ms` behind stream time cannot be told from a
    duplicate any more: it is dropped and counted.
    """

    input: Input
    within_ms: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)

    def fingerprint_parts(self) -> dict[str, object]:
        return {"deduplicate": self.input.fingerprint_parts(), "within_ms": self.within_ms}


# What the queries of a FOREIGN_KEY join tell each other, beside the columns of the tables.
LEFT_KEY = Column("__LEFT_KEY", SqlType(Base.BYTES))
VERSION = Column("__VERSION", SqlType(Base.BIGINT))
INSTRUCTION = Column("__INSTRUCTION", SqlType(Base.INTEGER))
GONE = Column("__GONE", SqlType(Base.BOOLEAN))


@dataclass(frozen=True)
class SubscribeStep:
    """The first of the three queries of a FOREIGN_KEY join: the left rows, by foreign key.

    1. `SubscribeStep` keeps the left table's rows by primary key (`input.keys`).  `input.columns`
       are the foreign key (first), then what the result needs of the left row, with every
       primary key column.  The internal STREAM sink: key column the foreign key (null for a left
       row without one, which a LEFT join keeps), value columns the rest of `input.columns`, then
       `LEFT_KEY`, `VERSION`, `INSTRUCTION`.
    2. `JoinStep` of form FOREIGN_KEY keeps the subscriptions and the right table by foreign key.
       `left` is what 1 wrote: keys the foreign key, columns all its value columns; `right` is
       the right table by its primary key.  `keys` are the left primary key's columns.  The
       internal STREAM sink: value columns `outputs`, then `VERSION` and `GONE`.  WHERE is its
       `filter`.
    3. `ResolveStep` keeps the newest version by left primary key, and drops results that a newer
       left row has overtaken.  The TABLE sink of the statement.
    """

    input: Input
    kind: JoinKind  # INNER or LEFT

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)

    def fingerprint_parts(self) -> dict[str, object]:
        return {"subscribe": self.input.fingerprint_parts(), "kind": self.kind}


@dataclass(frozen=True)
class ResolveStep:
    """The last query of a FOREIGN_KEY join, see `SubscribeStep`.

    `input` is what the second wrote: keys the left primary key, columns all value columns.
    `filtered`: the statement has a WHERE; rows that never passed it leave no tombstone then.
    """

    input: Input
    filtered: bool = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)

    def fingerprint_parts(self) -> dict[str, object]:
        return {"resolve": self.input.fingerprint_parts(), "filtered": self.filtered}
