"""How the rows of a query are found: by key, by key range, or by a table scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from holdfast.config.settings import ServeSettings
from holdfast.errors import QueryTooLarge, Refused
from holdfast.serve.contract import EVERY_WINDOW, WINDOWEND, WINDOWSTART, ServedTable, WindowBounds
from holdfast.serve.query.options import TABLE_SCAN, Options
from holdfast.sql.parse.script import Script
from holdfast.sql.read.asked import Box, Domain, Read
from holdfast.types.columns.schema import Base

__all__ = [
    "EVERYTHING",
    "Access",
    "Lookup",
    "Range",
    "Ranges",
    "Within",
    "access_of",
    "stored_within",
]

Range = tuple[bytes, bytes | None]
_ANY = Domain()
_NEEDS_SCAN = "Query requires table scan to be enabled."
_WIDER = f"leave {TABLE_SCAN}=false out: Holdfast finds these rows without a scan."


@dataclass(frozen=True)
class Lookup:
    """Stored keys, grouped by their requested windows.

    `exact`: every row found passes the WHERE clause.
    """

    keys: tuple[tuple[WindowBounds, tuple[bytes, ...]], ...]
    exact: bool


@dataclass(frozen=True)
class Ranges:
    """Stored ranges (start, end exclusive) to scan in every partition, without overlap."""

    ranges: tuple[Range, ...]


Access = Lookup | Ranges
EVERYTHING = Ranges(((b"", None),))


def access_of(
    script: Script, read: Read, table: ServedTable, options: Options, limits: ServeSettings
) -> Access:
    """The narrowest access that finds every row that can pass the WHERE clause.

    Raises:
        InvalidStatement: it needs a table scan, and the caller has not enabled those.
        QueryTooLarge: the statement names more keys than it may look up.
        Refused: a key is outside of its type's range.
    """
    boxes = read.bounds.boxes
    keyed = [_values(b, table) for b in boxes]
    narrow = not options.wide_ranges
    if all(v is not None for v in keyed):
        _refuse(script, read.keyed.wrong_key, "name keys of the column's type.")
        if narrow:
            _refuse(script, read.keyed.obstacle, _WIDER)
        keys = _lookup(boxes, [v for v in keyed if v is not None], table, limits)
        return Lookup(keys, read.bounds.exact and not any(map(_several_windows, boxes)))
    ranges = _ranges(boxes, table)
    if ranges is not None and options.range_scan:
        if narrow:
            _refuse(script, read.keyed.obstacle or _needs_scan(boxes, table), _WIDER)
        return Ranges(ranges)
    if not options.table_scan:
        raise _scan_refused(script, read, table)
    return EVERYTHING


def _refuse(script: Script, fact: str, action: str) -> None:
    if fact:
        raise script.invalid(0, fact, action=action)


def _needs_scan(boxes: Sequence[Box], table: ServedTable) -> str:
    """Why ksqlDB needs a table scan here: it scans ranges of single STRING keys only."""
    text = table.key_columns[0].type.base is Base.STRING
    return "" if text and table.window is None and len(boxes) == 1 else _NEEDS_SCAN


@dataclass(frozen=True)
class Within:
    """Stored ranges as in `Ranges`; `exact`: every row in them passes the WHERE clause."""

    ranges: tuple[Range, ...]
    exact: bool


def stored_within(read: Read, table: ServedTable, limits: ServeSettings) -> Within | None:
    """The ranges of all rows that can pass the WHERE clause; None: any row can."""
    boxes, found, exact = read.bounds.boxes, list[Range](), read.bounds.exact
    if len(boxes) > limits.keys_max:
        return None
    for box in boxes:
        try:
            named = _of_keys(box, table, limits)
            part = _ranges([box], table) if named is None else named
        except Refused:  # a key is outside of its type's range
            return None
        if part is None:
            return None
        exact = exact and named is not None
        found += part
    return Within(tuple(_merged(found)), exact)


def _of_keys(box: Box, table: ServedTable, limits: ServeSettings) -> list[Range] | None:
    """A range for each key that a box names; None if it names none, or keys have windows."""
    values = _values(box, table)
    if values is None or table.window is not None or prod(map(len, values)) > limits.keys_max:
        return None
    return [(key, key + b"\0") for key in _stored(table, values)]


def _values(box: Box, table: ServedTable) -> list[list[Any]] | None:
    """The values of each key column; None if a column is unrestricted."""
    domains = [box.domains.get(c.name, _ANY) for c in table.key_columns]
    if any(d.points is None for d in domains):
        return None
    return [[p.value for p in (d.points or {}).values()] for d in domains]


def _lookup(
    boxes: Sequence[Box],
    keyed: Sequence[list[list[Any]]],
    table: ServedTable,
    limits: ServeSettings,
) -> tuple[tuple[WindowBounds, tuple[bytes, ...]], ...]:
    count = sum(prod(len(v) for v in values) for values in keyed)
    if count > limits.keys_max:
        raise QueryTooLarge(
            f"the statement names {count} keys, {limits.keys_max} are allowed",
            action="ask for fewer at a time, or set serve.query.max.keys",
        )
    found: dict[WindowBounds, dict[bytes, None]] = {}
    for box, values in zip(boxes, keyed, strict=True):
        keys = found.setdefault(_windows(box), {})
        keys.update(dict.fromkeys(_stored(table, values)))
    return tuple((within, tuple(keys)) for within, keys in found.items())


def _stored(table: ServedTable, values: list[list[Any]]) -> list[bytes]:
    return [table.key_of(each) for each in product(*values)]


def _several_windows(box: Box) -> bool:
    """Whether several single windows are named, so that others between them are not requested."""
    domains = [box.domains.get(name) for name in (WINDOWSTART, WINDOWEND)]
    return any(d is not None and d.points is not None and len(d.points) > 1 for d in domains)


def _windows(box: Box) -> WindowBounds:
    start, end = box.domains.get(WINDOWSTART), box.domains.get(WINDOWEND)
    if start is None and end is None:
        return EVERY_WINDOW
    return WindowBounds(*_span(start or _ANY), *_span(end or _ANY))


def _span(domain: Domain) -> tuple[int | None, int | None]:
    """The lowest and the highest value; the condition filters the points between them."""
    if domain.points is None:
        return domain.low, domain.high
    values = [p.value for p in domain.points.values()]
    return min(values), max(values)


def _ranges(boxes: Sequence[Box], table: ServedTable) -> tuple[Range, ...] | None:
    """Ranges of a single key column; None if keys are unbounded, or not stored in order."""
    if len(table.key_columns) != 1:
        return None
    name = table.key_columns[0].name
    found: list[Range] = []
    for box in boxes:
        domain = box.domains.get(name, _ANY)
        low, high = _ends(domain)
        stored = None if low is None and high is None else table.key_ranges(low, high)
        if stored is None:
            return None
        found += stored
    return tuple(_merged(found))


def _ends(domain: Domain) -> tuple[Any, Any]:
    if domain.points is None:
        return domain.low, domain.high
    values = [p.value for p in domain.points.values()]
    return min(values), max(values)


def _merged(ranges: list[Range]) -> list[Range]:
    """The same ranges in order, without overlap."""
    merged: list[Range] = []
    for start, end in sorted(ranges, key=lambda r: r[0]):
        if merged and (merged[-1][1] is None or start <= merged[-1][1]):
            before, last = merged[-1]
            merged[-1] = before, None if last is None or end is None else max(last, end)
        else:
            merged.append((start, end))
    return merged


def _scan_refused(script: Script, read: Read, table: ServedTable) -> Refused:
    missing = "" if read.condition else "Missing WHERE clause."
    lines = [
        missing or read.keyed.obstacle or _NEEDS_SCAN,
        "Add EMIT CHANGES if you intended to issue a push query.",
        "Pull queries require a WHERE clause that:",
        " - includes a key equality expression, e.g. `SELECT * FROM X WHERE <key-column> = Y;`.",
        " - names every column of a multi-column key in such an expression, joined by AND.",
    ]
    if table.window is not None:
        lines.append(" - (optionally) bounds WINDOWSTART and WINDOWEND.")
    return script.invalid(
        0,
        "\n".join(lines),
        action="If more flexible queries are needed, table scans can be enabled by setting "
        f"{TABLE_SCAN}=true.",
    )
