"""Aggregates whose distinct values are element rows (ADR 53), and rows that still have them inside.

A batch reads and writes only the elements that its records name.  A row of an earlier version has
the list of all its values in it; when a batch touches it, they become element rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.state.elements import ELEMENT_PREFIX, NUMBER_BYTES
from holdfast.state.table_store import Elements
from holdfast.tasks.aggregates.base import Aggregate, ByElement
from holdfast.tasks.aggregates.registry import bind, function_of
from holdfast.tasks.evaluate.keys import measured_all
from holdfast.tasks.pack.canonical import canonical_bytes
from holdfast.tasks.pack.rows import ROW_VERSION, RowCodec
from holdfast.tasks.processors.base import StoreView
from holdfast.types.statements.topology import AggregateStep, WindowKind

__all__ = ["ElementCodec", "ElementSets", "calls_of", "keeps_elements"]

_ELEMENT = b"\x01"  # the version of an element row, which says no more than that it is there
_VERSION = ROW_VERSION + 1  # of rows whose values are element rows


def keeps_elements(step: AggregateStep) -> bool:
    """Whether the step has element rows.

    A session's state key changes with each record, and its elements would have to move along: its
    values stay in its row.
    """
    session = step.window is not None and step.window.kind is WindowKind.SESSION
    return not session and any(function_of(call).by_element for call in step.aggregates)


def calls_of(step: AggregateStep) -> list[Aggregate]:
    """The step's aggregates, in the form in which it keeps their state."""
    calls = [bind(call) for call in step.aggregates]
    if not step.undo:
        calls = [call.without_undo() for call in calls]
    return [call.by_element() or call for call in calls] if keeps_elements(step) else calls


class ElementCodec(RowCodec):
    """Encodes rows whose values are element rows; decodes those of an earlier version as well."""

    def __init__(self, step: AggregateStep) -> None:
        self._calls = calls_of(step)
        super().__init__([t for call in self._calls for t in call.state], _VERSION)
        former = [bind(call) for call in step.aggregates]
        self._former = RowCodec([t for call in former for t in call.state])
        widths = [len(call.state) for call in former]
        self._places = np.cumsum([0, *widths]).tolist()

    @property
    def numbers(self) -> list[int]:
        """The aggregates whose values are element rows."""
        return [n for n, call in enumerate(self._calls) if isinstance(call, ByElement)]

    def decode(
        self, rows: Sequence[bytes | None]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], list[pa.Array]]:
        """See `RowCodec`."""
        former = _former_of(rows)
        if former is None:
            return super().decode(rows)
        pairs = zip(rows, former, strict=True)
        times, present, columns = super().decode([None if old else row for row, old in pairs])
        old_times, old_present, old = self._former.decode(former)
        pick = partial(pc.if_else, pa.array(old_present))
        columns = [pick(a, b) for a, b in zip(self._as_now(old), columns, strict=True)]
        return np.where(old_present, old_times, times), present | old_present, columns

    def lists(self, rows: Sequence[bytes | None]) -> dict[int, pa.Array]:
        """The values inside of rows of an earlier version, by the number of the aggregate.

        Null where a row has none inside; empty if no row has.
        """
        former = _former_of(rows)
        if former is None:
            return {}
        _, _, columns = self._former.decode(former)
        return {n: columns[self._places[n]] for n in self.numbers}

    def _as_now(self, former: Sequence[pa.Array]) -> list[pa.Array]:
        columns: list[pa.Array] = []
        for call, at, end in zip(self._calls, self._places, self._places[1:], strict=False):
            part = former[at:end]
            columns += call.of_lists(part[0]) if isinstance(call, ByElement) else part
        return columns


def _former_of(rows: Sequence[bytes | None]) -> list[bytes | None] | None:
    """Only the rows of an earlier version, None for the others; None if there are none."""
    found = [row if row is not None and row[0] == ROW_VERSION else None for row in rows]
    return found if any(row is not None for row in found) else None


class ElementSets:
    """Finds out which of a batch's values are new; holds no data between calls."""

    def __init__(self, codec: ElementCodec) -> None:
        self._codec = codec

    def resolved(
        self,
        payload: pa.Table,
        of: npt.NDArray[np.int64],
        keys: pa.Array,
        rows: Sequence[bytes | None],
        store: StoreView,
    ) -> tuple[pa.Table, Elements]:
        """The payload with numbers of new values instead of values, and the elements to write.

        Args:
            payload: partials in arrival order.
            of: the place of each payload row's state key in `keys`.
            keys: state keys (BINARY), each once; `rows` are their rows before the batch.
        """
        inside = self._codec.lists(rows)
        there = np.fromiter((row is not None for row in rows), np.bool_, len(rows))
        written: dict[bytes, bytes | None] = {}
        for number in self._codec.numbers:
            former = _named(inside[number], None, keys, number)[0] if inside else []
            moved = dict.fromkeys(former, _ELEMENT)
            name = f"p{number}_0"
            names, first, owner = _named(payload[name].combine_chunks(), of, keys, number)
            known = _known(names, there[owner], moved, store)
            counts = np.bincount(first[~known], minlength=payload.num_rows).astype(np.int64)
            at = payload.schema.get_field_index(name)
            payload = payload.set_column(at, name, pa.array(counts))
            written.update(moved)
            new = np.flatnonzero(~known).tolist()
            written.update(dict.fromkeys(map(names.__getitem__, new), _ELEMENT))
        return payload, written


def _named(
    lists: pa.Array | pa.ChunkedArray,
    of: npt.NDArray[np.int64] | None,
    keys: pa.Array,
    number: int,
) -> tuple[list[bytes], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The elements' keys, each once; the list that has it first; the place of its state key.

    Args:
        of: the place of each list's state key in `keys`; None: they are parallel.
    """
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    record = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    owner = record if of is None else of[record]
    head, state_keys = measured_all(keys.take(pa.array(owner)))
    parts = (ELEMENT_PREFIX, head, state_keys, number.to_bytes(NUMBER_BYTES, "big"))
    names = pc.binary_join_element_wise(*parts, canonical_bytes(lists.flatten()), b"")
    encoded = names.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    first = np.unique(codes, return_index=True)[1]
    return encoded.dictionary.to_pylist(), record[first], owner[first]


def _known(
    names: list[bytes],
    may_be: npt.NDArray[np.bool_],
    moved: dict[bytes, bytes],
    store: StoreView,
) -> npt.NDArray[np.bool_]:
    """Which elements the table has already; only those that `may_be` are looked up."""
    known = np.zeros(len(names), np.bool_)
    asked = np.flatnonzero(may_be)
    found = store.get_elements([names[n] for n in asked.tolist()]) if len(asked) else []
    known[asked] = [row is not None for row in found]
    if moved:
        known |= np.fromiter((name in moved for name in names), np.bool_, len(names))
    return known
