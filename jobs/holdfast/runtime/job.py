"""A job: all queries of a Topology in one Spark application, from start to clean stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext

from holdfast.config.settings import Settings
from holdfast.errors import InvalidStatement, ResultRefused
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.insertions import write_insertions
from holdfast.runtime.jvm.session import is_local, spark_context
from holdfast.runtime.jvm.spark_internals import no_numpy_to_java
from holdfast.runtime.jvm.starting import ends_at_once
from holdfast.runtime.purge import Purge
from holdfast.runtime.queries.cutting import Cutting
from holdfast.runtime.queries.keep_going import KeepGoing
from holdfast.runtime.queries.kinds import run_of
from holdfast.runtime.queries.layouts import Layouts
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.rescaling.rescaler import Rescaler
from holdfast.runtime.savepoints.first_start import FirstStart
from holdfast.runtime.savepoints.taking import SavepointMaker
from holdfast.runtime.schemas import needs_registry, with_registered
from holdfast.runtime.standbys import StandbyKeeper
from holdfast.runtime.steering import Steering
from holdfast.runtime.topics import ensure_topics
from holdfast.runtime.watching.caught_up import CaughtUp
from holdfast.runtime.watching.endpoint import health_pages, serve
from holdfast.runtime.watching.health import Health
from holdfast.runtime.watching.left_out import LeftOutCounts
from holdfast.runtime.watching.metrics import Metrics
from holdfast.runtime.watching.scoreboard import Scoreboard
from holdfast.runtime.watching.watch import Watch
from holdfast.state.topics.orders import OrderBook
from holdfast.state.topics.sink_owners import SinkOwners
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.registry import open_registry
from holdfast.types.status import JobState
from holdfast.types.topology import Topology

__all__ = ["run"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.25
_FINISH_S = 30.0


def run(topology: Topology, settings: Settings, *, stop_when_caught_up: bool = False) -> None:
    """Runs until a signal, a failed query, or (if asked) until it has caught up with its topics.

    Raises:
        HoldfastError: a query could not start or continue.
    """
    if not topology.queries:
        raise InvalidStatement(
            "The file has no CREATE TABLE … AS SELECT or CREATE STREAM … AS SELECT.",
            action="add one; a job without a query has nothing to do",
        )
    topology, stop = _registered(topology, settings), threading.Event()
    metrics = Metrics(settings.application_id)
    health = Health([q.id for q in topology.queries], settings.retry_timeout_ms / 1000)
    board = Scoreboard(
        settings.home, settings.application_id, topology.queries, metrics, settings.warn
    )
    # Before anything else, so that probes get an answer while Spark starts and stores are restored.
    _listen(settings, metrics, health, board)
    try:
        admin = Admin(settings.client())
        admin.wait_ready(30.0)
        book = OrderBook(
            admin, settings.client(), settings.application_id,
            replicas=settings.state.changelog_replicas,
        )  # fmt: skip
        book.refresh()
        layouts = Layouts(book)
        topics = {
            q.id: ensure_topics(admin, settings, q, layouts.of(q.id)) for q in topology.queries
        }
        with _spark(settings, stop) as context:
            state_dir = str(Path(settings.state.dir or Path(settings.home, "state")).resolve())
            cluster = Cluster(context, settings, state_dir)
            board.attach(cluster)
            beginning = FirstStart(admin, settings, topology, book)
            internal = frozenset(q.sink.topic for q in topology.queries if q.sink.internal)
            services = Services(
                context, settings, admin, cluster, state_dir, board.observe, health,
                Cutting(admin, settings, topology.queries), internal_topics=internal,
                not_whole=internal | beginning.not_whole,
                owners=SinkOwners(
                    admin, settings.client(), replicas=settings.state.changelog_replicas
                ),
                layouts=layouts,
            )  # fmt: skip
            runs = [run_of(services, q, topics[q.id]) for q in topology.queries]
            health.phase("preparing the queries")
            beginning.bring_in(runs)
            write_insertions(admin, settings, topology.insertions)
            watch = Watch(admin, settings, metrics, health)
            steering = Steering(book, topology.queries, board, health, stop)
            savepoints = SavepointMaker(services, book, topology.text)
            counts = LeftOutCounts(settings, topology.queries, board.counted)
            rescaler = Rescaler(services, book)
            looks = _Looks(board, watch, steering, counts, savepoints, rescaler)
            with StandbyKeeper(cluster, board.standbys_told):
                _drive(runs, services, looks, stop, stop_when_caught_up=stop_when_caught_up)
    finally:
        board.state(JobState.STOPPED)


def _registered(topology: Topology, settings: Settings) -> Topology:
    """The Topology with the ids of its sinks' schemas; asks a registry only if there are any."""
    if not needs_registry(topology):
        return topology
    return with_registered(topology, open_registry(settings.registry.client()))


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
    with ends_at_once():
        context = spark_context(settings)
    # After Spark has started, because Spark's own handlers would replace these.
    _on_signals(stop)
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
        _stop_streams(runs, services)
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


def _stop_streams(runs: list[QueryRun], services: Services) -> None:
    """Lets the current batch finish, prevents the next one, and ends the streams.

    Interrupting a batch does no harm, but Java logs pages of stack traces.
    """
    with services.turn.last(_FINISH_S):
        for run_ in runs:
            if run_.streaming is not None:
                run_.streaming.stop()


def _stop(context: SparkContext) -> None:
    try:
        context.stop()
    except Exception as error:  # noqa: BLE001 - Spark's JVM may be gone already; stopping must not hide why
        _LOG.debug("Spark did not stop cleanly: %s", error)


def _on_signals(stop: threading.Event) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    handler: Callable[[int, object], None] = lambda _signal, _frame: stop.set()  # noqa: E731
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
