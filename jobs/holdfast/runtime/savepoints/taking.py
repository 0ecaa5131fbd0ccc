"""Makes the savepoints that are ordered on the control topic, beside the batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from holdfast.errors import InvalidConfig, Refused
from holdfast.runtime.carrying_out import CarriesOut, InHand
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.savepoints.attempt import Again, Attempt
from holdfast.state.snapshots.savepoints import SavepointPlace
from holdfast.state.topics.orders import Answer, OrderBook, SavepointOrder

__all__ = ["SavepointMaker"]

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 3
_AGAIN_S = 1.0


class SavepointMaker(CarriesOut[SavepointOrder]):
    """Makes savepoints, one after the other.

    Args:
        text: the statements of the job.
    """

    def __init__(self, services: Services, book: OrderBook, text: str) -> None:
        super().__init__("savepoint")
        self._services = services
        self._book = book
        self._text = text
        self._looked = False
        # When each order was heard of, by token, in monotonic s; None: it was there at the start.
        self._heard: dict[str, float | None] = {}

    def look(self, runs: Sequence[QueryRun]) -> None:
        heard = time.monotonic() if self._looked else None
        for order in self._book.savepoint_orders.values():
            self._heard.setdefault(order.token, heard)
        self._looked = True
        super().look(runs)

    def _until(self, order: SavepointOrder) -> float:
        """When nobody waits for it any more, in monotonic s.

        Only for an order from before this driver's start does it depend on two machines' clocks.
        """
        heard = self._heard.get(order.token)
        if heard is not None and order.wait_ms:
            return heard + order.wait_ms / 1000
        return time.monotonic() + order.until_ms / 1000 - time.time()

    def _orders(self, runs: Sequence[QueryRun]) -> Mapping[str, SavepointOrder]:
        return self._book.savepoint_orders

    def _answers(self) -> Mapping[str, Answer]:
        return self._book.savepoints_told

    def _tell(self, name: str, answer: Answer) -> None:
        self._book.tell_savepoint(name, answer)

    def _carry_out(self, in_hand: InHand[SavepointOrder], runs: Sequence[QueryRun]) -> None:
        self.make(in_hand, runs)

    def make(self, making: InHand[SavepointOrder], runs: Sequence[QueryRun]) -> None:
        """Makes a savepoint, unless it is there: a driver before this one may have made it.

        Raises:
            HoldfastError: it is not made.
        """
        until = self._until(making.order)
        self._check(until)
        settings = self._services.settings
        if SavepointPlace(settings.snapshots.uri, settings.application_id).has(making.name):
            return
        for left in reversed(range(_ATTEMPTS)):
            attempt = Attempt(self._services, runs, making.name, self._text, until)
            try:
                attempt.make(making.does)
            except Again as again:
                _LOG.warning("Savepoint %s begins anew: %s", making.name, again)
                if not left:
                    raise _given_up(again) from again
                time.sleep(_AGAIN_S)
            else:
                return

    def _check(self, until: float) -> None:
        settings = self._services.settings
        if not settings.snapshots.uri or not settings.state.on_volumes:
            where = f"keeps its state elsewhere ({settings.state.backend})"
            why = "has no snapshot.uri" if settings.state.on_volumes else where
            raise InvalidConfig(
                f"The job {settings.application_id} {why}: it can have no savepoints.",
                action="deploy it with state.backend=rocksdb, and with a snapshot.uri that driver "
                "and executors can reach.",
            )
        late_s = time.monotonic() - until
        if late_s > 0:
            raise Refused(
                f"The order is {late_s:.0f} s too late: nobody waits for it any more.",
                cause="the job was not running when the savepoint was ordered, or the clocks of "
                "the two machines differ.",
                action="order it again.",
            )


def _given_up(again: Again) -> Refused:
    return Refused(
        f"The savepoint was not made in {_ATTEMPTS} attempts: {again}.",
        cause="executors are lost again and again, or another driver is at work.",
        action="see that the job runs steadily, and order it again.",
    )
