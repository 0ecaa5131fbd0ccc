"""Orders to the queries of a running job: finds the queries, checks and sends orders, waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.errors import Refused
from holdfast.sql.parse.script import did_you_mean
from holdfast.sql.plan.sources.changes import known_id
from holdfast.state.topics.orders import Answer, Order, OrderBook, Told, jobs_with_orders
from holdfast.transport.cluster.admin import Admin
from holdfast.types.status import QueryState

__all__ = [
    "WANTED",
    "Outcome",
    "books",
    "give_orders",
    "id_of",
    "is_answered",
    "job_of",
    "state_now",
]

WANTED = {
    "PAUSE": QueryState.PAUSED,
    "RESUME": QueryState.RUNNING,
    "TERMINATE": QueryState.TERMINATED,
}
_POLL_S = 0.25


@dataclass(frozen=True)
class Outcome:
    """The outcome of orders.

    Attributes:
        obeyed: states that the driver reports, by query id.
        waiting: ids of queries whose order is in the topic but not obeyed yet.
    """

    obeyed: dict[str, Told]
    waiting: tuple[str, ...]


def books(client: Mapping[str, str], timeout_s: float) -> dict[str, OrderBook]:
    """The orders of all jobs of the cluster, by application id.

    Raises:
        KafkaUnavailable: no broker answered in time.
    """
    found = {}
    admin = Admin(client, timeout_s)
    for application_id in jobs_with_orders(client, timeout_s):
        book = OrderBook(admin, client, application_id, timeout_s=timeout_s)
        if book.refresh():
            found[application_id] = book
    return found


def job_of(
    found: Mapping[str, OrderBook], application_id: str | None, query: str | None
) -> tuple[str, OrderBook]:
    """The named job, or the only job that has the query (None: any query).

    Raises:
        Refused: there is no such job, or there are several.
    """
    if application_id is not None:
        if application_id not in found:
            raise Refused(
                f"No job {application_id} has reported the states of its queries.",
                cause="it never ran on this cluster, or only in a version that takes no orders",
                action=did_you_mean(application_id, found) or _known_jobs(found),
            )
        return application_id, found[application_id]
    fitting = {a: b for a, b in found.items() if query is None or known_id(query, b.told)}
    if len(fitting) == 1:
        return next(iter(fitting.items()))
    if fitting:
        raise Refused(
            f"{len(fitting)} jobs have {'queries' if query is None else f'a query {query}'}: "
            f"{', '.join(sorted(fitting))}.",
            action="say which one: application.id",
        )
    ids = sorted({i for book in found.values() for i in book.told})
    what = (
        "No job has reported the states of its queries"
        if query is None
        else f"Unknown queryId: {query}"
    )
    raise Refused(what, action=did_you_mean(query or "", ids) or _known_jobs(found))


def state_now(book: OrderBook, query_id: str) -> QueryState:
    """The state that a query was last ordered to have, whether or not the driver has obeyed."""
    order, told = book.orders.get(query_id), book.told[query_id]
    return QueryState.RUNNING if order is None else order.state_of(told.statement)


def give_orders(
    book: OrderBook, verb: str, query: str | None, *, restore: bool = False, wait_s: float
) -> Outcome:
    """PAUSE, RESUME or TERMINATE (`verb`) a query of a job; None: all queries that it applies to.

    Args:
        restore: RESUME starts terminated queries, too.
        wait_s: how long to wait for the driver to obey.

    Raises:
        Refused: there is no such query, or it was terminated.
        KafkaUnavailable: the order may or may not have been sent.
    """
    orders = {
        i: Order(WANTED[verb], book.told[i].statement) for i in _meant(book, verb, query, restore)
    }
    if orders:
        book.write_orders(orders)
    return _awaited(book, orders, wait_s)


def id_of(book: OrderBook, query: str) -> str:
    """The id of a job's query, in whichever case it was written.

    Raises:
        Refused: there is no such query.
    """
    query_id = known_id(query, book.told)
    if query_id is None:
        raise Refused(
            f"Unknown queryId: {query}",
            action=did_you_mean(query.lower(), book.told)
            or f"the job's queries are: {', '.join(sorted(book.told)) or 'none'}",
        )
    return query_id


def is_answered(answer: Answer | None, token: str, tell: Callable[[str], None]) -> bool:
    """Whether the order with this token has been carried out.

    Args:
        tell: called with what the driver is doing.

    Raises:
        Refused: it could not be.
    """
    if answer is None or answer.token != token:
        return False
    if answer.doing:
        tell(answer.doing)
        return False
    if answer.fact:
        raise Refused(answer.fact, cause=answer.cause, action=answer.action)
    return True


def _meant(book: OrderBook, verb: str, query: str | None, restore: bool) -> list[str]:
    if query is None:
        return [i for i in sorted(book.told) if not _refusal(book, verb, i, restore)]
    query_id = id_of(book, query)
    refusal = _refusal(book, verb, query_id, restore)
    if refusal:
        raise Refused(
            refusal,
            action=f"`holdfast resume {query_id} --restore` starts it again where it stopped",
        )
    return [query_id]


def _refusal(book: OrderBook, verb: str, query_id: str, restore: bool) -> str:
    """Why an order is refused; empty if it is allowed."""
    ended = state_now(book, query_id) is QueryState.TERMINATED
    if ended and (verb == "PAUSE" or (verb == "RESUME" and not restore)):
        return f"{query_id} was terminated: {verb} cannot reach it."
    return ""


def _awaited(book: OrderBook, orders: Mapping[str, Order], wait_s: float) -> Outcome:
    deadline = time.monotonic() + wait_s
    while True:
        obeyed = {
            i: told
            for i, order in orders.items()
            if (told := book.told.get(i)) is not None and told.token == order.token
        }
        waiting = tuple(i for i in orders if i not in obeyed)
        if not waiting or time.monotonic() >= deadline:
            return Outcome(obeyed, waiting)
        time.sleep(_POLL_S)
        book.refresh()


def _known_jobs(found: Mapping[str, OrderBook]) -> str:
    return f"jobs that take orders: {', '.join(sorted(found)) or 'none'}"
