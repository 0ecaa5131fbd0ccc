"""A driver in miniature: the real `QueryRun` on the fake Spark, one query, one life.

The stream of batches is the loop in `advance`: the engine's planner says where each ends, and a
stream that failed starts again from the commit markers, as `runtime.queries.keep_going` has it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from holdfast.config.settings import PlacementSettings, Settings, StateSettings
from holdfast.errors import HoldfastError, PlanAgain, Retriable
from holdfast.ingest import planner
from holdfast.runtime.carrying_out import InHand
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.queries import feeds, stores
from holdfast.runtime.queries.batches import shuffled as shuffled_batch
from holdfast.runtime.queries.batches.cutting import Cutting
from holdfast.runtime.queries.kinds import run_of
from holdfast.runtime.queries.layouts import Layouts
from holdfast.runtime.queries.services import Services
from holdfast.runtime.rescaling.rescaler import Rescaler
from holdfast.runtime.savepoints.first_start import FirstStart
from holdfast.runtime.topics import ensure_topics
from holdfast.runtime.watching.health import Health
from holdfast.state.topics.orders import Answer, OrderBook, RescaleOrder
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import Planned
from holdfast.types.statements.topology import Query, Topology
from tests.simulation.fakes.clients import FakeAdmin
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.fakes.spark import FakeContext, JobAborted

__all__ = ["APPLICATION", "DELETE_RETENTION_MS", "Cut", "Job", "install_streams", "settings_of"]

Cut = Callable[[Mapping[Place, int], Mapping[Place, tuple[int, int]]], dict[Place, int]]
"""Where a batch has to end at the latest, of its begin and the bounds of its topics."""

APPLICATION = "app"
_PAUSE_S = 1.0
_ATTEMPTS = 60  # errors in a row that are retried; more is a job that hangs
DELETE_RETENTION_MS = 60_000
_Next = tuple[OffsetRange, Planned]


def install_streams(patch: Any, cut: Cut) -> None:
    """Streams take a batch when they are told to, and no thread runs beside.

    Args:
        cut: makes batches smaller than the planner would.
    """

    class Cutting(planner.Planner):
        def plan(
            self, begin: Mapping[Place, int], target: Mapping[Place, int] | None = None
        ) -> Planned:
            limits = cut(begin, planner.bounds_of(self._options))
            # What brings a state partition level has an end of its own: no batch is beyond it.
            return super().plan(begin, limits if target is None else _nearer(target, limits))

    patch.setattr(feeds, "Planner", Cutting)
    patch.setattr(feeds, "Stream", _ByHand)
    for module in (shuffled_batch, stores):
        patch.setattr(module, "AT_ONCE", 1)


def _nearer(target: Mapping[Place, int], limits: Mapping[Place, int]) -> dict[Place, int]:
    return {place: min(at, limits.get(place, at)) for place, at in target.items()}


def settings_of(rng: random.Random, partitions: int, executors: int) -> Settings:
    state = StateSettings(
        partitions=partitions,
        delete_retention_ms=DELETE_RETENTION_MS,
        restore_batch_records=rng.choice((2, 5, 50_000)),
        acceptable_recovery_lag=rng.choice((0, 10, 10_000)),
    )
    placement = PlacementSettings(executors=executors, wait_ms=3_000)
    retry_timeout_ms = rng.choice((20_000, 300_000))  # after it the stream starts again
    return Settings(
        APPLICATION, "fake:1", retry_timeout_ms=retry_timeout_ms, state=state, placement=placement
    )


@dataclass
class _ByHand:
    """`Stream` without a thread."""

    name: str
    plan: Callable[[], _Next | None]
    work: Callable[[_Next, Callable[[], bool]], None]
    interval_s: float

    def take(self, unwanted: Callable[[], bool]) -> bool:
        """One batch; false when there is nothing to read."""
        found = self.plan()
        if found is not None:
            self.work(found, unwanted)
        return found is not None

    def error(self) -> None:
        """Errors are raised where the batch is taken."""

    def stop(self) -> None:
        """Nothing goes on by itself."""


class _Told(InHand[RescaleOrder]):
    """A rescale during which something else goes on, too."""

    meanwhile: Callable[[], None]

    def does(self, what: str) -> None:
        super().does(what)
        self.meanwhile()


class Job:
    """One driver, from its start to its death or the end of the input."""

    def __init__(
        self, settings: Settings, query: Query, admin: FakeAdmin, clock: VirtualTime,
        cutting: Cutting | None = None,
    ) -> None:  # fmt: skip
        self.clock = clock
        context, any_admin = cast("Any", FakeContext()), cast("Any", admin)
        services = Services(
            context=context,
            settings=settings,
            admin=any_admin,
            cluster=Cluster(context, settings, "state"),
            state_dir="state",
            on_reports=lambda *_: None,
            health=Health((query.id,), 300.0, clock.monotonic),
            cutting=cutting or Cutting(any_admin, settings, [query]),
        )
        self.services = services
        self.cluster = services.cluster
        book = OrderBook(any_admin, settings.client(), settings.application_id)
        book.refresh()
        self._book = book
        services.layouts = Layouts(book)
        layout = services.layouts.of(query.id)
        self.run = run_of(services, query, ensure_topics(any_admin, settings, query, layout))
        try:
            FirstStart(any_admin, settings, Topology((query,)), book).bring_in([self.run])
        except JobAborted as aborted:
            raise aborted.cause from aborted
        self._prepared = False
        self._failures = 0

    def advance(self) -> None:
        """Takes in what the input holds now.

        Raises:
            HoldfastError: for good, or too often in a row.
        """
        while self.step():
            pass

    def step(self) -> bool:
        """One batch, after whatever it takes to get there; false when there is nothing to read.

        Raises:
            HoldfastError: for good, or too often in a row.
        """
        try:
            more = self._attempt()
        except (PlanAgain, Retriable):
            self._failures += 1
            if self._failures > _ATTEMPTS:
                raise
            self._prepared = False
            self.clock.sleep(_PAUSE_S)
            return True
        self._failures = 0
        return more

    def keep_standbys(self) -> None:
        """One look of the driver's `StandbyKeeper`."""
        with suppress(HoldfastError, JobAborted):
            self.cluster.look_again()
            self.cluster.keep_standbys(self.cluster.duties())

    def rescale(self, partitions: int, meanwhile: Callable[[], None]) -> str:
        """Does what the driver's other thread does when a rescale is ordered; "" on success.

        Args:
            meanwhile: what goes on beside it.
        """
        order = RescaleOrder(partitions)
        current = _Told(self.run.query.id, order, Answer(order.token))
        current.meanwhile = meanwhile
        failed = ""
        try:
            rescaler = Rescaler(self.services, self._book)
            rescaler.carry_out(current, self.run, threaded=False, attempts=1)
        except (HoldfastError, JobAborted) as error:
            failed = type(error).__name__
        if self.run.held:  # as `runtime.steering` lets it go on
            with suppress(HoldfastError):
                self._book.refresh()
            self.resume()
        return failed

    def pause(self) -> None:
        """Told to hold: a batch that was planned by then is passed over."""
        stream = self.run.streaming
        assert self.run.hold(), "a batch is in hand"
        before = self.run.batch_id, dict(self.run.done)
        with suppress(PlanAgain, Retriable):
            if stream is not None:
                cast("_ByHand", stream).take(lambda: self.run.held)
        assert before == (self.run.batch_id, self.run.done)

    def resume(self) -> None:
        """Told to go on: from the commit markers, as after a start."""
        self.run.release()
        self._prepared = False

    def _attempt(self) -> bool:
        try:
            if not self._prepared:
                self.run.prepare()
                self.run.stream()
                self._prepared = True
            stream = cast("_ByHand", self.run.streaming)
            return stream.take(lambda: self.run.held) or not self.run.show_progress()
        except JobAborted as aborted:  # `runtime.jvm.failures` reads the cause from Spark's text
            raise aborted.cause from aborted
