"""Makes the savepoints that are ordered on the control topic, beside the batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.errors import HoldfastError, InvalidConfig, Refused
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.savepoints.attempt import Again, Attempt
from holdfast.state.snapshots.savepoints import SavepointPlace
from holdfast.state.topics.orders import OrderBook, SavepointOrder, SavepointTold

__all__ = ["Making", "SavepointMaker"]

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 3
_AGAIN_S = 1.0
_PUBLISH_AGAIN_S = 10.0  # the main loop has other work


@dataclass
class Making:
    """A savepoint that is being made; the thread writes, the main loop reads."""

    name: str
    order: SavepointOrder
    told: SavepointTold
    published: SavepointTold | None = None

    def does(self, what: str) -> None:
        """Tells what is being done, in words."""
        self.told = replace(self.told, doing=what)


class SavepointMaker:
    """Owns the thread that makes savepoints, one after the other.

    Args:
        text: the statements of the job.
    """

    def __init__(self, services: Services, book: OrderBook, text: str) -> None:
        self._services = services
        self._book = book
        self._text = text
        self._making: Making | None = None
        self._publish_at = 0.0

    def look(self, runs: Sequence[QueryRun]) -> None:
        """Called on every iteration of the main loop, after the orders have been read."""
        if self._making is None:
            self._begin(runs)
        if self._making is not None and time.monotonic() >= self._publish_at:
            self._publish(self._making)

    def _begin(self, runs: Sequence[QueryRun]) -> None:
        for name, order in self._book.savepoint_orders.items():
            told = self._book.savepoints_told.get(name)
            if told is not None and told.token == order.token and not told.doing:
                continue
            making = Making(name, order, SavepointTold(order.token, "looking at the place"))
            self._making = making
            work = threading.Thread(
                target=self._run, args=(making, tuple(runs)), name="savepoint", daemon=True
            )
            work.start()
            return

    def _publish(self, making: Making) -> None:
        told = making.told
        if told != making.published:
            try:
                self._book.tell_savepoint(making.name, told)
            except HoldfastError as error:
                _LOG.warning("Nobody learns of savepoint %s yet: %s", making.name, error.fact)
                self._publish_at = time.monotonic() + _PUBLISH_AGAIN_S
                return
            making.published = told
        if not told.doing:
            self._making = None

    # -- in the thread ------------------------------------------------------------------------

    def _run(self, making: Making, runs: Sequence[QueryRun]) -> None:
        token = making.order.token
        try:
            self.make(making, runs)
            making.told = SavepointTold(token)
        except HoldfastError as error:
            _LOG.warning("Savepoint %s was not made: %s", making.name, error)
            making.told = SavepointTold(token, "", error.fact, error.cause, error.action)
        except Exception as error:  # noqa: BLE001 - whoever waits for it learns of it
            _LOG.exception("Savepoint %s was not made", making.name)
            making.told = SavepointTold(token, "", f"{type(error).__name__}: {error}")

    def make(self, making: Making, runs: Sequence[QueryRun]) -> None:
        """Makes a savepoint, unless it is there: a driver before this one may have made it.

        Raises:
            HoldfastError: it is not made.
        """
        self._check(making)
        settings = self._services.settings
        if SavepointPlace(settings.snapshots.uri, settings.application_id).has(making.name):
            return
        for left in reversed(range(_ATTEMPTS)):
            until_ms = making.order.until_ms
            attempt = Attempt(self._services, runs, making.name, self._text, until_ms)
            try:
                attempt.make(making.does)
            except Again as again:
                _LOG.warning("Savepoint %s begins anew: %s", making.name, again)
                if not left:
                    raise _given_up(again) from again
                time.sleep(_AGAIN_S)
            else:
                return

    def _check(self, making: Making) -> None:
        settings = self._services.settings
        if not settings.snapshots.uri or settings.state.backend == "memory":
            why = "keeps its state in memory" if settings.snapshots.uri else "has no snapshot.uri"
            raise InvalidConfig(
                f"The job {settings.application_id} {why}: it can have no savepoints.",
                action="deploy it with state.backend=rocksdb, and with a snapshot.uri that driver "
                "and executors can reach.",
            )
        late_s = time.time() - making.order.until_ms / 1000
        if late_s > 0:
            raise Refused(
                f"The order is {late_s:.0f} s too late: nobody waits for it any more.",
                cause="the job was not running when the savepoint was ordered.",
                action="order it again.",
            )


def _given_up(again: Again) -> Refused:
    return Refused(
        f"The savepoint was not made in {_ATTEMPTS} attempts: {again}.",
        cause="executors are lost again and again, or another driver is at work.",
        action="see that the job runs steadily, and order it again.",
    )
