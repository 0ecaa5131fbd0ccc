"""The contract of an aggregate function.

An aggregate is computed in three places: Spark makes one *partial* row per key and batch
(before and after the shuffle, in the JVM), the state task *merges* it with the stored state in
columns, and *finish* turns state into the value a reader sees.  So an aggregate names its
partial columns as Spark SQL and the rest works on Arrow arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.tasks.pack.folds import Fold
from holdfast.types.schema import Base, SqlType
from holdfast.types.topology import OFFSET, PARTITION, AggregateCall

__all__ = [
    "ORDER",
    "Aggregate",
    "AggregateFunction",
    "Literal",
    "Partial",
    "has_map",
    "not_accepted",
    "ordered_list",
]

Literal = str | int | float | bool | None

# Arrival order within one batch.  A key that lives in one topic partition (every keyed topic)
# gets exactly the order of its offsets; across topic partitions Kafka itself has no order.
ORDER = f"`{OFFSET}`, `{PARTITION}`"


@dataclass(frozen=True)
class Partial:
    """One partial column: a Spark SQL aggregate expression and the Arrow type it arrives as.

    `fold` is the same without Spark, where that is possible.
    """

    spark: str
    type: pa.DataType
    fold: Fold | None = None


class Aggregate(ABC):
    """An aggregate bound to one call.  Stateless; arrays have one entry per key of the batch."""

    @property
    @abstractmethod
    def partials(self) -> tuple[Partial, ...]:
        """The columns Spark computes for each key of a batch."""

    @property
    @abstractmethod
    def state(self) -> tuple[pa.DataType, ...]:
        """The columns kept in the store; null means "no value yet"."""

    @abstractmethod
    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        """New state from old state (all null for a new key) and this batch's partials."""

    def combine(
        self, first: Sequence[pa.Array], second: Sequence[pa.Array]
    ) -> tuple[pa.Array, ...]:
        """Merges two states; `first` is the older.  By default a state is merged like a partial."""
        return self.merge(first, second)

    def undo(self, state: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        """The state after taking back what `partial` added.

        Raises:
            TypeError: this aggregate cannot be undone; see `AggregateFunction.undoable`.
        """
        raise TypeError(f"{type(self).__name__} cannot take a value back")

    @abstractmethod
    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        """The result column, of the call's SQL type."""


class AggregateFunction(ABC):
    """An entry of the registry: knows its name and signature and binds calls."""

    name: str
    undoable = False  # whether it can be computed over a table, whose rows change
    plain = False  # whether ksqlDB's state for it has no array, map or struct: fits DELIMITED

    def columns(self, count: int) -> int:
        """How many of `count` arguments are columns; the arguments after them must be constants."""
        return count

    def settings(self, properties: Mapping[str, str]) -> tuple[Literal, ...]:
        """Constants that the statement's properties append to a call's own."""
        return ()

    @abstractmethod
    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        """The SQL type of a call.

        Raises:
            ValueError: the arguments do not fit; the message says what would.
        """

    def folds(self, call: AggregateCall) -> tuple[Fold | None, ...]:
        """For each partial, how to fold it from records without Spark SQL; None if it cannot be."""
        return (None,)

    @abstractmethod
    def bind(self, call: AggregateCall) -> Aggregate:
        """The aggregate for one call."""


def not_accepted(
    name: str, args: Sequence[SqlType], literals: Sequence[Literal] = ()
) -> ValueError:
    """The error for arguments that fit no variant of a function."""
    given = [str(a) for a in args] + [_type_of(v) for v in literals]
    return ValueError(f"Function '{name}' does not accept parameters ({', '.join(given)}).")


def _type_of(value: Literal) -> str:
    names = {bool: Base.BOOLEAN, int: Base.INTEGER, float: Base.DOUBLE, str: Base.STRING}
    return "null" if value is None else names[type(value)].value


def ordered_list(argument: str, kind: SqlType, where: str | None = None) -> str:
    """Spark SQL of a batch's values in order of arrival, as an array."""
    only = "" if where is None else f" FILTER (WHERE {where})"
    collected = f"collect_list(struct({ORDER}, {argument} AS v)){only}"
    # Spark compares structs by all their fields, and cannot compare maps.
    ordered = f"array_sort({collected}{_BY_PLACE})" if has_map(kind) else f"array_sort({collected})"
    return f"transform({ordered}, e -> e.v)"


_BY_PLACE = (
    f", (l, r) -> CASE WHEN l.`{OFFSET}` < r.`{OFFSET}` THEN -1"
    f" WHEN l.`{OFFSET}` > r.`{OFFSET}` THEN 1"
    f" WHEN l.`{PARTITION}` < r.`{PARTITION}` THEN -1 ELSE 1 END"
)


def has_map(kind: SqlType) -> bool:
    """Whether the type contains a MAP at any depth."""
    if kind.base is Base.MAP:
        return True
    if kind.element is not None:
        return has_map(kind.element)
    return any(has_map(f.type) for f in kind.fields)
