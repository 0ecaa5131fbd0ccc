"""Counts the records that a running job's queries have set aside, at intervals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.state.topics.progress_counts import Counted, ProgressCounts
from holdfast.types.ids import progress_topic
from holdfast.types.statements.topology import Query

__all__ = ["LeftOutCounts"]

_EVERY_S = 10.0


class LeftOutCounts:
    """Owns a reader of every query's progress topic.

    Args:
        tell: gets a query's id and totals after each look.
    """

    def __init__(
        self, settings: Settings, queries: Sequence[Query], tell: Callable[[str, Counted], None]
    ) -> None:
        keeps = settings.ingest.on_undecodable == "dead-letter"
        self._counts = {
            query.id: ProgressCounts(
                settings.client(), progress_topic(settings.application_id, query.id)
            )
            for query in queries
            if keeps or not query.stateful
        }
        self._tell = tell
        self._next = 0.0

    def look(self, *, now: bool = False) -> None:
        """Called on every iteration of the main loop; `now` skips the interval."""
        if not now and time.monotonic() < self._next:
            return
        for query_id, counts in self._counts.items():
            with suppress(HoldfastError):  # the last values stay
                self._tell(query_id, counts.counted())
        self._next = time.monotonic() + _EVERY_S
