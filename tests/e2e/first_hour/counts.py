"""The rows that the six statements of `orders.sql` must have, counted in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from statistics import median
from typing import Any

from tests.e2e.first_hour.shop import Order, Shop

__all__ = ["Counted", "counted"]

_SESSION_MS = 30 * 60_000
_RUSH_MS = 10 * 60_000
_RUSH = 12
_TOP = 3

Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Counted:
    """One statement's result: its columns, and how often each row is there."""

    name: str
    columns: tuple[str, ...]
    rows: Rows
    stream: bool = False


def counted(shop: Shop) -> tuple[Counted, ...]:
    """All of them, in the order of the file."""
    orders = list({order.id: order for order in shop.orders}.values())
    return (
        Counted(
            "UNIQUE_ORDERS",
            ("ORDER_ID", "CUSTOMER_ID", "PRODUCT", "AMOUNT"),
            Counter((o.id, o.customer, o.product, o.amount) for o in orders),
            stream=True,
        ),
        Counted(
            "CUSTOMERS_ORDERS",
            ("ORDER_ID", "CUSTOMER_ID", "NAME", "INITIALS", "COUNTRY"),
            Counter(_with_customers(shop, orders)),
            stream=True,
        ),
        Counted(
            "VISITS",
            ("CUSTOMER_ID", "WINDOWSTART", "WINDOWEND", "ORDERS", "SPENT"),
            Counter(_visits(orders)),
        ),
        Counted("LARGEST_ORDERS", ("PRODUCT", "LARGEST"), Counter(_largest(orders))),
        Counted(
            "RUSHES",
            ("COUNTRY", "WINDOWSTART", "WINDOWEND", "ORDERS"),
            Counter(_rushes(shop, orders)),
        ),
        Counted("TYPICAL_AMOUNTS", ("PRODUCT", "TYPICAL"), Counter(_typical(orders))),
    )


def _with_customers(shop: Shop, orders: list[Order]) -> Iterator[tuple[Any, ...]]:
    known = {customer.id: customer for customer in shop.customers}  # the last one counts
    for order in orders:
        found = known.get(order.customer)
        if found:
            letters = "".join(word[0] for word in found.name.split())
            yield order.id, order.customer, found.name, letters, found.country
        else:
            yield order.id, order.customer, None, None, "unknown"


def _visits(orders: list[Order]) -> Iterator[tuple[Any, ...]]:
    by_customer = defaultdict(list)
    for order in orders:
        by_customer[order.customer].append(order)
    for customer, made in by_customer.items():
        made.sort(key=lambda order: order.ms)
        ends = [n for n, (a, b) in enumerate(pairwise(made), 1) if b.ms - a.ms > _SESSION_MS]
        for start, end in pairwise([0, *ends, len(made)]):
            visit = made[start:end]
            spent = sum(order.amount for order in visit)
            yield customer, visit[0].ms, visit[-1].ms, len(visit), spent


def _by_product(orders: list[Order]) -> dict[str, list[Order]]:
    found = defaultdict(list)
    for order in orders:
        found[order.product].append(order)
    return found


def _largest(orders: list[Order]) -> Iterator[tuple[Any, ...]]:
    for product, made in _by_product(orders).items():
        yield product, tuple(sorted((order.amount for order in made), reverse=True)[:_TOP])


def _typical(orders: list[Order]) -> Iterator[tuple[Any, ...]]:
    for product, made in _by_product(orders).items():
        middle = median(float(order.amount) for order in made)
        yield product, Decimal(repr(middle))


def _rushes(shop: Shop, orders: list[Order]) -> Iterator[tuple[Any, ...]]:
    times = {order.id: order.ms // _RUSH_MS * _RUSH_MS for order in orders}
    rows = _with_customers(shop, orders)
    windows = Counter((country, times[order]) for order, *_, country in rows)
    for (country, start), orders_then in windows.items():
        if orders_then >= _RUSH:
            yield country, start, start + _RUSH_MS, orders_then
