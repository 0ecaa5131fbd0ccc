"""A shop's customers and orders, made up by Faker: the same for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from faker import Faker

__all__ = ["Customer", "Order", "Shop", "make_shop"]

_CUSTOMERS = 150
_MOVED = 20  # customers who are sent a second time, with another country
_ORDERS = 3_000
_GUESTS = 0.05  # share of orders whose customer is in no topic
_SENT_TWICE = 0.06
_OPENS = datetime(2026, 3, 2, 8, tzinfo=UTC)
_OPEN_S = 10 * 3_600
_LATE_S = 300  # how much later than it was made an order may arrive
_AGAIN_S = 900
_COUNTRIES = ("DE", "FR", "IT", "PL", "SE")
_UNDECODABLE = (
    b"no JSON at all",
    b'{"order_id": "cut off", "amo',
    b'{"order_id": "free", "customer_id": "c001", "amount": "nothing"}',
    b'{"order_id": "dear", "customer_id": "c001", "amount": 123456789012.34}',
    b'{"order_id": "never", "customer_id": "c001", "amount": 1, "ordered_at": "soon"}',
    b"\xff\xfe\x00 another program's bytes",
)


@dataclass(frozen=True)
class Customer:
    """A line of `customers.txt`."""

    id: str
    name: str
    country: str

    def line(self) -> bytes:
        """Key and value."""
        return _line(self.id, {"name": self.name, "country": self.country})


@dataclass(frozen=True)
class Order:
    """A line of `orders.txt`."""

    id: str
    customer: str
    product: str
    amount: Decimal
    at: datetime

    @property
    def ms(self) -> int:
        """Its event time."""
        return round(self.at.timestamp() * 1_000)

    def line(self) -> bytes:
        """Key and value."""
        value = {
            "order_id": self.id,
            "customer_id": self.customer,
            "product": self.product,
            "amount": float(self.amount),
            "ordered_at": self.at.replace(tzinfo=None).isoformat(timespec="milliseconds"),
        }
        return _line(self.id, value)


def _line(key: str, value: dict[str, object]) -> bytes:
    return f"{key}\t{json.dumps(value, ensure_ascii=False)}".encode()


@dataclass(frozen=True)
class Shop:
    """Everything that is sent, in this order.

    Attributes:
        undecodable: values of the topic `orders` that no statement can read.
    """

    customers: list[Customer]
    orders: list[Order]
    undecodable: tuple[bytes, ...] = _UNDECODABLE

    def write(self, folder: Path, chance: random.Random) -> None:
        """The files that `producer.py` reads; undecodable records are somewhere between orders."""
        lines = [order.line() for order in self.orders]
        for value in self.undecodable:
            lines.insert(chance.randrange(len(lines)), b"?\t" + value)
        (folder / "orders.txt").write_bytes(b"\n".join(lines))
        sent = (customer.line() for customer in self.customers)
        (folder / "customers.txt").write_bytes(b"\n".join(sent))


def make_shop(seed: int) -> Shop:
    """The shop of a seed."""
    fake = Faker(["en_GB", "de_DE", "pl_PL", "ja_JP"])
    Faker.seed(seed)
    chance = random.Random(seed)
    customers = list(_customers(fake, chance))
    moved = [
        Customer(c.id, c.name, chance.choice(_COUNTRIES)) for c in chance.sample(customers, _MOVED)
    ]
    products = [fake.unique["en_GB"].color_name() for _ in range(12)]
    orders = [_order(n, customers, products, chance) for n in range(_ORDERS)]
    return Shop([*customers, *moved], _as_sent(orders, chance))


def _customers(fake: Faker, chance: random.Random) -> Iterator[Customer]:
    for number in range(_CUSTOMERS):
        yield Customer(f"c{number:03}", fake.name(), chance.choice(_COUNTRIES))


def _order(
    number: int, customers: list[Customer], products: list[str], chance: random.Random
) -> Order:
    guest = chance.random() < _GUESTS
    return Order(
        id=f"o{number:05}",
        customer=f"guest{number:05}" if guest else chance.choice(customers).id,
        product=chance.choice(products),
        amount=Decimal(chance.randrange(100, 50_000)) / 100,
        at=_OPENS + timedelta(milliseconds=chance.randrange(_OPEN_S * 1_000)),
    )


def _as_sent(orders: list[Order], chance: random.Random) -> list[Order]:
    """Each at its time and a delay, some of them a second time."""
    sent = [(order.ms + chance.randrange(_LATE_S * 1_000), order) for order in orders]
    again = chance.sample(sent, round(len(sent) * _SENT_TWICE))
    sent += [(ms + chance.randrange(_AGAIN_S * 1_000), order) for ms, order in again]
    return [order for _, order in sorted(sent, key=lambda each: each[0])]
