"""Which generation of a changelog counts, and when a table can be served from the next one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.errors import Refused
from holdfast.serve.contract import PartitionState
from holdfast.serve.tables import StoredTable
from holdfast.state.layout import GENERATION_0
from holdfast.state.topics.orders import OrderBook
from holdfast.transport.cluster.admin import Admin

__all__ = ["Generations", "GenerationsOfJobs"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Generations:
    """The generation of a changelog that counts, and the last one that it was copied into."""

    current: int = 0
    coming: int = 0


class GenerationsOfJobs:
    """Owns what the jobs' control topics say of rescales.  Not thread-safe."""

    def __init__(self, admin: Admin, client: Mapping[str, str]) -> None:
        """Sends nothing before the first call."""
        self._admin = admin
        self._client = client
        self._books: dict[str, OrderBook] = {}  # by application id
        self._unread: set[str] = set()  # jobs whose orders may not be read
        self._ends: dict[str, Mapping[int, int]] = {}  # see `is_reached`, by changelog

    def of(self, application_id: str) -> Mapping[str, Generations]:
        """The generations of a job's changelogs, by query id.

        Raises:
            KafkaUnavailable: no broker answered.
        """
        book = self._books.get(application_id)
        if book is None:
            book = OrderBook(self._admin, self._client, application_id)
            self._books[application_id] = book
        try:
            book.refresh()
        except Refused as error:  # what is known stays; a job that was never rescaled needs none
            if application_id not in self._unread:
                self._unread.add(application_id)
                _LOG.warning("Whether queries were rescaled is unknown: %s", error)
        return {
            i: Generations(book.layouts.get(i, GENERATION_0).generation, book.copying.get(i, 0))
            for i in book.layouts.keys() | book.copying.keys()
        }

    def is_reached(
        self, table: StoredTable, states: Callable[[int], Iterable[PartitionState | None]]
    ) -> bool:
        """Whether no answer from this generation can be older than one from the one before.

        The one before has ended when the control topic names this one, and so at the first call:
        whoever may answer has to have what the changelog had then.

        Args:
            table: of the generation that counts.
            states: of a partition, on every server that may hold it; None: it does not.

        Raises:
            KafkaUnavailable, TopicMissing: the end of the changelog is unknown.
        """
        if table.topic not in self._ends:
            self._ends[table.topic] = self._admin.end_offsets(table.topic)
        ends = self._ends[table.topic]
        return all(_have(states(p), ends.get(p, 0)) for p in range(table.partitions))


def _have(states: Iterable[PartitionState | None], end: int) -> bool:
    answering = [state for state in states if state is not None and not state.restoring]
    return bool(answering) and all(state.position >= end for state in answering)
