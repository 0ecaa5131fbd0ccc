"""A sink that is wrong anywhere is found, also where the sum of its counts is right."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import orjson
import pytest

from tests.bench.input import records
from tests.bench.orders import Orders
from tests.bench.report.rows import (
    PAIRS,
    TOTALS,
    Rows,
    difference,
    pair_row,
    sale,
    total_row,
    wanted_pairs,
    wanted_totals,
)
from tests.bench.workloads import INPUTS, WINDOW_MS, Input, Query

SMALL = Input("small", keys=20, titles=7, every_ms=40_000)
N, TOTAL = TOTALS.index("N"), TOTALS.index("TOTAL")


def sales(count: int = 400) -> Rows:
    made = (record for chunk in records(SMALL, count, 1_000) for record in chunk)
    return np.array([sale(value, time) for _, value, time in made], np.int64)


def by_hand(query: Query) -> dict[tuple[int, int], list[int]]:
    """The table by (key, window start), one record after the other."""
    table: dict[tuple[int, int], list[int]] = {}
    for customer, title, amount, time in sales().tolist():
        start = time // WINDOW_MS * WINDOW_MS if query is Query.WINDOW else 0
        row = table.setdefault((title if query is Query.TITLE else customer, start), [0, 0])
        row[0] += 1
        row[1] += amount
    return table


@pytest.mark.parametrize("query", [Query.CUSTOMER, Query.TITLE, Query.WINDOW])
def test_totals_are_those_that_are_counted_by_hand(query: Query) -> None:
    found = wanted_totals(query, sales())
    assert {(key, start): [n, total] for key, start, _, n, total in found.tolist()} == by_hand(
        query
    )


def test_a_session_goes_on_as_long_as_the_gap_is_not_longer() -> None:
    each = [(1, 0), (1, 300_000), (1, 600_001), (2, 600_001)]
    visits = np.array([(customer, 0, 5, time) for customer, time in each], np.int64)
    assert wanted_totals(Query.SESSION, visits).tolist() == [
        [1, 0, 300_000, 2, 10],
        [1, 600_001, 600_001, 1, 5],
        [2, 600_001, 600_001, 1, 5],
    ]


def swapped(rows: Rows) -> None:
    """Two keys have each other's counts and sums."""
    other = next(i for i in range(len(rows)) if (rows[i, N:] != rows[0, N:]).any())
    rows[[0, other], N:] = rows[[other, 0], N:]


def moved(rows: Rows) -> None:
    """A record is counted for another key; the total of N is right."""
    rows[0, N] += 1
    rows[1, N] -= 1


def summed_wrong(rows: Rows) -> None:
    rows[3, TOTAL] += 1


def sums_swapped(rows: Rows) -> None:
    other = next(i for i in range(len(rows)) if rows[i, TOTAL] != rows[0, TOTAL])
    rows[[0, other], TOTAL] = rows[[other, 0], TOTAL]


def renamed(rows: Rows) -> None:
    rows[0, 0] += 1_000


def shifted(rows: Rows) -> None:
    """A window starts elsewhere."""
    rows[0, 1] += 1


@pytest.mark.parametrize("broken", [swapped, moved, summed_wrong, sums_swapped, renamed, shifted])
@pytest.mark.parametrize("query", [Query.CUSTOMER, Query.TITLE, Query.WINDOW, Query.SESSION])
def test_a_table_with_the_right_total_and_a_wrong_row_is_found(
    query: Query, broken: Callable[[Rows], None]
) -> None:
    wanted = wanted_totals(query, sales())
    found = wanted.copy()
    broken(found)
    if broken is not summed_wrong:
        assert found[:, N].sum() == wanted[:, N].sum()
    assert "wrong" in difference(found, wanted, TOTALS)
    assert difference(wanted[::-1], wanted, TOTALS) == ""


def test_a_key_that_is_dropped_and_one_that_is_there_twice_are_found() -> None:
    wanted = wanted_totals(Query.CUSTOMER, sales())
    same = int(wanted[0, N])
    other = next(i for i in range(1, len(wanted)) if wanted[i, N] == same)
    found = np.vstack([np.delete(wanted, other, axis=0), wanted[:1]])
    assert found[:, N].sum() == wanted[:, N].sum()
    told = difference(found, wanted, TOTALS)
    assert "1 rows are wrong" in told
    assert "1 rows are missing" in told
    assert f"key {wanted[other, 0]} " in told


def test_an_empty_sink_of_an_empty_input_proves_nothing() -> None:
    none = np.empty((0, len(TOTALS)), np.int64)
    assert "nothing was compared" in difference(none, none, TOTALS)
    assert "missing" in difference(none, wanted_totals(Query.CUSTOMER, sales()), TOTALS)


@pytest.mark.parametrize(
    ("suffix", "start", "end"),
    [
        (b"", 0, 0),
        (b"@300000", 300_000, 0),
        (struct.pack(">q", 300_000), 300_000, 0),
        (struct.pack(">qq", 310_000, 300_000), 300_000, 310_000),
    ],
)
def test_every_peer_s_keys_are_read(suffix: bytes, start: int, end: int) -> None:
    value = b'{"N":2,"TOTAL":30}'
    assert total_row(b"c00000012" + suffix, value) == (12, start, end, 2, 30)
    assert total_row(b"Movie 00012", value) == (12, 0, 0, 2, 30)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, {"N": 1, "TOTAL": 1}),
        (b"c0000001x", {"N": 1, "TOTAL": 1}),
        (b"x00000012", {"N": 1, "TOTAL": 1}),
        (b"c00000012", {"N": 1}),
        (b"c00000012", {"N": 1.5, "TOTAL": 1}),
        (b"c00000012", {"N": None, "TOTAL": 1}),
    ],
)
def test_what_is_no_row_is_refused(key: bytes | None, value: object) -> None:
    with pytest.raises(ValueError, match=r"key|whole"):
        total_row(key, orjson.dumps(value))


def test_every_pair_is_compared() -> None:
    orders = Orders.made(INPUTS["orders"], 500, 3)
    wanted = wanted_pairs(orders)
    assert 400 < len(wanted) < 500
    made = {n: amount for n, _, amount, _ in wanted.tolist()}
    found = np.array(
        [
            pair_row(
                b"o%09d" % number,
                orjson.dumps({"CUSTOMER": f"c{customer:08d}", "AMOUNT": amount, "PAID": paid}),
            )
            for number, customer, amount, paid in wanted.tolist()
        ],
        np.int64,
    )
    assert difference(found, wanted, PAIRS) == ""
    late = next(n for n in range(500) if n not in made)
    found[0] = (late, orders.customers[late], orders.amounts[late], orders.amounts[late])
    assert f"order {late} " in difference(found, wanted, PAIRS)
