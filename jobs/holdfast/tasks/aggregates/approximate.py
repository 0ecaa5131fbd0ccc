"""APPROX_COUNT_DISTINCT, APPROX_QUANTILE and APPROX_TOP_K: sketches instead of all values.

A partial has the values themselves while they are few, which is all columns, and a sketch of them
from then on.  So a key with most of the records sends a few kilobytes through the shuffle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.base import (
    Aggregate,
    AggregateFunction,
    Literal,
    Partial,
    not_accepted,
)
from holdfast.tasks.aggregates.of_records import as_doubles, listed
from holdfast.tasks.aggregates.sketches import CountSketch, QuantileSketch, Sketch, TopSketch
from holdfast.tasks.evaluate.doubles import is_double, of_ranks, ranks_of
from holdfast.tasks.pack.folds import Folding, Groups, fold
from holdfast.types.columns.schema import BIGINT, DOUBLE, Base, Column, SqlType
from holdfast.types.statements.topology import AggregateCall

__all__ = ["ApproxCountDistinct", "ApproxQuantile", "ApproxTopK"]

_VALUES_MAX = 256  # of a partial; more of them take more bytes than a sketch
_NESTED = (Base.ARRAY, Base.MAP, Base.STRUCT)
_TOP_MAX = 100  # k of APPROX_TOP_K: the sketch tells far fewer from rare ones


@dataclass(frozen=True)
class _Kind:
    """The functions around the sketch of a call.

    Attributes:
        values: makes what the sketch takes of the argument's column, of Arrow type `taken`.
        finish: makes the results of the stored sketches; None where there was no value.
    """

    sketch: Sketch[Any]
    taken: pa.DataType
    values: Callable[[pa.Array], pa.Array]
    finish: Callable[[list[bytes | None]], pa.Array]


class _SketchCall(Aggregate):
    """State: the bytes of a sketch, null without a value."""

    def __init__(self, kind: _Kind) -> None:
        self._kind = kind
        self._sketch = kind.sketch
        self._type = pa.struct([("values", pa.list_(kind.taken)), ("sketch", pa.binary())])

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (Partial(self._type, self._fold, self._of_values),)

    def _of_values(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        values = self._kind.values(arguments[0]).cast(self._kind.taken)
        return self._partials(listed(values, values.is_valid()), pa.nulls(rows, pa.binary()))

    def _partials(self, values: pa.Array, sketches: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays([values, sketches], fields=list(self._type))

    def _fold(self, partials: pa.Array, groups: Groups) -> pa.Array:
        """Values one after the other; of many values, and of several sketches, one sketch."""
        values, sketches = partials.flatten()
        lists = fold(Folding.LIST, values, groups)
        lengths = lists.value_lengths().to_numpy()
        many = lengths > _VALUES_MAX
        stored: dict[int, list[bytes]] = defaultdict(list)
        for row in np.flatnonzero(sketches.is_valid().to_numpy(zero_copy_only=False)).tolist():
            stored[int(groups.codes[row])].append(sketches[row].as_py())
        made: list[bytes | None] = [None] * groups.count
        for group in {*stored, *np.flatnonzero(many).tolist()}:
            added = lists[group].as_py() if many[group] else ()
            made[group] = self._sketch.merged(stored[group], added)
        return self._partials(_without(lists, lengths, many), pa.array(made, pa.binary()))

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.binary(),)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        values, sketches = (column.to_pylist() for column in partial[0].flatten())
        rows = zip(old[0].to_pylist(), sketches, values, strict=True)
        merged = [self._merged([s for s in (a, b) if s is not None], more) for a, b, more in rows]
        return (pa.array(merged, pa.binary()),)

    def combine(
        self, first: Sequence[pa.Array], second: Sequence[pa.Array]
    ) -> tuple[pa.Array, ...]:
        pairs = zip(first[0].to_pylist(), second[0].to_pylist(), strict=True)
        merged = [self._merged([s for s in pair if s is not None], ()) for pair in pairs]
        return (pa.array(merged, pa.binary()),)

    def _merged(self, stored: Sequence[bytes], values: Sequence[Any]) -> bytes | None:
        return self._sketch.merged(stored, values) if stored or values else None

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        return self._kind.finish(state[0].to_pylist())


def _without(
    lists: pa.ListArray, lengths: npt.NDArray[np.int32], emptied: npt.NDArray[np.bool_]
) -> pa.ListArray:
    """The lists, some of them emptied."""
    if not emptied.any():
        return lists
    kept = lists.flatten().filter(pa.array(np.repeat(~emptied, lengths)))
    ends = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(np.where(emptied, 0, lengths), out=ends[1:])
    return pa.ListArray.from_arrays(pa.array(ends), kept, type=lists.type)


# -- values as integers or texts, equal exactly where the values are ---------------------------


def _has_number(kind: pa.DataType) -> bool:
    """Whether values of the type have integers for them."""
    whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)
    return bool(whole or is_double(kind))


def _numbers(values: pa.Array) -> pa.Array:
    if is_double(values.type):
        return ranks_of(values)
    wide = values.type.bit_width == 64 if pa.types.is_temporal(values.type) else True
    return (values if wide else values.cast(pa.int32())).cast(pa.int64())


def _texts(values: pa.Array) -> pa.Array:
    if _has_number(values.type):
        return _numbers(values).cast(pa.string())
    if pa.types.is_binary(values.type):
        # Each byte is the character of its number: the library takes text.
        texts = [None if v is None else v.decode("latin-1") for v in values.to_pylist()]
        return pa.array(texts, pa.string())
    return values.cast(pa.string())


def _of_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The inverse of `_texts`."""
    if pa.types.is_binary(kind):
        return pa.array([v.encode("latin-1") for v in texts.to_pylist()], kind)
    if not _has_number(kind):
        return texts.cast(kind)
    numbers = texts.cast(pa.int64())
    if is_double(kind):
        return pa.array(of_ranks(numbers.to_numpy()))
    wide = kind.bit_width == 64 if pa.types.is_temporal(kind) else True
    return (numbers if wide else numbers.cast(pa.int32())).cast(kind)


def _order(kind: pa.DataType) -> Callable[[str], Any]:
    if pa.types.is_decimal(kind):
        return Decimal
    return int if _has_number(kind) else str


# -- the three functions ----------------------------------------------------------------------


class _Approximate(AggregateFunction):
    def columns(self, count: int) -> int:
        return min(count, 1)


class ApproxCountDistinct(_Approximate):
    """About how many distinct values there are that are not null; see `CountSketch`."""

    name = "APPROX_COUNT_DISTINCT"

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals or args[0].base in _NESTED:
            raise not_accepted(self.name, args, literals)
        return BIGINT

    def bind(self, call: AggregateCall) -> Aggregate:
        sketch = CountSketch()
        numbers = _has_number(call.arg_types[0].arrow())

        def values(column: pa.Array) -> pa.Array:
            # The library leaves out an empty text.
            return (
                _numbers(column)
                if numbers
                else pc.binary_join_element_wise("=", _texts(column), "")
            )

        def finish(states: list[bytes | None]) -> pa.Array:
            return pa.array([0 if s is None else sketch.count(s) for s in states], pa.int64())

        taken = pa.int64() if numbers else pa.string()
        return _SketchCall(_Kind(sketch, taken, values, finish))


class ApproxQuantile(_Approximate):
    """The value below which a share of the values lies; of several shares, an array of values.

    Nulls are ignored; NaN is the greatest value.  See `QuantileSketch`.
    """

    name = "APPROX_QUANTILE"

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        shares = [v for v in literals if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(args) != 1 or not args[0].numeric or not shares or len(shares) < len(literals):
            raise not_accepted(self.name, args, literals)
        wrong = next((v for v in shares if not 0 <= v <= 1), None)
        if wrong is not None:
            raise ValueError(f"{self.name} needs shares from 0 to 1, such as 0.99, not {wrong}")
        return DOUBLE if len(shares) == 1 else SqlType(Base.ARRAY, element=DOUBLE)

    def bind(self, call: AggregateCall) -> Aggregate:
        sketch = QuantileSketch()
        shares = [float(str(v)) for v in call.literals]

        def of(state: bytes | None) -> Any:
            if state is None:
                return None
            found = list(map(sketch.read(state).at, shares))
            return found if len(shares) > 1 else found[0]

        def finish(states: list[bytes | None]) -> pa.Array:
            return pa.array(map(of, states), call.type.arrow())

        return _SketchCall(_Kind(sketch, pa.float64(), as_doubles, finish))


class ApproxTopK(_Approximate):
    """The k most frequent values and about how often each comes, as structs ITEM and COUNT.

    Nulls are ignored; of equally frequent values the least comes first.  See `TopSketch`.
    """

    name = "APPROX_TOP_K"

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        k = literals[0] if len(literals) == 1 else None
        fits = len(args) == 1 and args[0].base not in _NESTED
        if not fits or not isinstance(k, int) or isinstance(k, bool):
            raise not_accepted(self.name, args, literals)
        if not 1 <= k <= _TOP_MAX:
            raise ValueError(f"{self.name} needs k from 1 to {_TOP_MAX}, not {k}")
        fields = (Column("ITEM", args[0]), Column("COUNT", BIGINT))
        return SqlType(Base.ARRAY, element=SqlType(Base.STRUCT, fields=fields))

    def bind(self, call: AggregateCall) -> Aggregate:
        sketch = TopSketch()
        kind = call.arg_types[0].arrow()
        k, order, result = int(str(call.literals[0])), _order(kind), call.type.arrow()

        def finish(states: list[bytes | None]) -> pa.Array:
            found = [[] if s is None else sketch.top(s, k, order) for s in states]
            items = pa.array([text for each in found for text, _ in each], pa.string())
            counts = pa.array([n for each in found for _, n in each], pa.int64())
            ends = pa.array(np.cumsum([0, *map(len, found)]), pa.int32())
            pairs = pa.StructArray.from_arrays(
                [_of_texts(items, kind), counts], fields=list(result.value_type)
            )
            return pa.ListArray.from_arrays(ends, pairs, type=result)

        return _SketchCall(_Kind(sketch, pa.string(), _texts, finish))
