"""Retries the partitions of a batch until all of them are done.

The driver never decides what was committed; it sends the batch to every state partition (or topic
partition of a stateless query), and each one skips, commits or answers with an error.  Partitions
with a retriable error are retried.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.errors import ExecutorsMissing, HoldfastError, NotOwner, Retriable
from holdfast.runtime.cluster import Cluster
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, StreamPlan, TaskReport
from holdfast.tasks.worker import Answer

__all__ = ["Homes", "stores_done", "until_done"]

_LOG = logging.getLogger(__name__)
_BACKOFF_S = (0.1, 0.2, 0.5, 1.0, 2.0)
# State partition -> its volume with the position of its store, and the Spark location.
Homes = Mapping[int, tuple[Assigned, str]]


def stores_done(
    plan: QueryPlan,
    cluster: Cluster,
    attempt: Callable[[Sequence[int], Homes], list[Answer]],
    batch: Batch | None = None,
) -> list[TaskReport]:
    """Attempts the batch's state partitions, each where its store is, until all are done.

    A retry is safe: a state task only takes a batch whose start equals its commit marker in every
    topic partition.
    """
    wanted: Sequence[int] = range(plan.state_partitions)
    if batch is not None and batch.state_partitions is not None:
        wanted = sorted(batch.state_partitions)

    def placed(pending: Sequence[int]) -> list[Answer]:
        answers = attempt(pending, cluster.placement(plan))
        cluster.observe(plan, [a for a in answers if isinstance(a, TaskReport)])
        return answers

    return until_done(plan, cluster, wanted, placed)


def until_done(
    plan: QueryPlan | StreamPlan,
    cluster: Cluster,
    wanted: Sequence[int],
    attempt: Callable[[Sequence[int]], list[Answer]],
) -> list[TaskReport]:
    """Attempts the remaining partitions until all are done; waits for lost executors.

    Raises:
        PlanAgain: the batch does not fit the commit markers.
        HoldfastError: a partition answered with a fatal error, or retries ran out.
    """
    done: dict[int, TaskReport] = {}
    deadline = time.monotonic() + plan.settings.retry_timeout_ms / 1000
    for wait_s in _backoff():
        answers = _answers(attempt, [p for p in wanted if p not in done])
        done.update({a.partition: a for a in answers if isinstance(a, TaskReport)})
        errors = [a for a in answers if isinstance(a, HoldfastError)]
        cluster.waits(plan.query.id, errors)
        if not errors:
            return [done[p] for p in sorted(done)]
        _raise_if_final(plan.query.id, errors, deadline)
        if any(isinstance(e, NotOwner) for e in errors):
            cluster.invalidate()
        time.sleep(wait_s)
    raise AssertionError("the back-off never ends")


def _answers(
    attempt: Callable[[Sequence[int]], list[Answer]], pending: Sequence[int]
) -> list[Answer]:
    try:
        return attempt(pending)
    except ExecutorsMissing as missing:
        return [missing]


def _raise_if_final(query_id: str, errors: Iterable[HoldfastError], deadline: float) -> None:
    for error in errors:
        if not isinstance(error, Retriable) or time.monotonic() > deadline:
            raise error
        _LOG.warning("%s: retrying after %s: %s", query_id, type(error).__name__, error.fact)


def _backoff() -> Iterator[float]:
    yield from _BACKOFF_S
    while True:
        yield _BACKOFF_S[-1]
