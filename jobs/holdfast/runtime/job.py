"""A job: all queries of a Topology in one Spark application, from start to a clean stop."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, InvalidStatement
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.failures import from_spark
from holdfast.runtime.metrics import Metrics
from holdfast.runtime.query_run import QueryRun, Services
from holdfast.runtime.scoreboard import Scoreboard
from holdfast.runtime.session import is_local, spark_session
from holdfast.runtime.start_streams import start_streams
from holdfast.runtime.topics import dead_letters, ensure_topics
from holdfast.transport.admin import Admin
from holdfast.transport.record_count import RecordCount
from holdfast.types.status import JobState
from holdfast.types.topology import Topology

__all__ = ["run"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.25
_LAG_EVERY_S = 2.0
_FINISH_S = 30.0


def run(
    topology: Topology,
    settings: Settings,
    *,
    data_source: type[DataSource],
    stop_when_caught_up: bool = False,
) -> None:
    """Runs until a signal stops it, a query fails, or (if asked) it has caught up with its topics.

    Raises:
        HoldfastError: why a query could not start or go on.
    """
    if not topology.queries:
        raise InvalidStatement(
            "The file has no CREATE TABLE … AS SELECT or CREATE STREAM … AS SELECT.",
            action="add one; a job without a query has nothing to do",
        )
    stop = threading.Event()
    admin = Admin(settings.client())
    admin.wait_ready(30.0)
    topics = {q.id: ensure_topics(admin, settings, q) for q in topology.queries}
    session = spark_session(settings)
    # After Spark, whose own handlers would otherwise replace these.
    _on_signals(stop)
    try:
        session.dataSource.register(data_source)
        state_dir = str(Path(settings.state.dir or Path(settings.home, "state")).resolve())
        cluster = Cluster(session.sparkContext, settings, state_dir)
        metrics = Metrics(settings.application_id)
        url = metrics.serve(settings.metrics_port, "127.0.0.1" if is_local(settings) else "")
        board = Scoreboard(settings.home, settings.application_id, metrics, url, cluster)
        services = Services(session, settings, admin, cluster, state_dir, board.observe)
        runs = [QueryRun(services, q, topics[q.id]) for q in topology.queries]
        for query in topology.queries:
            board.declare(query)
        _LOG.info("Metrics at %s", url)
        board.state(JobState.RESTORING)
        watch = _Watch(admin, settings, metrics)
        _drive(runs, services, board, watch, stop, stop_when_caught_up=stop_when_caught_up)
    finally:
        _stop(session)


def _drive(
    runs: list[QueryRun],
    services: Services,
    board: Scoreboard,
    watch: _Watch,
    stop: threading.Event,
    *,
    stop_when_caught_up: bool,
) -> None:
    try:
        for run_ in runs:
            if stop.is_set():
                return
            run_.prepare()
        board.state(JobState.RUNNING)
        start_streams(runs, stop)
        targets = {r.query.id: watch.ends(r) for r in runs}
        while not stop.wait(_POLL_S):
            _raise_failure(runs)
            watch.observe(runs)
            if stop_when_caught_up and all(r.caught_up(targets[r.query.id]) for r in runs):
                _LOG.info("Caught up with every topic as it was at the start")
                return
    finally:
        _stop_streams(runs, services)
        board.state(JobState.STOPPED)


class _Watch:
    """Keeps the lag metrics fresh without asking the broker at every turn."""

    def __init__(self, admin: Admin, settings: Settings, metrics: Metrics) -> None:
        self._admin = admin
        self._metrics = metrics
        keeps = settings.ingest.on_undecodable == "dead-letter"
        self._letters = RecordCount(settings.client(), dead_letters(settings)) if keeps else None
        self._next = 0.0

    def ends(self, run_: QueryRun) -> dict[int, int]:
        """Read-committed end offsets of the query's source topic."""
        return {p: end for p, (_, end) in self._admin.bounds(run_.query.source.topic).items()}

    def observe(self, runs: list[QueryRun]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LAG_EVERY_S
        with suppress(HoldfastError):  # the broker may be away; numbers keep their last value
            if self._letters is not None:
                self._metrics.dead_letters(self._letters.count())
            for run_ in runs:
                ends = self.ends(run_)
                lag = sum(max(0, end - run_.done.get(p, 0)) for p, end in ends.items())
                self._metrics.lag(run_.query, lag)


def _raise_failure(runs: list[QueryRun]) -> None:
    for run_ in runs:
        error = run_.failure
        streaming = run_.streaming
        if error is None and streaming is not None and not streaming.isActive:
            error = streaming.exception()
        if error is not None:
            raise from_spark(run_.query.id, error) from error


def _stop_streams(runs: list[QueryRun], services: Services) -> None:
    """Lets the batch in hand finish, keeps the next from starting, and ends the streams.

    A batch may be interrupted without harm, but not without pages of Java's complaints.
    """
    services.stopping.set()
    finished = services.turn.acquire(timeout=_FINISH_S)
    for run_ in runs:
        if run_.streaming is not None:
            with suppress(PySparkException):
                run_.streaming.stop()
    if finished:
        services.turn.release()


def _stop(session: SparkSession) -> None:
    try:
        session.stop()
    except Exception as error:  # noqa: BLE001 - Spark's JVM may be gone already; stopping must not hide why
        _LOG.debug("Spark did not stop cleanly: %s", error)


def _on_signals(stop: threading.Event) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    handler: Callable[[int, object], None] = lambda _signal, _frame: stop.set()  # noqa: E731
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
