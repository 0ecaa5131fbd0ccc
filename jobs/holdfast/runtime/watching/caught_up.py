"""Decides when a job that is to stop once it has caught up may stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from holdfast.errors import Retriable
from holdfast.types.ids import Place
from holdfast.types.statements.topology import Query

__all__ = ["CaughtUp", "Ends", "Reader"]


class Reader(Protocol):
    """The part of a query that `CaughtUp` needs."""

    @property
    def query(self) -> Query:
        """The query."""

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics that the query reads."""

    @property
    def held(self) -> bool:
        """Whether the query takes no batches."""

    @property
    def held_back(self) -> bool:
        """Whether the query's stream time waits for the queries that write its sources."""

    def caught_up(self, ends: Mapping[Place, int]) -> bool:
        """Whether every topic partition is committed up to `ends`."""


class Ends(Protocol):
    """The end offsets of topics."""

    def ends(self, topics: Iterable[str]) -> dict[Place, int]:
        """Read-committed end offsets of topics."""

    def written(self, topics: Iterable[str]) -> dict[Place, int]:
        """End offsets of topics, including open transactions."""


class CaughtUp:
    """Owns the source topics' end offsets at the first call that a broker answered."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._targets: dict[str, dict[Place, int]] = {}

    def reached(self, runs: Sequence[Reader]) -> bool:
        """Whether every running query has read up to those ends, and the results of other queries.

        If no broker answers, the next call asks again; the streams, which ask the brokers, too,
        decide when to give up.

        Args:
            runs: the queries; each comes after those whose results it reads.
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
    """Whether no result waits for stream time, except after a query that takes no batches."""
    return not run_.held_back or not stopped.isdisjoint(run_.source_topics)
