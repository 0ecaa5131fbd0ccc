"""Watches a job several times a second from outside: its topics, its group, its driver.

It uses two threads, so that a hanging driver does not delay the broker's samples and vice versa.
A failed look leaves a gap in the samples, not a guess.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from holdfast.chaos.history.events import HistoryWriter
from holdfast.errors import HoldfastError
from holdfast.judge.read.observe import Observer
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import consumer_group
from holdfast.types.statements.topology import Topology

__all__ = ["Sampler"]

_EVERY_S = 0.3
_GROUPS_EVERY_S = 1.5
_PATIENCE_S = 2.0  # a late sample is worthless


class Sampler:
    """Owns the samples of one run, as a context: it samples from enter to exit.

    Args:
        history: writer of the source "observer"; gets a "sample" state each time.
        driver: reads the driver's /status, None when nobody answers.
    """

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        client: Mapping[str, str],
        history: HistoryWriter,
        driver: Callable[[], Mapping[str, Any] | None],
    ) -> None:
        self._queries = topology.queries
        self._application_id = application_id
        self._admin = Admin(client, _PATIENCE_S)
        self._observer = Observer(client, application_id)
        self._history, self._ask = history, driver
        self._driver: dict[str, Any] | None = None
        self._committed: dict[str, int] = {}
        self._groups_at = 0.0
        self._progress: dict[str, list[tuple[float, int]]] = {}
        self._lag: int | None = None
        self._end = threading.Event()
        self._threads = [threading.Thread(target=f, daemon=True, name=f"sampler-{f.__name__}")
                         for f in (self._watch_topics, self._watch_driver)]  # fmt: skip

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    # -- what was seen -----------------------------------------------------------------------

    @property
    def lag(self) -> int | None:
        """Source offsets not yet committed, by the groups' offsets; None before a first sample."""
        return self._lag

    def samples(self) -> list[tuple[float, int]]:
        """(wall seconds, offsets committed so far, over all topics of progress)."""
        found = [list(samples) for samples in self._progress.values()]
        return [(parts[0][0], sum(n for _, n in parts)) for parts in zip(*found, strict=False)]

    def advanced(self, since: float) -> bool:
        """Whether every query has committed after `since` (wall seconds)."""
        found = [list(samples) for samples in self._progress.values()]
        return bool(found) and all(_grew(samples, since) for samples in found)

    # -- the threads -------------------------------------------------------------------------

    def _watch_driver(self) -> None:
        while not self._end.wait(_EVERY_S):
            told = self._ask()
            self._driver = None if told is None else {
                "state": told.get("state"),
                "ready": bool(told.get("ready")),
                "restoring": told.get("state") == "restoring",
            }  # fmt: skip

    def _watch_topics(self) -> None:
        while not self._end.wait(_EVERY_S):
            with suppress(HoldfastError):
                self._sample({q.id: self._observer.marker_topic(q) for q in self._queries})

    def _sample(self, topics: Mapping[str, str]) -> None:
        stable = {t: sum(self._admin.end_offsets(t).values()) for t in set(topics.values())}
        now = time.time()
        for query_id, topic in topics.items():
            self._progress.setdefault(query_id, []).append((now, stable[topic]))
        sources = {source.topic for q in self._queries for source in q.sources}
        ends = {t: sum(self._admin.end_offsets(t).values()) for t in sources}
        self._look_at_groups(ends)
        self._history.state(
            "sample",
            input_end=sum(ends.values()),
            committed=dict(self._committed),
            lag=self._lag,
            stable=stable,
            driver=self._driver,
        )

    def _look_at_groups(self, ends: Mapping[str, int]) -> None:
        if time.monotonic() < self._groups_at:
            return
        self._groups_at = time.monotonic() + _GROUPS_EVERY_S
        lag = 0
        for query in self._queries:
            group = consumer_group(self._application_id, query.id)
            topics = {source.topic for source in query.sources}
            done = {t: sum(self._admin.committed(group, t).values()) for t in topics}
            self._committed[query.sink.name] = sum(done.values())
            lag += sum(max(0, ends[t] - offset) for t, offset in done.items())
        self._lag = lag


def _grew(samples: Sequence[tuple[float, int]], since: float) -> bool:
    before = [n for at, n in samples if at <= since]
    after = [n for at, n in samples if at > since]
    return bool(after) and after[-1] > (before[-1] if before else after[0])
