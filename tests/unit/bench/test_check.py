"""A sink that is wrong anywhere is found, also where the sum of its counts is right."""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np
import orjson
import pytest

from tests.bench.input import _STEP, drawn, records
from tests.bench.measure.customers import last_totals, wanted_customers, wrong_columns
from tests.bench.orders import Orders
from tests.bench.report.rows import (
    PAIRS,
    TOTALS,
    Rows,
    columns,
    difference,
    pair_row,
    sale,
    total_row,
    wanted_pairs,
    wanted_totals,
)
from tests.bench.workloads import INPUTS, WINDOW_MS, Input, Query

SMALL = Input("small", keys=20, titles=7, every_ms=40_000)
WIDE = Input("wide", titles=35)  # of customers that a WHERE drops, too, and of several shelves
N, TOTAL = TOTALS.index("N"), TOTALS.index("TOTAL")


def sales(count: int = 400, spec: Input = SMALL) -> Rows:
    made = (record for chunk in records(spec, count, 1_000) for record in chunk)
    return np.array([sale(value, time) for _, value, time in made], np.int64)


def texts(spec: Input = WIDE) -> list[dict[str, Any]]:
    """The same records as their JSON says."""
    return [orjson.loads(value) for chunk in records(spec, 400, 1_000) for _, value, _ in chunk]


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


def test_computed_columns_are_those_that_the_texts_give() -> None:
    table: dict[str, list[int]] = {}
    for each in texts():
        price, customer = each["amount"], each["customer"]
        taxed = int(price * 119 / 100)
        if taxed >= 20 and customer.upper() < "C00900000":
            row = table.setdefault(each["title"], [0, 0, 0, 0])
            row[0] += 1
            row[1] += taxed
            row[2] += 10 if price >= 50 else 2 if price >= 20 else 0
            row[3] += len(customer.replace("0", ""))
    found = wanted_totals(Query.COMPUTED, sales(spec=WIDE)).tolist()
    assert {f"Movie {key:05d}": values for key, _, _, *values in found} == table
    dropped = {(e["amount"] * 119 // 100 >= 20, e["customer"] < "c00900000") for e in texts()}
    assert len(dropped) == 4  # each half of the condition drops records that the other keeps


def test_distinct_customers_are_those_of_a_set() -> None:
    table: dict[int, list[int]] = {}
    seen: dict[int, set[int]] = {}
    for customer, title, _, _ in sales().tolist():
        seen.setdefault(title, set()).add(customer)
        n, _ = table.get(title, (0, 0))
        table[title] = [n + 1, len(seen[title])]
    found = wanted_totals(Query.DISTINCT, sales()).tolist()
    assert {key: values for key, _, _, *values in found} == table


def test_an_expression_groups_what_its_text_is_equal_for() -> None:
    table: dict[str, list[int]] = {}
    for each in texts():
        row = table.setdefault(each["title"][:10].upper(), [0, 0])
        row[0] += 1
        row[1] += each["amount"]
    found = wanted_totals(Query.EXPRESSION, sales(spec=WIDE)).tolist()
    assert {f"MOVIE {key:04d}": values for key, _, _, *values in found} == table
    assert len(table) == 4


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
@pytest.mark.parametrize("query", sorted(set(Query) - {Query.JOIN}))
def test_a_table_with_the_right_total_and_a_wrong_row_is_found(
    query: Query, broken: Callable[[Rows], None]
) -> None:
    wanted = wanted_totals(query, sales(spec=WIDE if query is Query.EXPRESSION else SMALL))
    found = wanted.copy()
    broken(found)
    if broken is not summed_wrong:
        assert found[:, N].sum() == wanted[:, N].sum()
    assert "wrong" in difference(found, wanted, columns(query))
    assert difference(wanted[::-1], wanted, columns(query)) == ""


@pytest.mark.parametrize("column", ["POINTS", "LETTERS"])
def test_a_wrong_sum_of_any_computed_column_is_found(column: str) -> None:
    names = columns(Query.COMPUTED)
    wanted = wanted_totals(Query.COMPUTED, sales(spec=WIDE))
    found = wanted.copy()
    found[3, names.index(column)] += 1
    assert f"{column} {found[3, names.index(column)]}" in difference(found, wanted, names)


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
    assert total_row(Query.WINDOW, b"c00000012" + suffix, value) == (12, start, end, 2, 30)
    assert total_row(Query.TITLE, b"Movie 00012", value) == (12, 0, 0, 2, 30)
    assert total_row(Query.EXPRESSION, b"MOVIE 0012", value) == (12, 0, 0, 2, 30)


def test_a_row_has_all_columns_of_its_query() -> None:
    value = b'{"N":2,"TOTAL":30,"POINTS":12,"LETTERS":9}'
    assert total_row(Query.COMPUTED, b"Movie 00012", value) == (12, 0, 0, 2, 30, 12, 9)
    with pytest.raises(ValueError, match="no N and TOTAL and POINTS and LETTERS"):
        total_row(Query.COMPUTED, b"Movie 00012", b'{"N":2,"TOTAL":30}')


@pytest.mark.parametrize(
    ("query", "key"),
    [
        (Query.EXPRESSION, b"Movie 0012"),  # not in upper case
        (Query.EXPRESSION, b"MOVIE 00012"),  # not cut
        (Query.EXPRESSION, b"Movie 00012"),  # neither
        (Query.COMPUTED, b"MOVIE 00012"),
        (Query.TITLE, b"c00000012"),
        (Query.CUSTOMER, b"Movie 00012"),
    ],
)
def test_a_key_of_another_table_is_refused(query: Query, key: bytes) -> None:
    value = b'{"N":2,"TOTAL":30,"POINTS":12,"LETTERS":9}'
    with pytest.raises(ValueError, match="key"):
        total_row(query, key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, {"N": 1, "TOTAL": 1}),
        (b"c0000001x", {"N": 1, "TOTAL": 1}),
        (b"x00000012", {"N": 1, "TOTAL": 1}),
        (b"c000000123", {"N": 1, "TOTAL": 1}),
        (b"c00000012", {"N": 1}),
        (b"c00000012", {"N": 1.5, "TOTAL": 1}),
        (b"c00000012", {"N": None, "TOTAL": 1}),
    ],
)
def test_what_is_no_row_is_refused(key: bytes | None, value: object) -> None:
    with pytest.raises(ValueError, match=r"key|whole"):
        total_row(Query.CUSTOMER, key, orjson.dumps(value))


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


def test_each_customer_comes_once_before_any_comes_again() -> None:
    spec = Input("each", keys=1_000, each_first=True)
    customers = np.concatenate([each for each, _, _ in drawn(spec, 1_500)])
    assert sorted(customers[:1_000].tolist()) == list(range(1_000))
    assert len(set(customers[1_000:].tolist())) < 500
    for given in INPUTS.values():
        assert not given.each_first or gcd(_STEP, given.keys) == 1, given


def test_a_table_of_many_customers_is_compared_row_by_row() -> None:
    spec = Input("each", keys=1_000, each_first=True)
    wanted = wanted_customers(spec, 1_500)
    results: list[tuple[bytes, bytes | None]] = []
    for customer, (n, total) in enumerate(wanted.T.tolist()):
        results += [
            (b"c%08d" % customer, b'{"N":1,"TOTAL":1}'),
            (b"c%08d" % customer, b'{"N":%d,"TOTAL":%d}' % (n, total)),
        ]
    assert not wrong_columns(last_totals(results, 1_000), wanted)
    gone = last_totals([*results, (b"c00000007", None)], 1_000)
    assert "1 are wrong (N and sum): (7: [0, 0] for" in wrong_columns(gone, wanted)
    more = last_totals([*results, (b"c00000008", b'{"N":99,"TOTAL":1}')], 1_000)
    assert "(8: [99, 1] for" in wrong_columns(more, wanted)
    for key, value in (
        (b"c00001000", b'{"N":1,"TOTAL":1}'),
        (b"c00000001", b'{"N":1,"TOTAL":%d}' % 2**40),
    ):
        with pytest.raises(ValueError, match="is no row of 1,000 customers"):
            last_totals([(key, value)], 1_000)
