"""The contract of an aggregate function.

An aggregate is computed in columns, in four steps.  The task that reads a record makes the record's
*partial*.  Partials of one key are *folded* into one, before and after the shuffle
(`tasks.pack.folds`).  The state task *merges* that one with the stored state.  And *finish* turns
state into the value that a reader sees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.tasks.pack.folds import Fold, Folding
from holdfast.types.columns.schema import Base, SqlType
from holdfast.types.statements.topology import AggregateCall

__all__ = ["Aggregate", "AggregateFunction", "ByElement", "Literal", "Partial", "not_accepted"]

Literal = str | int | float | bool | None


@dataclass(frozen=True)
class Partial:
    """One partial column.

    Attributes:
        folding: how several partials become one.
        of: makes the partial of each single record from the arrays of the call's arguments, each
            of its SQL type's Arrow type, and the number of records.
    """

    type: pa.DataType
    folding: Folding | Fold
    of: Callable[[Sequence[pa.Array], int], pa.Array]


class Aggregate(ABC):
    """An aggregate bound to one call.  Stateless; arrays have one entry per key of the batch.

    Attributes:
        can_overflow: there may be states that end the query, see `overflow`.
    """

    can_overflow = False

    @property
    @abstractmethod
    def partials(self) -> tuple[Partial, ...]:
        """The columns that are shuffled."""

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

    def overflow(self, state: Sequence[pa.Array]) -> tuple[int, str] | None:
        """The first state whose value ends the query: its row, and the value as text; else None."""
        return None

    def without_undo(self) -> Aggregate:
        """The same aggregate for steps that never `undo`; its state may tell less."""
        return self

    def by_element(self) -> ByElement | None:
        """The same aggregate with its values in rows of their own; None: it has no such form.

        See `AggregateFunction.by_element`.
        """
        return None


class ByElement(Aggregate):
    """An aggregate that keeps every distinct value in an element row, beside its state.

    Its partial is shuffled as that of its other form, which keeps a list of all values as its
    state.  `merge` gets the number of values that are new instead.
    """

    @abstractmethod
    def of_lists(self, lists: pa.Array) -> tuple[pa.Array, ...]:
        """The state for the lists that the other form has kept, whatever it took for equal."""


class AggregateFunction(ABC):
    """An entry of the registry: knows its name and signature and binds calls."""

    name: str
    undoable = False  # whether it can be computed over a table, whose rows change
    # Whether a partial is a LIST, a FIRST or a LAST; it is asked where Arrow is not loaded.
    listed = False
    by_element = False  # whether calls have a form that keeps values in rows of their own
    plain = False  # whether ksqlDB's state for it has no array, map or struct: fits DELIMITED

    def columns(self, count: int) -> int:
        """How many of `count` arguments are columns; the arguments after them must be constants."""
        return count

    def passed_as(self, args: Sequence[SqlType]) -> Sequence[SqlType]:
        """The types to which arguments of these types are cast before the aggregate gets them."""
        return args

    def settings(self, properties: Mapping[str, str], result: SqlType) -> tuple[Literal, ...]:
        """Constants that the statement's properties append to those of a call of this type."""
        return ()

    @abstractmethod
    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        """The SQL type of a call.

        Raises:
            ValueError: the arguments do not fit; the message says what would.
        """

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
