"""Reads a table's columns from its changelog rows, without the engine.

The layout is in `changelog_rows`.  It reads the aggregates that are one number of known width
(COUNT; SUM, MIN, MAX of numbers) and come after no other aggregate.  A session's key is the length
of the key (4 bytes), the key, then 8 bytes each: its end in sortable form, start, end.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from holdfast.judge.read.changelog_rows import HEAD, Parse, key_parser
from holdfast.judge.values import Untranslatable
from holdfast.types.columns.schema import Base
from holdfast.types.statements.topology import AggregateCall, AggregateStep, Query, WindowKind

__all__ = ["ROWTIME", "WINDOWEND", "WINDOWSTART", "StateRows"]

ROWTIME, WINDOWSTART, WINDOWEND = "ROWTIME", "WINDOWSTART", "WINDOWEND"
_ROW = b"\x01"  # first byte of a record's key
_LENGTH_BYTES = 4
# By the number of window bounds: the bytes that follow the key, with the bounds among them.
_WINDOWS = {0: struct.Struct(">"), 1: struct.Struct(">q"), 2: struct.Struct(">8xqq")}
_FIXED = {Base.INTEGER: "i", Base.BIGINT: "q", Base.DOUBLE: "d"}
_EMPTY_IS_ZERO = frozenset({"COUNT", "SUM"})  # before any value was aggregated


@dataclass(frozen=True)
class StateRows:
    """Reads state keys and rows of one aggregate's changelog; see `TableRows`."""

    columns: tuple[str, ...]
    bounds: tuple[str, ...]
    _parse: Parse
    _layout: struct.Struct
    _places: tuple[int, ...]  # for each column, the index of its aggregate; -1: ROWTIME
    _zeros: tuple[bool, ...]

    @staticmethod
    def of(query: Query, step: AggregateStep) -> StateRows:
        """Raises `Untranslatable`: it does not read keys of these types."""
        parse = key_parser(query.sink.key_columns)
        if parse is None:
            raise Untranslatable("keys of these types")
        known = _known(step)
        numbers = {call.name: at for at, call in enumerate(known)}
        columns = {o.column.name: numbers[o.ref] for o in step.outputs if o.ref in numbers}
        bounds: tuple[str, ...] = () if step.window is None else (WINDOWSTART,)
        if step.window is not None and step.window.kind is WindowKind.SESSION:
            bounds = (WINDOWSTART, WINDOWEND)
        return StateRows(
            columns=(ROWTIME, *columns),
            bounds=bounds,
            _parse=parse,
            _layout=struct.Struct("<" + "".join(_FIXED[c.type.base] for c in known)),
            _places=(-1, *columns.values()),
            _zeros=tuple(c.function in _EMPTY_IS_ZERO for c in known),
        )

    @property
    def marked(self) -> bool:
        return True

    @property
    def doubtful(self) -> bool:
        return False

    def key(self, data: bytes) -> tuple[tuple[Any, ...], tuple[int, ...]] | None:
        """See `TableRows`."""
        if not data.startswith(_ROW):
            return None
        window = _WINDOWS[len(self.bounds)]
        start = len(_ROW) + (_LENGTH_BYTES if len(self.bounds) > 1 else 0)
        end = len(data) - window.size
        return self._parse(data[start:end]), window.unpack(data[end:])

    def row(self, key: bytes, value: bytes, timestamp_ms: int) -> dict[str, Any]:
        """See `TableRows`."""
        _, nulls, time_ms = HEAD.unpack_from(value)
        stored = self._layout.unpack_from(value, HEAD.size)
        values = [
            (0 if self._zeros[at] else None) if nulls >> at & 1 else number
            for at, number in enumerate(stored)
        ]
        told = (time_ms if at < 0 else values[at] for at in self._places)
        return dict(zip(self.columns, told, strict=True))


def _known(step: AggregateStep) -> list[AggregateCall]:
    """The aggregates up to the first one whose place in a row is unknown here."""
    known: list[AggregateCall] = []
    for call in step.aggregates:
        wider = call.function == "SUM" and call.type.base is Base.INTEGER  # stored as a BIGINT
        simple = call.function in ("COUNT", "SUM", "MIN", "MAX") and call.type.base in _FIXED
        if wider or not simple:
            break
        known.append(call)
    return known
