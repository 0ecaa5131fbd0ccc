"""Freezes all queries of a job between two batches, at offsets that fit together.

A query that reads a topic of another query of the job is read up to its end first: its writer waits
meanwhile.  So no record is between two queries, and none is lost or read twice when another job
goes on with topics of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from graphlib import CycleError, TopologicalSorter

from holdfast.errors import Refused
from holdfast.runtime.queries.batches.lock import Turn
from holdfast.runtime.queries.query_run import Frozen, QueryRun
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import Place

__all__ = ["Freezer"]

_POLL_S = 0.05


_Bounds = Mapping[Place, tuple[int, int]]  # log start, and the end of all records


class Freezer:
    """Freezes the queries of one job, once.

    Args:
        runs: all of them.
        wait_s: how long the writers of a topic may wait for its readers.
    """

    def __init__(self, runs: Sequence[QueryRun], turn: Turn, admin: Admin, wait_s: float) -> None:
        self._runs = runs
        self._turn = turn
        self._admin = admin
        self._wait_s = wait_s
        # Of the topics of the job that a query reads, when their writers had ended.
        self._bounds: dict[str, _Bounds] = {}

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Lets no batch of the job begin; those that read the job's own topics end first.

        Raises:
            Refused: a query does not get there in time, or the job reads what it writes in a ring.
            KafkaUnavailable: no broker answered.
        """
        deadline = time.monotonic() + self._wait_s
        with ExitStack() as stack:
            for run_ in self._writers_first():
                bounds = self._bounds[run_.query.id] = self._own_bounds(run_)
                if not run_.held:
                    _await_level(run_, bounds, deadline)
                left_s = max(deadline - time.monotonic(), 0.0)
                if not stack.enter_context(self._turn.barred(run_.query.id, left_s)):
                    raise self._busy()
            yield

    def check(self, found: Mapping[str, Frozen]) -> None:
        """Checks that nothing is between two queries.

        Raises:
            Refused: a query has not read all of a topic of the job.
        """
        for run_ in self._runs:
            source = found[run_.query.id].source
            done = source.ends() if source is not None else {}
            bounds = self._bounds[run_.query.id]
            left = {
                # Without a commit it stands where it began.
                place: end - done.get(place, run_.done.get(place, start))
                for place, (start, end) in bounds.items()
            }
            behind = {place: count for place, count in left.items() if count > 0}
            if behind:
                raise _behind(run_, behind)

    def _busy(self) -> Refused:
        why = {f"{run_.query.id}: {run_.waits_for}" for run_ in self._runs if run_.waits_for}
        return Refused(
            f"A batch of the job did not end within {self._wait_s:g} s.",
            cause="; ".join(sorted(why)) or "it is large, or an executor was lost.",
            action="try again when the job has caught up.",
        )

    def _own_bounds(self, run_: QueryRun) -> _Bounds:
        written = {each.query.sink.topic for each in self._runs}
        found: dict[Place, tuple[int, int]] = {}
        for topic in written.intersection(run_.source_topics):
            ends = self._admin.high_watermarks(topic)
            found |= {
                (topic, p): (start, ends[p]) for p, (start, _) in self._admin.bounds(topic).items()
            }
        return found

    def _writers_first(self) -> list[QueryRun]:
        by_topic: dict[str, list[str]] = {}
        for run_ in self._runs:
            by_topic.setdefault(run_.query.sink.topic, []).append(run_.query.id)
        order = {
            run_.query.id: [i for topic in run_.source_topics for i in by_topic.get(topic, ())]
            for run_ in self._runs
        }
        by_id = {run_.query.id: run_ for run_ in self._runs}
        try:
            return [by_id[i] for i in TopologicalSorter(order).static_order()]
        except CycleError as error:
            raise Refused(
                f"The queries {', '.join(error.args[1])} read each other's topics in a ring.",
                cause="there is no moment at which nothing is between them.",
                action="give the queries of the ring to jobs of their own.",
            ) from error


def _await_level(run_: QueryRun, bounds: _Bounds, deadline: float) -> None:
    ends = {place: end for place, (_, end) in bounds.items()}
    while ends and not run_.level_with(ends):
        if time.monotonic() > deadline:
            left = {place: end - run_.done.get(place, 0) for place, end in ends.items()}
            raise _behind(run_, left)
        time.sleep(_POLL_S)


def _behind(run_: QueryRun, places: Mapping[Place, int]) -> Refused:
    topics = ", ".join(sorted({topic for topic, _ in places}))
    return Refused(
        f"{run_.query.id} has {sum(places.values())} offsets of {topics} to read, which this job "
        "writes itself.",
        cause="it is paused or terminated" if run_.held else "it is slower than their writer.",
        action=f"`holdfast resume {run_.query.id}`, and make the savepoint when it has caught up; "
        "deploy the job without a statement that is terminated for good."
        if run_.held
        else "wait until it has caught up.",
    )
