"""Rescales by a job's control topic, for faults, which know no code of the engine."""

from __future__ import annotations

from holdfast.chaos.faults.rescale_faults import Rescaling
from holdfast.state.layout import GENERATION_0
from holdfast.state.topics.orders import Answer, OrderBook, RescaleOrder

__all__ = ["ControlTopic"]


class ControlTopic:
    """`Rescales` of one job."""

    def __init__(self, book: OrderBook) -> None:
        """Sends nothing before the first call."""
        self._book = book

    def of(self, query_id: str) -> Rescaling:
        book = self._book
        book.refresh()
        layout = book.layouts.get(query_id, GENERATION_0)
        told = book.rescales_told.get(query_id, Answer(""))
        return Rescaling(
            layout.generation,
            layout.state_partitions,
            book.copying.get(query_id, 0),
            told.token,
            told.doing,
            told.fact,
        )

    def order(self, query_id: str, state_partitions: int) -> str:
        order = RescaleOrder(state_partitions)
        self._book.order_rescale(query_id, order)
        return order.token
