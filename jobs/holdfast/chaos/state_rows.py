"""What a changelog's rows say of a table's columns, read without the engine.

The layout is in `changelog_rows`; of the aggregates those are read that are one number of known
width (COUNT; SUM, MIN, MAX of numbers) and have no other before them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.chaos.changelog_rows import HEAD, Parse, key_parser
from holdfast.types.schema import Base
from holdfast.types.topology import AggregateCall, AggregateStep, Query

__all__ = ["ROWTIME", "StateRows"]

ROWTIME = "ROWTIME"
_WINDOW = struct.Struct(">q")
_FIXED = {Base.INTEGER: "i", Base.BIGINT: "q", Base.DOUBLE: "d"}
_EMPTY_IS_ZERO = frozenset({"COUNT", "SUM"})  # where no value was counted in yet


@dataclass(frozen=True)
class StateRows:
    """Reads state keys and rows of one table.

    Attributes:
        columns: the columns that it knows, each with the number of its aggregate; -1: ROWTIME.
        windowed: whether a key ends in its window's start.
    """

    columns: Mapping[str, int]
    windowed: bool
    _parse: Parse
    _layout: struct.Struct
    _zeros: tuple[bool, ...]

    @staticmethod
    def of(query: Query) -> StateRows | None:
        """None where keys of these types are not read here, or the query keeps no such rows."""
        step = query.step
        parse = key_parser(query.sink.key_columns)
        if not isinstance(step, AggregateStep) or parse is None:
            return None
        known = _known(step)
        numbers = {call.name: at for at, call in enumerate(known)}
        columns = {o.column.name: numbers[o.ref] for o in step.outputs if o.ref in numbers}
        return StateRows(
            columns={ROWTIME: -1, **columns},
            windowed=step.window is not None,
            _parse=parse,
            _layout=struct.Struct("<" + "".join(_FIXED[c.type.base] for c in known)),
            _zeros=tuple(c.function in _EMPTY_IS_ZERO for c in known),
        )

    def key(self, data: bytes) -> tuple[tuple[Any, ...], int | None]:
        """(key columns, start of the window in ms).

        Raises:
            ValueError, struct.error: these bytes are no such key.
        """
        if not self.windowed:
            return self._parse(data), None
        (start,) = _WINDOW.unpack(data[-_WINDOW.size :])
        return self._parse(data[: -_WINDOW.size]), start

    def row(self, data: bytes) -> dict[str, Any]:
        """The columns that are known, by name.

        Raises:
            struct.error: these bytes are no such row.
        """
        _, nulls, time_ms = HEAD.unpack_from(data)
        stored = self._layout.unpack_from(data, HEAD.size)
        values = [
            (0 if self._zeros[at] else None) if nulls >> at & 1 else value
            for at, value in enumerate(stored)
        ]
        return {name: time_ms if at < 0 else values[at] for name, at in self.columns.items()}


def _known(step: AggregateStep) -> list[AggregateCall]:
    """The aggregates up to the first one whose place in a row is not known here."""
    known: list[AggregateCall] = []
    for call in step.aggregates:
        wider = call.function == "SUM" and call.type.base is Base.INTEGER  # kept as a BIGINT
        simple = call.function in ("COUNT", "SUM", "MIN", "MAX") and call.type.base in _FIXED
        if wider or not simple:
            break
        known.append(call)
    return known
