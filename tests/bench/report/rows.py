"""Rows of a sink as whole numbers, made from the input by plain arithmetic, and compared.

A row of totals is the number in its key, its window's start and end, N and the sum or sums;
a window that has none, or whose end no peer writes, is 0.  A row of the join is the order's
number, its customer, its amount and what was paid.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import orjson

from tests.bench.encoded import sale_of
from tests.bench.orders import Orders
from tests.bench.workloads import GAP_MS, WINDOW_MS, Query

__all__ = [
    "PAIRS",
    "TOTALS",
    "Rows",
    "columns",
    "difference",
    "pair_row",
    "sale",
    "total_row",
    "wanted_pairs",
    "wanted_totals",
]

Rows = npt.NDArray[np.int64]
"""One row per line."""

TOTALS = ("key", "window start", "window end", "N", "TOTAL")
COMPUTED = (*TOTALS, "POINTS", "LETTERS")
PAIRS = ("order", "customer", "amount", "paid")

_START, _SESSION = struct.Struct(">q"), struct.Struct(">qq")
_SHOWN = 3
_VALUES = TOTALS.index("N")  # from here on columns are in the value

# The text and the number of digits in a key: c00000012, Movie 00012, MOVIE 0001.
_NAMES = {
    Query.TITLE: (b"Movie ", 5),
    Query.COMPUTED: (b"Movie ", 5),
    Query.DISTINCT: (b"Movie ", 5),
    Query.EXPRESSION: (b"MOVIE ", 4),
}
_CUSTOMER = (b"c", 8)


def sale(value: bytes | None, time_ms: int) -> tuple[int, int, int, int]:
    """Customer, title, amount and event time of an input record."""
    if value is not None and value.startswith(b"\0"):
        customer, amount, title = sale_of(value)
        return int(customer[1:]), int(title[-5:]), amount, time_ms
    fields = orjson.loads(value or b"")
    amount = _whole(fields["amount"])
    return int(fields["customer"][1:]), int(fields["title"][-5:]), amount, time_ms


def columns(query: Query) -> tuple[str, ...]:
    """The names of the numbers in a row of a query's table."""
    return COMPUTED if query is Query.COMPUTED else TOTALS


def total_row(query: Query, key: bytes | None, value: bytes) -> tuple[int, ...]:
    """A row of totals as the peers write them, with the `columns` of the query.

    Raises:
        ValueError: it is none.
    """
    number, window = _named(query, key)
    fields = orjson.loads(value)
    names = columns(query)[_VALUES:]
    if not isinstance(fields, dict) or not set(names) <= fields.keys():
        raise ValueError(f"the value {value!r} of key {key!r} has no {' and '.join(names)}")
    return number, *_bounds(window), *(_whole(fields[name]) for name in names)


def pair_row(key: bytes | None, value: bytes | None) -> tuple[int, int, int, int]:
    """A row of the join as the peers write it.

    Raises:
        ValueError: it is none.
    """
    fields = orjson.loads(value or b"")
    if not isinstance(fields, dict) or not {"CUSTOMER", "AMOUNT", "PAID"} <= fields.keys():
        raise ValueError(f"the value {value!r} of key {key!r} is no order with its payment")
    amounts = _whole(fields["AMOUNT"]), _whole(fields["PAID"])
    return int((key or b"")[1:]), int(fields["CUSTOMER"][1:]), *amounts


def wanted_totals(query: Query, sales: Rows) -> Rows:
    """The table's expected rows after these sales (customer, title, amount, event time)."""
    customer, title, amount, time = sales.T
    none = np.zeros_like(time)
    if query is Query.DISTINCT:
        return _distinct(title, customer)
    if query is Query.WINDOW:
        return _summed(customer, time - time % WINDOW_MS, none, amount)
    if query is Query.SESSION:
        return _sessions(customer, time, amount)
    if query is Query.COMPUTED:
        return _computed(customer, title, amount)
    keys = {Query.TITLE: title, Query.EXPRESSION: title // 10}  # all but the last digit
    return _summed(keys.get(query, customer), none, none, amount)


def wanted_pairs(orders: Orders) -> Rows:
    """Every order that is paid in time, once."""
    paid = orders.paid_in_time
    amounts = orders.amounts[paid]
    numbers = np.flatnonzero(paid)
    return np.column_stack([numbers, orders.customers[paid], amounts, amounts]).astype(np.int64)


def difference(found: Rows, wanted: Rows, columns: Sequence[str]) -> str:
    """Why the rows found are not those wanted, each as often as wanted; empty when they are."""
    rows = np.vstack([found, wanted])
    if not len(rows):
        return "it is empty, and so is what is wanted: nothing was compared"
    sign = np.repeat([1, -1], [len(found), len(wanted)])
    order = np.lexsort(rows.T[::-1])
    rows, sign = rows[order], sign[order]
    first = np.flatnonzero(_changes(rows))
    balance = np.add.reduceat(sign, first)
    extra, missing = rows[first[balance > 0]], rows[first[balance < 0]]
    parts = [
        f"{len(some):,} rows are {what}: {_shown(some, columns)}"
        for some, what in ((extra, "wrong"), (missing, "missing"))
        if len(some)
    ]
    if not parts:
        return ""
    return f"of its {len(found):,} rows, {len(wanted):,} wanted, {'; '.join(parts)}"


def _named(query: Query, key: bytes | None) -> tuple[int, bytes]:
    """The number in a key of the query's table, and what follows it."""
    key = key or b""
    prefix, digits = _NAMES.get(query, _CUSTOMER)
    end = len(prefix) + digits
    number = key[len(prefix) : end]
    if not key.startswith(prefix) or len(number) != digits or not number.isdigit():
        raise ValueError(f"the key {key!r} is none of the table by {query.value}")
    return int(number), key[end:]


def _bounds(window: bytes) -> tuple[int, int]:
    """A window's start and end, as Kafka's own serializers write it, or as `@start`."""
    if window.startswith(b"@"):
        return int(window[1:]), 0
    if len(window) == _SESSION.size:
        end, start = _SESSION.unpack(window)
        return start, end
    if len(window) not in {0, _START.size}:
        raise ValueError(f"a key ends with {window!r}, which is no window")
    return (_START.unpack(window)[0], 0) if window else (0, 0)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _sessions(customer: Rows, time: Rows, amount: Rows) -> Rows:
    """A session goes on as long as the next record comes within the gap."""
    order = np.lexsort((time, customer))
    customer, time, amount = customer[order], time[order], amount[order]
    begins = _changes(customer[:, None])
    begins[1:] |= np.diff(time) > GAP_MS
    number = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(time)) - 1
    return _summed(customer, time[firsts][number], time[lasts][number], amount)


def _distinct(title: Rows, customer: Rows) -> Rows:
    """A pair of title and customer adds 1 where it comes first."""
    order = np.lexsort((customer, title))
    added = np.zeros_like(title)
    added[order] = _changes(np.column_stack([title, customer])[order])
    none = np.zeros_like(title)
    return _summed(title, none, none, added)


def _computed(customer: Rows, title: Rows, amount: Rows) -> Rows:
    """Price with tax, points and letters by title; customers compare as their numbers do."""
    taxed = amount * 119 // 100
    chosen = (taxed >= 20) & (customer < 900_000)
    points = np.where(amount >= 50, 10, np.where(amount >= 20, 2, 0))
    digits = customer[:, None] // 10 ** np.arange(_CUSTOMER[1]) % 10
    letters = 1 + np.count_nonzero(digits, axis=1)  # the c, and the digits without zeros
    none = np.zeros_like(title[chosen])
    return _summed(title[chosen], none, none, taxed[chosen], points[chosen], letters[chosen])


def _summed(key: Rows, start: Rows, end: Rows, *values: Rows) -> Rows:
    """N and the sum of each of the values by key and window."""
    keys = np.column_stack([key, start, end])
    order = np.lexsort(keys.T[::-1])
    keys = keys[order]
    first = np.flatnonzero(_changes(keys))
    counts = np.diff(np.append(first, len(keys)))
    sums = [np.add.reduceat(each[order], first) for each in values]
    return np.column_stack([keys[first], counts, *sums])


def _changes(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which sorted rows are not like the one before them."""
    found = np.ones(len(rows), bool)
    found[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return found


def _shown(rows: Rows, columns: Sequence[str]) -> str:
    some = [
        " ".join(f"{name} {value}" for name, value in zip(columns, row, strict=True))
        for row in rows[:_SHOWN].tolist()
    ]
    return ", ".join(f"({row})" for row in some) + (", …" if len(rows) > _SHOWN else "")
