"""The input of the join: orders and their payments, each a topic in event-time order.

Of 100 orders about 90 are paid within 9 minutes, 5 too late for the join, and 5 by a payment that
names no order.  A payment pays what its order costs, so a wrong pair is seen in its amounts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.bench.workloads import Input

__all__ = ["LAST_MS", "Orders"]

LAST_MS = 1_200_000  # no payment comes later after the last order
_IN_TIME_MS = 540_000
_LATE_MS = 660_000
_LATE, _LOST = 0.05, 0.1
_UNKNOWN = 500_000_000  # numbers of orders that nobody has made
_CHUNK = 50_000

Record = tuple[bytes, bytes, int]


@dataclass(frozen=True)
class Orders:
    """`count` orders and as many payments; the same for the same arguments.

    Attributes:
        customers, amounts: by order.
        delays: from order to payment, ms.
        named: the order that each payment names.
    """

    spec: Input
    count: int
    customers: npt.NDArray[np.int64]
    amounts: npt.NDArray[np.int64]
    delays: npt.NDArray[np.int64]
    named: npt.NDArray[np.int64]

    @staticmethod
    def made(spec: Input, count: int, seed: int) -> Orders:
        """The orders of `spec.keys` customers, one every `spec.every_ms`."""
        generator = np.random.default_rng(seed)
        numbers, fates = np.arange(count), generator.random(count)
        late, lost = fates < _LATE, (fates >= _LATE) & (fates < _LOST)
        return Orders(
            spec,
            count,
            generator.integers(0, spec.keys, count),
            generator.integers(1, 1_000, count),
            generator.integers(0, _IN_TIME_MS, count) + np.where(late, _LATE_MS, 0),
            np.where(lost, numbers + _UNKNOWN, numbers),
        )

    @property
    def paid_in_time(self) -> npt.NDArray[np.bool_]:
        """Which orders find their payment within 10 minutes."""
        known = self.named == np.arange(self.count)
        in_time: npt.NDArray[np.bool_] = known & (self.delays <= _IN_TIME_MS)
        return in_time

    def orders(self, first_ms: int) -> Iterator[list[Record]]:
        """Chunks of key (the order), value (JSON) and event time in ms."""
        for at in range(0, self.count, _CHUNK):
            own = slice(at, at + _CHUNK)
            numbers = range(at, min(at + _CHUNK, self.count))
            facts = zip(
                numbers, self.customers[own].tolist(), self.amounts[own].tolist(), strict=True
            )
            yield [
                (
                    b"o%09d" % number,
                    b'{"customer":"c%08d","amount":%d}' % (customer, amount),
                    first_ms + number * self.spec.every_ms,
                )
                for number, customer, amount in facts
            ]

    def payments(self, first_ms: int) -> Iterator[list[Record]]:
        """The same of the payments, their keys the orders they name."""
        times = first_ms + np.arange(self.count) * self.spec.every_ms + self.delays
        order = np.argsort(times, kind="stable")
        for at in range(0, self.count, _CHUNK):
            own = order[at : at + _CHUNK]
            facts = (self.named[own].tolist(), self.amounts[own].tolist(), times[own].tolist())
            yield [
                (b"o%09d" % named, b'{"paid":%d,"method":"card"}' % amount, time)
                for named, amount, time in zip(*facts, strict=True)
            ]
