"""Obeys PAUSE, RESUME and TERMINATE: which queries of a running job take batches (ADR 16).

    RUNNING <-> PAUSED        a paused query's current batch ends, then its stream; when resumed,
                              it continues from its commit markers, as after any restart
    either -> TERMINATED      the same, for good: no driver starts it again until its statement
                              changes, or an order restores it

Stores, topics and progress are kept in every state.  An order applies to all steps of a statement.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from holdfast.errors import HoldfastError, PlanAgain, ResultRefused, Retriable
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.watching.health import Health
from holdfast.runtime.watching.scoreboard import Scoreboard
from holdfast.state.topics.orders import Order, OrderBook, Told, statement_digest
from holdfast.types.statements.topology import Query, statements
from holdfast.types.status import QueryState

__all__ = ["Steering"]

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0
_AGAIN_S = 10.0  # retry interval if no broker answers: the main loop has other work

Stand = Callable[[QueryRun, ResultRefused], None]
"""Has a query stand still that cannot go on, and says so."""


class Steering:
    """Owns the desired state of each query of a job, and publishes the actual one."""

    def __init__(
        self,
        book: OrderBook,
        queries: Sequence[Query],
        board: Scoreboard,
        health: Health,
        stop: threading.Event,
    ) -> None:
        self._book = book
        self._statements = statements(queries)
        self._digests = {i: statement_digest(of[-1]) for i, of in self._statements.items()}
        self._board = board
        self._health = health
        self._stop = stop
        self._next = 0.0
        self._mute = False
        # Queries with an old order that the job has run without since.
        self._anew: set[str] = set()

    def at_start(self, runs: Sequence[QueryRun]) -> None:
        """Holds paused and terminated queries; called before any query is prepared.

        Raises:
            KafkaUnavailable, Refused: the orders are unknown.
        """
        self._book.refresh()
        self._anew = {i for i in self._book.orders if i not in self._book.told}
        for query_id, of_statement in self._statements.items():
            if self._wanted(query_id) is not QueryState.RUNNING:
                for run_ in _of(runs, of_statement):
                    run_.hold()
                self._now(query_id, self._wanted(query_id))

    def look(self, runs: Sequence[QueryRun], stand: Stand) -> None:
        """Called on every iteration of the main loop.

        Args:
            stand: takes a resumed query that has a record too large for its topic.

        Raises:
            HoldfastError: a resumed query cannot start, and a retry does not help.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_S
        try:
            self._book.refresh()
        except HoldfastError as error:  # the last known orders stay in force
            self._next = time.monotonic() + _AGAIN_S
            _LOG.warning("The orders cannot be read: %s", error.fact)
            return
        for query_id, of_statement in self._statements.items():
            if self._obeyed(query_id, _of(runs, of_statement), stand):
                self._now(query_id, self._wanted(query_id))
        if not self._mute:
            self._tell(runs)

    def _wanted(self, query_id: str) -> QueryState:
        order = self._book.orders.get(query_id)
        if order is None or query_id in self._anew:
            return QueryState.RUNNING
        return order.state_of(self._digests[query_id])

    def _obeyed(self, query_id: str, runs: Sequence[QueryRun], stand: Stand) -> bool:
        """Carries out the order for one statement; False: not done yet."""
        if self._wanted(query_id) is QueryState.RUNNING:
            done = [self._goes_on(run_, stand) for run_ in runs if run_.held]
        else:
            done = [run_.hold() for run_ in runs]
        if self._wanted(query_id) is QueryState.TERMINATED and all(done):
            return all(_gave_up(run_) for run_ in runs)
        return all(done)

    def _goes_on(self, run_: QueryRun, stand: Stand) -> bool:
        if not run_.hold():  # its current batch has not ended yet
            return False
        _LOG.info("%s is resumed", run_.query.id)
        self._health.phase(f"resuming {run_.query.id}")
        run_.release()
        try:
            run_.prepare()
            run_.stream()
        except (PlanAgain, Retriable) as error:
            _LOG.warning("%s is not resumed yet: %s", run_.query.id, error.fact)
            run_.hold()
            return False
        except ResultRefused as error:
            stand(run_, error)
        finally:
            self._health.serving()
        return True

    def _now(self, query_id: str, state: QueryState) -> None:
        for query in self._statements[query_id]:
            if self._board.steered(query.id, state):
                _LOG.info("%s is %s", query.id, state)

    def _tell(self, runs: Sequence[QueryRun]) -> None:
        """Publishes changed states to the topic.  No driver decides anything by them."""
        anew = self._anew.intersection(self._statements)
        now = {i: self._told(i, _of(runs, of)) for i, of in self._statements.items()}
        known = self._book.told
        new = {i: told for i, told in now.items() if _differs(known.get(i), told)}
        gone = [i for i in known if i not in now]
        if not new and not gone:
            return
        try:
            if anew:
                runs_again = {i: Order(QueryState.RUNNING, self._digests[i]) for i in anew}
                self._book.write_orders(runs_again)
            self._book.tell(new, gone)
            self._anew.clear()
        except Retriable:
            return
        except HoldfastError as error:
            self._mute = True
            _LOG.warning("The states of the queries cannot be published: %s", error.fact)

    def _told(self, query_id: str, runs: Sequence[QueryRun]) -> Told:
        order, state = self._book.orders.get(query_id), self._board.state_of(query_id)
        done = state is self._wanted(query_id)
        before = self._book.told.get(query_id)
        token = order.token if order is not None and done else before.token if before else ""
        sink = self._statements[query_id][-1].sink.name
        batch_id = max((r.batch_id for r in runs), default=0) - 1
        return Told(state, sink, self._digests[query_id], token, batch_id)


def _gave_up(run_: QueryRun) -> bool:
    """Releases the sink of a terminated query; False: the broker did not answer, try again."""
    try:
        run_.give_up_sink()
    except HoldfastError as error:
        _LOG.warning("%s still owns its sink: %s", run_.query.id, error.fact)
        return False
    return True


def _of(runs: Sequence[QueryRun], of_statement: Sequence[Query]) -> list[QueryRun]:
    ids = {query.id for query in of_statement}
    return [run_ for run_ in runs if run_.query.id in ids]


def _differs(known: Told | None, now: Told) -> bool:
    """Whether more than the batch number changed; batches alone are not worth a record."""
    return known is None or (known.state, known.sink, known.statement, known.token) != (
        now.state, now.sink, now.statement, now.token,
    )  # fmt: skip
