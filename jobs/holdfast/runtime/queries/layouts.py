"""Which generation of each query's state counts, as this driver knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.state.layout import Layout

if TYPE_CHECKING:
    from holdfast.state.topics.orders import OrderBook

__all__ = ["Layouts"]


class Layouts:
    """Knows and records the layouts of a job's queries.

    Args:
        book: of the job; None: of a job whose layouts are not recorded, as in tests.
    """

    def __init__(self, book: OrderBook | None = None) -> None:
        self._book = book
        self._known: dict[str, Layout] = dict(book.layouts) if book is not None else {}

    def of(self, query_id: str) -> Layout:
        """The layout of a query."""
        return self._known.get(query_id, Layout())

    def record(self, query_id: str, layout: Layout) -> None:
        """Records which generation counts from now on, before anything is committed there.

        Raises:
            KafkaUnavailable, Refused: it may have been recorded.
        """
        if self._book is not None:
            self._book.record_layout(query_id, layout)
        self._known[query_id] = layout
