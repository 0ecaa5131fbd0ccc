"""When a job that was asked to stop once it has caught up may stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from holdfast.errors import Retriable
from holdfast.types.ids import Place
from holdfast.types.topology import Query

__all__ = ["CaughtUp", "Ends", "Reader"]


class Reader(Protocol):
    """A query as far as this is concerned."""

    @property
    def query(self) -> Query:
        """What it is."""

    @property
    def source_topics(self) -> tuple[str, ...]:
        """What it reads."""

    @property
    def held(self) -> bool:
        """Whether it takes no batches."""

    @property
    def held_back(self) -> bool:
        """Whether its stream time waits for the queries that write its sources."""

    def caught_up(self, ends: Mapping[Place, int]) -> bool:
        """Has every topic partition been committed up to `ends`?"""


class Ends(Protocol):
    """Where topics end."""

    def ends(self, topics: Iterable[str]) -> dict[Place, int]:
        """Read-committed end offsets of topics."""

    def written(self, topics: Iterable[str]) -> dict[Place, int]:
        """Ends of topics, open transactions included."""


class CaughtUp:
    """Owns where the source topics ended when it was first asked and a broker answered."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._targets: dict[str, dict[Place, int]] = {}

    def reached(self, runs: Sequence[Reader]) -> bool:
        """Has every query that runs read what was there then, and what others made of it?

        A broker that does not answer is asked again: what it takes to give up is decided by the
        streams, which ask it too.

        Args:
            runs: a query comes after those whose results it reads.
        """
        going = [run_ for run_ in runs if not run_.held]
        made = {run_.query.sink.topic for run_ in runs}
        stopped = {run_.query.sink.topic for run_ in runs if run_.held}
        try:
            for run_ in going:
                if run_.query.id not in self._targets:
                    self._targets[run_.query.id] = self._ends.ends(run_.source_topics)
            return all(self._level(run_, made) and _told(run_, stopped) for run_ in going)
        except Retriable:
            return False

    def _level(self, run_: Reader, made: set[str]) -> bool:
        return run_.caught_up(self._targets[run_.query.id]) and run_.caught_up(
            self._ends.written(made.intersection(run_.source_topics))
        )


def _told(run_: Reader, stopped: set[str]) -> bool:
    """Whether no result waits for stream time, but behind a query that takes no batches."""
    return not run_.held_back or not stopped.isdisjoint(run_.source_topics)
