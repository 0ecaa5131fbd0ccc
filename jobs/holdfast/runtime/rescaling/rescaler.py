"""Carries out the orders to rescale on the control topic, beside the batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.errors import HoldfastError, PlanAgain, Refused, Retriable
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.stateful import StatefulQuery
from holdfast.runtime.rescaling.attempt import Attempt
from holdfast.state.topics.orders import OrderBook, RescaleOrder, RescaleTold
from holdfast.types.ids import changelog_topic

__all__ = ["Rescaler", "Rescaling"]

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 5
_AGAIN_S = 2.0
_PUBLISH_AGAIN_S = 10.0  # the main loop has other work


@dataclass
class Rescaling:
    """A rescale that is under way; the thread writes, the main loop reads."""

    query_id: str
    order: RescaleOrder
    told: RescaleTold
    published: RescaleTold | None = None

    def does(self, what: str) -> None:
        """Tells what is being done, in words."""
        self.told = replace(self.told, doing=what)


class Rescaler:
    """Owns the thread that rescales queries, one after the other."""

    def __init__(self, services: Services, book: OrderBook) -> None:
        self._services = services
        self._book = book
        self._current: Rescaling | None = None
        self._publish_at = 0.0

    def look(self, runs: Sequence[QueryRun]) -> None:
        """Called on every iteration of the main loop, after the orders have been read."""
        if self._current is None:
            self._begin(runs)
        if self._current is not None and time.monotonic() >= self._publish_at:
            self._publish(self._current)

    def _begin(self, runs: Sequence[QueryRun]) -> None:
        by_id = {run_.query.id: run_ for run_ in runs}
        for query_id, order in self._book.rescale_orders.items():
            told = self._book.rescales_told.get(query_id)
            ended = told is not None and told.token == order.token and not told.doing
            if ended or query_id not in by_id:
                continue
            self._current = Rescaling(query_id, order, RescaleTold(order.token, "looking"))
            threading.Thread(
                target=self._run,
                args=(self._current, by_id[query_id]),
                name="rescale",
                daemon=True,
            ).start()
            return

    def _publish(self, current: Rescaling) -> None:
        told = current.told
        if told != current.published:
            try:
                self._book.tell_rescale(current.query_id, told)
            except HoldfastError as error:
                _LOG.warning("Nobody learns of the rescale yet: %s", error.fact)
                self._publish_at = time.monotonic() + _PUBLISH_AGAIN_S
                return
            current.published = told
        if not told.doing:
            self._current = None

    # -- in the thread ------------------------------------------------------------------------

    def _run(self, current: Rescaling, run_: QueryRun) -> None:
        token = current.order.token
        try:
            self.carry_out(current, run_)
            current.told = RescaleTold(token)
        except HoldfastError as error:
            _LOG.warning("%s was not rescaled: %s", current.query_id, error)
            current.told = RescaleTold(token, "", error.fact, error.cause, error.action)
        except Exception as error:  # noqa: BLE001 - whoever waits for it learns of it
            _LOG.exception("%s was not rescaled", current.query_id)
            current.told = RescaleTold(token, "", f"{type(error).__name__}: {error}")

    def carry_out(
        self,
        current: Rescaling,
        run_: QueryRun,
        *,
        threaded: bool = True,
        attempts: int = _ATTEMPTS,
    ) -> None:
        """Rescales a query, or deletes the changelogs of its former generations.

        Raises:
            HoldfastError: it is not done.
        """
        wanted = current.order.state_partitions
        if not isinstance(run_, StatefulQuery):
            raise Refused(
                f"{run_.query.id} keeps no state.",
                action="there is nothing to rescale: its tasks follow its topic's partitions.",
            )
        if not wanted:
            self._confirm(run_)
            return
        for left in reversed(range(attempts)):
            if run_.plan.state_partitions == wanted:
                return
            try:
                Attempt(self._services, run_, wanted, threaded=threaded).make(current.does)
            except (PlanAgain, Retriable) as error:
                _LOG.warning("%s is rescaled again after: %s", run_.query.id, error)
                if not left:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return

    def _confirm(self, run_: StatefulQuery) -> None:
        """Deletes every changelog of an earlier generation, also what attempts have left."""
        query_id, services = run_.query.id, self._services
        layout = services.layouts.of(query_id)
        if layout.generation != run_.plan.generation:
            raise Refused(
                f"{query_id} does not go on in generation {layout.generation} yet.",
                action="confirm when it has had a batch.",
            )
        for generation in range(layout.generation):
            name = changelog_topic(services.settings.application_id, query_id, generation)
            services.admin.delete_topic(name)
