"""Keeps the lags and the signs of life of a running job up to date."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, KafkaUnavailable
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.topics import dead_letters
from holdfast.runtime.watching.health import Health
from holdfast.runtime.watching.metrics import Metrics
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.record_count import RecordCount
from holdfast.types.ids import Place

__all__ = ["Watch"]

_EVERY_S = 2.0


class Watch:
    """Observes the broker and the streams at intervals, not on every iteration."""

    def __init__(self, admin: Admin, settings: Settings, metrics: Metrics, health: Health) -> None:
        self._admin = admin
        self._metrics = metrics
        self._health = health
        keeps = settings.ingest.on_undecodable == "dead-letter"
        self._letters = RecordCount(settings.client(), dead_letters(settings)) if keeps else None
        self._next = 0.0

    def ends(self, topics: Iterable[str]) -> dict[Place, int]:
        """Read-committed end offsets of topics."""
        return _by_place(topics, self._admin.end_offsets)

    def written(self, topics: Iterable[str]) -> dict[Place, int]:
        """End offsets of topics, including open transactions: no sent record is beyond them."""
        return _by_place(topics, self._admin.high_watermarks)

    def observe(self, runs: list[QueryRun]) -> None:
        """Called on every iteration of the main loop."""
        self._health.turned()
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_S
        for run_ in runs:
            if run_.held:
                self._health.rest(run_.query.id)
            elif run_.streaming is not None and run_.streaming.idle:
                self._health.beat(run_.query.id)
        with suppress(HoldfastError):  # the last values stay
            self._ask(runs)

    def _ask(self, runs: list[QueryRun]) -> None:
        try:
            for run_ in runs:
                if run_.held:
                    self._metrics.no_lag(run_.query)
                    if not run_.done:
                        continue  # held since the start: its position is unknown
                ends = self.ends(run_.source_topics)
                level = self._health.observe(run_.query.id, dict(run_.done), ends, run_.waits_for)
                if run_.held:
                    self._health.rest(run_.query.id)
                else:
                    self._metrics.lag(run_.query, level.lag)
            if self._letters is not None:
                self._metrics.dead_letters(self._letters.count())
        except KafkaUnavailable:
            self._health.beat_all()
            raise


def _by_place(
    topics: Iterable[str], ends_of: Callable[[str], Mapping[int, int]]
) -> dict[Place, int]:
    return {(topic, p): end for topic in topics for p, end in ends_of(topic).items()}
