"""The contract of an aggregate function.

An aggregate is computed in three places: Spark makes one *partial* row per key and batch
(before and after the shuffle, in the JVM), the state task *merges* it with the stored state in
columns, and *finish* turns state into the value a reader sees.  So an aggregate names its
partial columns as Spark SQL and the rest works on Arrow arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.types.schema import SqlType
from holdfast.types.topology import OFFSET, PARTITION, AggregateCall

__all__ = ["ORDER", "Aggregate", "AggregateFunction", "Literal", "Partial"]

Literal = str | int | float | bool | None

# Arrival order within one batch.  A key that lives in one topic partition (every keyed topic)
# gets exactly the order of its offsets; across topic partitions Kafka itself has no order.
ORDER = f"`{OFFSET}`, `{PARTITION}`"


@dataclass(frozen=True)
class Partial:
    """One partial column: a Spark SQL aggregate expression and the Arrow type it arrives as."""

    spark: str
    type: pa.DataType


class Aggregate(ABC):
    """An aggregate bound to one call; stateless, arrays have one entry per key of the batch."""

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
        """State with state; `first` came first.  By default a state is what a partial is."""
        return self.merge(first, second)

    def undo(self, state: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        """The state without what `partial` once added.

        Raises:
            TypeError: this aggregate cannot forget; see `AggregateFunction.undoable`.
        """
        raise TypeError(f"{type(self).__name__} cannot take a value back")

    @abstractmethod
    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        """The result column, of the call's SQL type."""


class AggregateFunction(ABC):
    """An entry of the registry: knows its name and signature and binds calls."""

    name: str
    undoable = False  # whether it can be computed over a table, whose rows change

    @abstractmethod
    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        """The SQL type of a call.

        Raises:
            ValueError: the arguments do not fit; the message says what would.
        """

    @abstractmethod
    def bind(self, call: AggregateCall) -> Aggregate:
        """The aggregate for one call."""
