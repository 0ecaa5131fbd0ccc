"""Carries out the orders to rescale on the control topic, beside the batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from holdfast.errors import PlanAgain, Refused, Retriable
from holdfast.runtime.carrying_out import CarriesOut, InHand
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.stateful import StatefulQuery
from holdfast.runtime.rescaling.attempt import Attempt
from holdfast.state.topics.orders import Answer, OrderBook, RescaleOrder
from holdfast.types.ids import changelog_topic

__all__ = ["Rescaler"]

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 5
_AGAIN_S = 2.0


class Rescaler(CarriesOut[RescaleOrder]):
    """Rescales queries, one after the other."""

    def __init__(self, services: Services, book: OrderBook) -> None:
        super().__init__("rescale")
        self._services = services
        self._book = book

    def _orders(self, runs: Sequence[QueryRun]) -> Mapping[str, RescaleOrder]:
        mine = {run_.query.id for run_ in runs}
        return {i: order for i, order in self._book.rescale_orders.items() if i in mine}

    def _answers(self) -> Mapping[str, Answer]:
        return self._book.rescales_told

    def _tell(self, name: str, answer: Answer) -> None:
        self._book.tell_rescale(name, answer)

    def _carry_out(self, in_hand: InHand[RescaleOrder], runs: Sequence[QueryRun]) -> None:
        self.carry_out(in_hand, next(run_ for run_ in runs if run_.query.id == in_hand.name))

    def carry_out(
        self,
        current: InHand[RescaleOrder],
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
