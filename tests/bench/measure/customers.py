"""Is a table by customer right?  For tables that are too large to be sorted.

The input is drawn again from its seed; the sink is read.  Of both, N and the sum are columns with
a place for each customer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import numpy.typing as npt

from tests.bench.input import drawn
from tests.bench.measure.check import messages
from tests.bench.report.rows import total_row
from tests.bench.workloads import PARTITIONS, Input, Query

__all__ = ["last_totals", "wanted_customers", "wrong_columns", "wrong_customers"]

Table = npt.NDArray[np.int32]
"""N and the sum, a column for each customer; N is 0 where there is no row."""

_SHOWN = 3
_NONE = b'{"N":0,"TOTAL":0}'


def wrong_customers(client: Mapping[str, str], sink: str, spec: Input, records: int) -> str:
    """Why the table in topic `sink` is not that of so many records; empty when it is."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        read = partial(_of_partition, dict(client), sink, spec.keys)
        found = np.zeros((2, spec.keys), np.int32)
        for customers, rows in pool.map(read, range(PARTITIONS)):
            if found[0, customers].any():
                return "a customer is in several of its topic partitions"
            found[:, customers] = rows
    return wrong_columns(found, wanted_customers(spec, records))


def wrong_columns(found: Table, wanted: Table) -> str:
    """Which customers are wrong, and how many; empty when none is."""
    wrong = np.flatnonzero((found != wanted).any(axis=0))
    if not len(wrong):
        return ""
    shown = ", ".join(
        f"({c}: {found[:, c].tolist()} for {wanted[:, c].tolist()})"
        for c in wrong[:_SHOWN].tolist()
    )
    return f"of {found.shape[1]:,} customers {len(wrong):,} are wrong (N and sum): {shown}"


def wanted_customers(spec: Input, records: int) -> Table:
    """N and the sum of each customer after so many records of an input."""
    wanted = np.zeros((2, spec.keys), np.int32)
    for customers, amounts, _ in drawn(spec, records):
        np.add.at(wanted[0], customers, 1)
        np.add.at(wanted[1], customers, amounts)
    return wanted


def last_totals(found: Iterable[tuple[bytes | None, bytes | None]], keys: int) -> Table:
    """The last result of each customer; a tombstone ends it.

    Raises:
        ValueError: a record is no row of such a table.
    """
    table = np.zeros((2, keys), np.int32)
    for key, value in found:
        customer, _, _, n, total = total_row(Query.CUSTOMER, key, value or _NONE)
        try:
            table[:, customer] = n, total
        except (IndexError, OverflowError) as error:
            raise ValueError(f"{value!r} of key {key!r} is no row of {keys:,} customers") from error
    return table


def _of_partition(
    client: dict[str, str], topic: str, keys: int, partition: int
) -> tuple[npt.NDArray[np.int64], Table]:
    found = ((m.key(), m.value()) for m in messages(client, topic, partition))
    table = last_totals(found, keys)
    customers = np.flatnonzero(table[0])
    return customers, table[:, customers]
