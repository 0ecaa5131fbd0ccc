"""Which generation of each query's state counts, as this driver knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.state.layout import GENERATION_0, Layout

if TYPE_CHECKING:
    from holdfast.state.topics.orders import OrderBook

__all__ = ["Layouts"]


class Layouts:
    """Knows the layouts of a job's queries: what the control topic and the changelogs say.

    Args:
        book: of the job; None: of a job without a control topic, as in tests.
    """

    def __init__(self, book: OrderBook | None = None) -> None:
        self._book = book
        self._found: dict[str, Layout] = {}  # in changelogs

    def of(self, query_id: str) -> Layout:
        """The last known layout of a query."""
        known = GENERATION_0
        if self._book is not None:
            known = self._book.layouts.get(query_id, known)
        found = self._found.get(query_id, known)
        return max(known, found, key=lambda layout: layout.generation)

    def found(self, query_id: str, layout: Layout) -> None:
        """Takes over what a changelog says: this driver did not know of a rescale.

        Raises:
            KafkaUnavailable: the control topic, which may know of a later one, cannot be read.
        """
        self._found[query_id] = layout
        if self._book is not None:
            self._book.refresh()

    def copying(self, query_id: str, generation: int | None) -> None:
        """Tells query servers into which generation a state is being copied; None: into none.

        Raises:
            KafkaUnavailable, Refused: they may not know.
        """
        if self._book is not None:
            self._book.tell_copying(query_id, generation)
