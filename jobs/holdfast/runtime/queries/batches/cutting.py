"""Cuts the topics between queries of this job: see `holdfast.ingest.cuts`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from holdfast.config.settings import Settings
from holdfast.errors import Retriable
from holdfast.ingest.cuts import CutBook
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import Place
from holdfast.types.statements.topology import Query
from holdfast.types.times import FOREVER, NO_TIME

__all__ = ["Cutting", "Writer"]

_EVERY_S = 0.5
_SEEN_S = 2.0  # until a committed transaction is visible
_POLL_S = 0.005


class Writer(Protocol):
    """The part of a query that cutting needs."""

    @property
    def query(self) -> Query:
        """The query."""

    @property
    def held(self) -> bool:
        """Whether the query takes no batches."""

    def level_with(self, ends: dict[Place, int]) -> bool:
        """Whether the query has committed everything up to `ends`, and runs no batch."""

    def between_batches(self, stack: ExitStack) -> bool:
        """Whether no batch is running; if so, none begins while the stack is open."""


class Cutting:
    """Owns the file of cuts of one driver."""

    def __init__(self, admin: Admin, settings: Settings, queries: Sequence[Query]) -> None:
        read = {source.topic for query in queries for source in query.sources}
        writers = {
            topic: frozenset(q.id for q in queries if q.sink.topic == topic)
            for topic in {q.sink.topic for q in queries} & read
        }
        file = Path(settings.home, "run", settings.application_id, "cuts.json").resolve()
        self._admin = admin
        self._book = CutBook(file, writers) if writers else None
        self._next = 0.0

    def file_for(self, query: Query) -> str:
        """The file with the cuts of the query's sources; empty: none has a writer in this job."""
        if self._book is None:
            return ""
        chained = any(source.topic in self._book.writers for source in query.sources)
        return str(self._book.file) if chained else ""

    def ended(self, query: Query, reached_ms: int | None) -> None:
        """Called after a committed batch of the query, while no other query runs a batch.

        Args:
            reached_ms: record time up to which it has read all its sources; None: unknown.
        """
        topics = [] if self._book is None else self._book.topics_of(query.id)
        if self._book is None or not topics:
            return
        ends = self._seen_ends(topics)
        if ends is not None:
            self._book.ended(query.id, NO_TIME if reached_ms is None else reached_ms, ends)

    def _seen_ends(self, topics: Iterable[str]) -> dict[Place, int] | None:
        """Read-committed ends once they include all written records; None: not yet."""
        written = self._places(topics, committed=False)
        deadline = time.monotonic() + _SEEN_S
        while True:
            seen = self._places(topics, committed=True)
            if all(seen[place] >= end for place, end in written.items()):
                return seen
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_S)

    def _places(self, topics: Iterable[str], *, committed: bool) -> dict[Place, int]:
        of_topic = self._admin.end_offsets if committed else self._admin.high_watermarks
        return {(topic, p): end for topic in topics for p, end in of_topic(topic).items()}

    def look(self, writers: Sequence[Writer]) -> None:
        """Called on every iteration of the main loop: cuts topics whose writers are idle.

        So a topic gets a cut after a start, and after records of other writers.
        """
        if self._book is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_S
        for topic, ids in self._book.writers.items():
            try:
                self._cut_idle(topic, [w for w in writers if w.query.id in ids])
            except Retriable:
                return  # the streams ask the brokers, too, and decide when to give up

    def _cut_idle(self, topic: str, writers: Sequence[Writer]) -> None:
        assert self._book is not None
        last = self._book.last(topic)
        seen = self._places([topic], committed=True)
        if last is not None and (last.ends, last.watermark_ms) == (seen, FOREVER):
            return
        with ExitStack() as stack:
            if all(writer.between_batches(stack) and self._idle(writer) for writer in writers):
                ends = self._seen_ends([topic])
                for writer in writers if ends is not None else ():
                    self._book.ended(writer.query.id, FOREVER, ends or {})

    def _idle(self, writer: Writer) -> bool:
        """Whether the results include all records of the sources."""
        assert self._book is not None
        for source in writer.query.sources:
            last = self._book.last(source.topic)
            if source.topic in self._book.writers and (
                last is None or last.watermark_ms != FOREVER
            ):
                return False
        topics = {source.topic for source in writer.query.sources}
        return writer.level_with(self._places(topics, committed=True))
