"""One query of a running job: levels state partitions, streams batches, shows progress.

`stateful` and `stateless` have what differs between queries with and without state; `feeds` reads
their records.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from holdfast.errors import ChangelogLost, HoldfastError, PlanAgain
from holdfast.runtime.queries.feeds import Feed
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.sources import source_state
from holdfast.runtime.queries.start import SourceState, StartPoint
from holdfast.runtime.queries.streams import Stream
from holdfast.runtime.topics import QueryTopics
from holdfast.state.topics.sink_owners import claims_sink
from holdfast.tasks.bringing_in import Origin
from holdfast.tasks.plan import Batch, TaskReport
from holdfast.types.ids import OffsetRange, Place, consumer_group
from holdfast.types.ingest import Planned
from holdfast.types.statements.topology import Query

__all__ = ["Frozen", "QueryRun"]

_LOG = logging.getLogger(__name__)
_PLAN_AGAIN_S = 1.0


@dataclass(frozen=True)
class Frozen:
    """The commits of a query, between two batches.

    Attributes:
        source: the offsets, as an empty range; None: nothing is committed.
        stores: the reports of its state partitions, in order; none without state.
        facts: `statement_facts` of the statement.
    """

    source: OffsetRange | None = None
    stores: tuple[TaskReport, ...] = ()
    facts: str = ""


class QueryRun(ABC):
    """Owns the progress of one query in this driver."""

    def __init__(self, services: Services, query: Query, topics: QueryTopics, feed: Feed) -> None:
        self.query = query
        self.failure: BaseException | None = None
        self.streaming: Stream[tuple[OffsetRange, Planned]] | None = None
        self.done: dict[Place, int] = {}
        self.source_topics = feed.topics
        self.batch_id = 0
        self._services = services
        self._topics = topics
        self._feed = feed
        self._group = consumer_group(services.settings.application_id, query.id)
        self._settings = services.settings_of(query)
        self._shown: dict[Place, int] = {}
        self._marked: frozenset[Place] = frozenset()  # places that commit markers name
        self._replaced: frozenset[str] = frozenset()  # former ids of its source topics
        self._hold = threading.Event()
        self._in_hand = threading.Lock()  # held by the current batch
        self._gave_up_sink = False

    @property
    def waits_for(self) -> str:
        """Why the current batch is being retried; empty: it is not."""
        return self._services.cluster.waits_for(self.query.id)

    # -- order to hold ------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """Whether the query takes no batches; the current one may still run."""
        return self._hold.is_set()

    def hold(self) -> bool:
        """Stops taking batches; call until True, when the last batch and the stream have ended.

        Nothing is lost or repeated: `prepare` continues from the commit markers.
        """
        self._hold.set()
        if not self._in_hand.acquire(blocking=False):
            return False
        self._in_hand.release()  # the next batch to take it sees the order
        streaming, self.streaming = self.streaming, None
        if streaming is not None:
            streaming.stop()
        return True

    def release(self) -> None:
        """Allows batches again; call `prepare` and `stream` next."""
        self._hold.clear()

    # -- start -------------------------------------------------------------------------------

    def restores(self) -> bool:
        """Whether its changelog has records, which its stores may lack."""
        changelog = self._topics.changelog
        if changelog is None:
            return False
        bounds = self._services.admin.bounds(changelog.name)
        return any(start < end for start, end in bounds.values())

    def prepare(self) -> None:
        """Claims the sink, opens all stores (or fences stream producers), levels partitions.

        If another driver commits meanwhile, the markers are read again: markers of different times
        may look like lost ones, so the same loss must be seen twice.

        Raises:
            SinkOwned: another query writes the sink.
            PlanAgain: the markers kept changing for `retry.timeout.ms`.
            ChangelogLost: commit markers are gone.
        """
        self.claim_sink()
        deadline = time.monotonic() + self._settings.retry_timeout_ms / 1000
        seen = ""
        while True:
            try:
                start = self._find_start()
            except (PlanAgain, ChangelogLost) as error:
                late = isinstance(error, PlanAgain) and time.monotonic() > deadline
                if late or error.fact == seen:
                    raise
                seen = error.fact if isinstance(error, ChangelogLost) else ""
                _LOG.warning("%s: reading the commit markers again: %s", self.query.id, error.fact)
                time.sleep(_PLAN_AGAIN_S)
            else:
                break
        self.done = start.offsets
        self.batch_id = start.batch_id
        self._marked = start.marked

    @abstractmethod
    def _find_start(self) -> StartPoint:
        """Fences former drivers, reads the commit markers, and levels the state partitions.

        Raises:
            PlanAgain: another driver has moved them meanwhile.
        """

    def _sources(self) -> SourceState:
        """The state of the source topics as of now."""
        return source_state(self._services.admin, self._settings, self.source_topics)

    def _know(self, sources: SourceState, start: StartPoint) -> None:
        """Sets the topic ids to which offsets belong from now on."""
        self._replaced = start.replaced
        self._feed.know(sources.ids)
        if start.replaced:
            _LOG.warning(
                "DATA LOSS, continuing because of fail.on.data.loss=false: %s reads recreated "
                "topics from their start; former topic ids: %s",
                self.query.id, ", ".join(sorted(start.replaced)),
            )  # fmt: skip
            self._show(start.offsets)  # or else the markers would seem to be behind the group

    def claim_sink(self) -> None:
        """Makes this query the only writer of its sink.

        Raises:
            SinkOwned: another query writes it.
        """
        owners, settings = self._services.owners, self._services.settings
        if owners is not None and claims_sink(self.query):
            owners.claim(self.query, self._topics.sink.topic_id, settings.application_id)
            self._gave_up_sink = False

    def give_up_sink(self) -> None:
        """Lets another query write the sink; `prepare` claims it again.

        Raises:
            KafkaUnavailable, Refused: it is still claimed.
        """
        owners, settings = self._services.owners, self._services.settings
        if owners is not None and not self._gave_up_sink:
            owners.give_up(self.query, settings.application_id)
            self._gave_up_sink = True

    def _group_offsets(self) -> dict[Place, int]:
        admin = self._services.admin
        committed = {t: admin.committed(self._group, t) for t in self.source_topics}
        return {(t, p): offset for t, found in committed.items() for p, offset in found.items()}

    # -- batches -----------------------------------------------------------------------------

    def stream(self) -> None:
        """Starts the stream of batches from the offsets that `prepare` found."""
        self.failure = None
        self.streaming = self._feed.stream(self)

    def join(self, places: Mapping[Place, int]) -> None:
        """Adds new topic partitions, from these start offsets."""
        self.done = {**places, **self.done}

    def moves_time(self, planned: Planned) -> bool:
        """Whether a batch without records emits results that were held back."""
        return False

    def take(self, source: OffsetRange, planned: Planned, unwanted: Callable[[], bool]) -> None:
        """Runs the next batch for all state partitions, unless `unwanted` when its turn comes."""
        batch = Batch(
            self.batch_id,
            source,
            # Either all state partitions have a commit marker, or none has.
            beginners=frozenset() if self._marked else None,
            replaced=self._replaced,
            watermark_ms=planned.watermark_ms,
        )

        def whole(batch: Batch) -> list[TaskReport]:
            reports = self._work(batch)
            self.done = {**self.done, **source.ends()}
            self.batch_id += 1
            self._marked |= self._marked_by(source)
            self._services.cutting.ended(self.query, planned.reached_ms)
            return reports

        try:
            self._do(batch, whole, unwanted)
        except BaseException as error:
            if self.failure is None:
                self.failure = error
            raise

    def _work(self, batch: Batch) -> list[TaskReport]:
        """Reads and processes a batch."""
        return self._feed.work(batch)

    def _do(
        self,
        batch: Batch,
        work: Callable[[Batch], list[TaskReport]],
        unwanted: Callable[[], bool],
    ) -> None:
        """Runs a batch once it is this query's turn, unless it must not begin any more."""
        services = self._services
        began = time.perf_counter()
        beat = partial(services.health.beat, self.query.id)
        with services.turn.take(beat, unwanted, self.query.id) as ours, self._in_hand:
            if not ours or unwanted():
                return
            reports = work(batch)
        services.health.beat(self.query.id)
        services.on_reports(self.query, batch, reports, time.perf_counter() - began)

    # -- savepoints --------------------------------------------------------------------------

    @abstractmethod
    def freeze(self, folder: str) -> Frozen | None:
        """Has executors copy the stores for a savepoint, and finds what is committed.

        No batch of the query may run meanwhile.  None: its state partitions are not level, because
        another driver commits, or has left them apart.

        Args:
            folder: of the attempt, see `state.snapshots.savepoints.folder_of`.
        """

    @abstractmethod
    def bring_in(self, origin: Origin) -> None:
        """Makes the state and the offsets of a savepoint those that the query has committed.

        Where something is committed already, it does nothing.

        Raises:
            HoldfastError: see `tasks.bringing_in.bring_in`.
        """

    @abstractmethod
    def _marked_by(self, source: OffsetRange) -> set[Place]:
        """The places that the commit markers of a batch name."""

    def show_progress(self) -> bool:
        """Commits the group's offsets for lag tools; they decide nothing.

        A topic partition is committed once commit markers name it, so that a start can tell from
        the group whether markers were lost.  Not part of a batch, which would have to wait for it.
        Only one thread may call it.

        Returns:
            Whether the group's offsets now equal those of the last batch.
        """
        marked = self._marked  # read first, because `done` advances
        done = {place: offset for place, offset in self.done.items() if place in marked}
        if done == self._shown:
            return True
        try:
            self._show(done)
        except HoldfastError as error:
            why = f"{error.fact} {error.cause}"
            _LOG.warning("%s: the group's offsets lag behind: %s", self.query.id, why)
            return False
        self._shown = done
        return True

    def _show(self, done: Mapping[Place, int]) -> None:
        for topic in self.source_topics:
            offsets = {p: offset for (name, p), offset in done.items() if name == topic}
            self._services.admin.commit_group(self._group, topic, offsets)

    def ended_by(self) -> BaseException | None:
        """The error that ended the stream; None while it runs, or if it was never started."""
        if self.failure is not None or self.streaming is None:
            return self.failure
        return self.streaming.error()

    def between_batches(self, stack: ExitStack) -> bool:
        """Whether no batch is running; if so, none begins while the stack is open."""
        if not self._in_hand.acquire(blocking=False):
            return False
        stack.callback(self._in_hand.release)
        return True

    def level_with(self, ends: Mapping[Place, int]) -> bool:
        """Whether the query is prepared, and has committed everything up to `ends`."""
        return bool(self.done) and self.caught_up(ends)

    @property
    def held_back(self) -> bool:
        """Whether its stream time waits for the queries that write its sources."""
        return False

    def caught_up(self, ends: Mapping[Place, int]) -> bool:
        """Whether every topic partition is committed up to `ends`."""
        return all(self.done.get(p, 0) >= end for p, end in ends.items())
