"""A job: all queries of a Topology in one Spark application, from start to clean stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, ResultRefused
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.insertions import write_insertions
from holdfast.runtime.jvm.session import is_local, spark_context
from holdfast.runtime.jvm.spark_internals import (
    ended_executors,
    leave_sigterm_to_python,
    no_numpy_to_java,
)
from holdfast.runtime.jvm.starting import ends_at_once
from holdfast.runtime.lease import Lease, this_driver
from holdfast.runtime.purge import Purge
from holdfast.runtime.queries.batches.cutting import Cutting
from holdfast.runtime.queries.keep_going import KeepGoing
from holdfast.runtime.queries.kinds import run_of
from holdfast.runtime.queries.layouts import Layouts
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.queries.services import OnReports, Services
from holdfast.runtime.rescaling.rescaler import Rescaler
from holdfast.runtime.savepoints.first_start import FirstStart
from holdfast.runtime.savepoints.taking import SavepointMaker
from holdfast.runtime.schemas import to_register, with_registered
from holdfast.runtime.standbys import StandbyKeeper
from holdfast.runtime.steering import Steering
from holdfast.runtime.topics import QueryTopics, ensure_topics, need_queries
from holdfast.runtime.watching.caught_up import CaughtUp
from holdfast.runtime.watching.endpoint import health_pages, serve
from holdfast.runtime.watching.health import Health
from holdfast.runtime.watching.left_out import LeftOutCounts
from holdfast.runtime.watching.metrics import Metrics
from holdfast.runtime.watching.scoreboard import Scoreboard
from holdfast.runtime.watching.tracing import Tracer, open_tracer
from holdfast.runtime.watching.watch import Watch
from holdfast.state.topics.orders import OrderBook
from holdfast.state.topics.sink_owners import SinkOwners
from holdfast.tasks.plan import Batch, TaskReport
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.registry import open_registry
from holdfast.types.statements.topology import Query, Topology
from holdfast.types.status import JobState

__all__ = ["run"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.25
_FINISH_S = 30.0


def run(
    topology: Topology,
    settings: Settings,
    *,
    stop_when_caught_up: bool = False,
    take_over: bool = False,
    executors: Callable[[], int] | None = None,
) -> None:
    """Runs until a signal, a failed query, or (if asked) until it has caught up with its topics.

    Args:
        take_over: end another driver that runs this job, rather than be refused.
        executors: tells how many there shall be by now; None: what the settings say.

    Raises:
        HoldfastError: a query could not start or continue.
    """
    need_queries(topology)
    stop = threading.Event()
    metrics = Metrics(settings.application_id)
    health = Health([q.id for q in topology.queries], settings.retry_timeout_ms / 1000)
    board = Scoreboard(
        settings.home, settings.application_id, topology.queries, metrics, settings.warn
    )
    # Before anything else, so that probes get an answer while Spark starts and stores are restored.
    _listen(settings, metrics, health, board)
    tracer = open_tracer(settings)
    try:
        admin = Admin(settings.client())
        book = _book(admin, settings)
        layouts = Layouts(book)
        lease = Lease(settings, book, this_driver(settings), stop)
        with _leased(lease, take_over=take_over):
            owners = _owners(admin, settings)
            owners.check_all(topology.queries, settings.application_id)  # before it makes anything
            topology = _registered(topology, settings)
            topics = _topics(admin, settings, topology, layouts)
            with _spark(settings, stop) as context:
                state_dir = str(Path(settings.state.dir or Path(settings.home, "state")).resolve())
                cluster = Cluster(context, settings, state_dir, executors)
                board.attach(cluster)
                beginning = FirstStart(admin, settings, topology, book)
                internal = frozenset(q.sink.topic for q in topology.queries if q.sink.internal)
                services = Services(
                    context, settings, admin, cluster, state_dir, _told(board, tracer), health,
                    Cutting(admin, settings, topology.queries), internal_topics=internal,
                    not_whole=internal | beginning.not_whole,
                    owners=owners, layouts=layouts, tracer=tracer,
                )  # fmt: skip
                runs = [run_of(services, q, topics[q.id]) for q in topology.queries]
                health.phase("preparing the queries")
                _take(lease, cluster, take_over=take_over)
                beginning.bring_in(runs)
                write_insertions(admin, settings, topology.insertions)
                looks = _looks(services, topology, board, metrics, lease)
                with StandbyKeeper(cluster, board.standbys_told):
                    _drive(runs, services, looks, stop, stop_when_caught_up=stop_when_caught_up)
    finally:
        _stopped(board, tracer)


def _stopped(board: Scoreboard, tracer: Tracer | None) -> None:
    board.state(JobState.STOPPED)
    if tracer is not None:
        tracer.close()


def _told(board: Scoreboard, tracer: Tracer | None) -> OnReports:
    """The observer of every batch's reports."""
    if tracer is None:
        return board.observe

    def both(query: Query, batch: Batch, reports: list[TaskReport], seconds: float) -> None:
        board.observe(query, batch, reports, seconds)
        tracer.observe(query, batch, reports, seconds)

    return both


def _registered(topology: Topology, settings: Settings) -> Topology:
    """The Topology with the ids of its sinks' schemas; asks a registry only if there are any."""
    if not any(to_register(topology)):
        return topology
    return with_registered(topology, open_registry(settings.registry.client()))


def _book(admin: Admin, settings: Settings) -> OrderBook:
    """The job's orders, as they are now; waits for a broker."""
    admin.wait_ready(30.0)
    replicas = settings.state.changelog_replicas
    book = OrderBook(admin, settings.client(), settings.application_id, replicas=replicas)
    book.refresh()
    return book


def _owners(admin: Admin, settings: Settings) -> SinkOwners:
    """The record of which query owns which sink."""
    return SinkOwners(admin, settings.client(), replicas=settings.state.changelog_replicas)


def _topics(
    admin: Admin, settings: Settings, topology: Topology, layouts: Layouts
) -> dict[str, QueryTopics]:
    return {q.id: ensure_topics(admin, settings, q, layouts.of(q.id)) for q in topology.queries}


@contextmanager
def _leased(lease: Lease, *, take_over: bool) -> Iterator[None]:
    """Gives the job's lease back at the end, and refuses to begin while another driver has it.

    Whatever fails once another driver has taken it, fails because of that.
    """
    if lease.settings.lease and not take_over:
        lease.look()
    try:
        yield
    except HoldfastError:
        lease.check()
        raise
    finally:
        lease.give_back()
    lease.check()


def _take(lease: Lease, cluster: Cluster, *, take_over: bool) -> None:
    """Takes the lease, as late as possible: until then another driver goes on."""
    if not lease.settings.lease:
        return
    if take_over:
        cluster.locations()  # waits for the executors
    else:
        lease.look(joins_s=0.0)
    lease.take()


def _listen(settings: Settings, metrics: Metrics, health: Health, board: Scoreboard) -> None:
    address = "127.0.0.1" if is_local(settings) else ""
    pages = health_pages(health, board.as_json)
    metrics.readiness(health.why_not_ready)
    url = serve(settings.metrics_port, address, metrics.application(), pages)
    board.listens(f"{url}/metrics")
    _LOG.info("Metrics at %s/metrics; /status, /ready and /live beside it", url)


@contextmanager
def _spark(settings: Settings, stop: threading.Event) -> Iterator[SparkContext]:
    no_numpy_to_java()
    with ends_at_once(then=lambda _signal, _frame: stop.set()):
        context = spark_context(settings)
        leave_sigterm_to_python(context)
    try:
        yield context
    finally:
        _stop(context)


@dataclass(frozen=True)
class _Looks:
    """The periodic checks of the main loop."""

    board: Scoreboard
    watch: Watch
    steering: Steering
    counts: LeftOutCounts
    savepoints: SavepointMaker
    rescaler: Rescaler
    lease: Lease


def _looks(
    services: Services, topology: Topology, board: Scoreboard, metrics: Metrics, lease: Lease
) -> _Looks:
    settings, health, book = services.settings, services.health, lease.book
    return _Looks(
        board,
        Watch(services.admin, settings, metrics, health),
        Steering(book, topology.queries, board, health, lease.stop),
        LeftOutCounts(settings, topology.queries, board.counted),
        SavepointMaker(services, book, topology.text),
        Rescaler(services, book),
        lease,
    )


def _drive(
    runs: list[QueryRun],
    services: Services,
    looks: _Looks,
    stop: threading.Event,
    *,
    stop_when_caught_up: bool,
) -> None:
    health, watch = services.health, looks.watch
    purge = Purge(services.admin, services.internal_topics)
    keep_going = KeepGoing(
        runs, stop, health, services.settings.retry_timeout_ms / 1000, ends=stop_when_caught_up
    )
    try:
        looks.steering.at_start(runs)
        _start(runs, keep_going, health, looks, stop)
        if stop.is_set():
            return
        goal = CaughtUp(watch) if stop_when_caught_up else None
        health.serving()
        while not stop.wait(_POLL_S):
            keep_going.check()
            looks.steering.look(runs, keep_going.stand)
            looks.savepoints.look(runs)
            looks.rescaler.look(runs)
            watch.observe(runs)
            looks.counts.look()
            services.cutting.look(runs)
            _show_progress(runs)
            purge.look(runs)
            if goal is not None and goal.reached(runs):
                _LOG.info("Caught up with every topic as it was at the start")
                return
    finally:
        health.phase("stopping")
        if looks.lease.lost:
            _stop_streams(runs, services, 0.0)
        else:
            _stop_streams(runs, services, _FINISH_S)
            _show_progress(runs)
            looks.counts.look(now=True)
            purge.delete(runs)


def _start(
    runs: Sequence[QueryRun],
    keep_going: KeepGoing,
    health: Health,
    looks: _Looks,
    stop: threading.Event,
) -> None:
    """Prepares and starts all queries that are neither paused nor terminated."""
    starting = [run_ for run_ in runs if not run_.held]
    standing: list[QueryRun] = []
    for number, run_ in enumerate(starting, 1):
        if stop.is_set():
            return
        doing = "restoring" if run_.restores() else "preparing"
        health.phase(f"{doing} {run_.query.id}, query {number} of {len(starting)}")
        try:
            run_.prepare()
        except ResultRefused as error:
            keep_going.stand(run_, error)
            standing.append(run_)
    looks.board.state(JobState.RUNNING)
    health.phase("starting the streams")
    # Orders may arrive as soon as first results are visible.
    looks.steering.look(runs, keep_going.stand)
    for run_ in starting:
        if run_ not in standing and not run_.held and not stop.is_set():
            run_.stream()


def _show_progress(runs: list[QueryRun]) -> None:
    """Commits group offsets for lag tools; stops at the first query without an answer."""
    all(run_.show_progress() for run_ in runs)


def _stop_streams(runs: list[QueryRun], services: Services, finish_s: float) -> None:
    """Lets the current batch finish, prevents the next one, and ends the streams.

    Interrupting a batch does no harm, but Java logs pages of stack traces.

    Args:
        finish_s: for how long at most.  A batch that is being tried again is not worth the wait,
            nor one that loses an executor meanwhile, as when an image changes.
    """
    ended = _ended(services.context)

    def doomed(query_id: str) -> bool:
        tried_again = bool(services.cluster.waits_for(query_id))
        return tried_again or _ended(services.context) > ended

    with services.turn.last(finish_s, doomed):
        for run_ in runs:
            if run_.streaming is not None:
                run_.streaming.stop()


def _ended(context: SparkContext) -> int:
    try:
        return ended_executors(context)
    except Exception as error:  # noqa: BLE001 - as at `_stop`
        _LOG.debug("Spark does not tell its executors: %s", error)
        return 0


def _stop(context: SparkContext) -> None:
    try:
        context.stop()
    except Exception as error:  # noqa: BLE001 - Spark's JVM may be gone already; stopping must not hide why
        _LOG.debug("Spark did not stop cleanly: %s", error)
