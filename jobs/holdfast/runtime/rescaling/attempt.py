"""One attempt to rescale a query: copies its state beside the batches, and switches between two.

    times       windows that some state partitions have closed, and others not, cannot be one
    topic       a changelog of the next generation, made by nobody else
    copy        executors copy the changelog, some of each share at a time; standbys are warmed
    bar         no batch of the query begins
    fence       nobody commits in the former generation any more
    end         the rest is copied, with the first commit markers of the next generation
    move        the former generation says so; its state partition 0 decides, and the control topic
                names the next generation

An attempt that fails before it is decided leaves the query where it is, and a topic that nobody
uses again: what woke up later and copied into it could do no harm.  It is deleted once a later
rescale is confirmed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from holdfast.errors import HoldfastError, PlanAgain, Refused, Retriable
from holdfast.runtime.jvm.failures import from_spark
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.stateful import StatefulQuery
from holdfast.runtime.queries.stores import copy_shares, end_shares
from holdfast.state.changelog import changelog_config
from holdfast.state.layout import Layout
from holdfast.state.topics.orders import layout_record
from holdfast.tasks.heirs import check_times, shares
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.replay import tombstones_kept_ms
from holdfast.tasks.rescaling.copier import Copied, Ending
from holdfast.tasks.rescaling.switch import Former, settled
from holdfast.transport.cluster.admin import Admin, TopicInfo
from holdfast.transport.sizes import TOPIC_LIMIT
from holdfast.types.ids import changelog_topic

__all__ = ["Attempt"]

_LOG = logging.getLogger(__name__)
_SECONDS = 0.5  # of copying in an executor, during which its batches wait
_PAUSE_S = 0.2
_LEFT = 50_000  # changelog records to copy while the query has no batch
_BAR_S = 60.0
_GENERATIONS = 1_000
_COPIED_SETTINGS = (TOPIC_LIMIT, "segment.bytes", "min.insync.replicas", "delete.retention.ms")


class Attempt:
    """Owns the next generation of one query's state until it is decided.

    Args:
        state_partitions: the wanted number.
        threaded: see `Former`.
    """

    def __init__(
        self,
        services: Services,
        run: StatefulQuery,
        state_partitions: int,
        *,
        threaded: bool = True,
    ) -> None:
        """Sends nothing before `make`."""
        self._services = services
        self._run = run
        self._plan = run.plan
        self._wanted = state_partitions
        self._threaded = threaded
        self._places: dict[int, str] = {}

    def make(self, told: Callable[[str], None]) -> None:
        """Rescales the query; returns once it is decided.

        Args:
            told: called with what it is doing, in words.

        Raises:
            PlanAgain, Retriable: another attempt may succeed.
            HoldfastError: no attempt would.
        """
        query_id, layouts = self._plan.query.id, self._services.layouts
        # Before hours of copying; between the batches it is checked again.
        check_times(self._plan.query, self._run.stream_times(), self._wanted)
        new = self._next()
        layouts.copying(query_id, new.generation)
        try:
            self._copy(new, told)
            self._switch(new, told)
        except Exception:
            self._services.cluster.forget(new)
            with suppress(HoldfastError):  # or else query servers follow it until the next one
                layouts.copying(query_id, None)
            raise

    def _next(self) -> QueryPlan:
        """The plan of a generation that nobody else has begun."""
        plan, admin = self._plan, self._services.admin
        for generation in range(plan.generation + 1, plan.generation + _GENERATIONS):
            name = changelog_topic(plan.settings.application_id, plan.query.id, generation)
            if admin.describe(name) is not None:
                continue
            made = self._made(name)
            if made is not None:
                return self._run.plan_of(Layout(generation, self._wanted), made)
        raise Refused(
            f"{plan.query.id} has more than {_GENERATIONS} changelogs of later generations.",
            action="delete those that `holdfast inspect` does not name.",
        )

    def _made(self, name: str) -> TopicInfo | None:
        """A new changelog, with the settings of the former one; None: there is one already."""
        admin, state = self._services.admin, self._plan.settings.state
        return admin.create_topic(
            name, self._wanted, state.changelog_replicas, _settings(admin, self._plan)
        )

    # -- beside the batches ---------------------------------------------------------------------

    def _copy(self, new: QueryPlan, told: Callable[[str], None]) -> None:
        """Copies until little is left and the new stores are warm.

        Raises:
            Refused: it takes so long that deleted rows might come back.
        """
        cluster, plan = self._services.cluster, self._plan
        began, admin = time.monotonic(), self._services.admin
        warms = plan.settings.state.outlives_executors
        while True:
            left = self._left(self._copied(new))
            told(f"copying the changelog: {left} offsets are left")
            if left <= _LEFT:
                if not warms or cluster.is_warm(new):
                    return
                cluster.warm(new)
                told("warming the new stores")
            if time.monotonic() - began > tombstones_kept_ms(plan, admin) / 2_000:
                raise _too_slow(plan, left) if left > _LEFT else _cold(plan)
            time.sleep(_PAUSE_S)

    def _copied(self, new: QueryPlan) -> list[Copied | HoldfastError]:
        plan, context = self._plan, self._services.context
        try:
            return copy_shares(plan, new, self._placed(), context, _SECONDS)
        except HoldfastError as error:
            return [error]
        except Exception as error:
            raise from_spark(plan.query.id, error) from error

    def _placed(self) -> Mapping[int, str]:
        """The location of each share's copier: it stays as long as its executor lives."""
        locations = self._services.cluster.locations()
        count = len(shares(self._plan.state_partitions, self._wanted))
        for number in range(count):
            if self._places.get(number) not in locations:
                self._places[number] = locations[number % len(locations)]
        return self._places

    def _left(self, answers: Sequence[Copied | HoldfastError]) -> int:
        """The offsets that are left; an error that may pass counts as many.

        Raises:
            HoldfastError: a copier answered with an error that does not pass.
        """
        left = 0
        for answer in answers:
            if isinstance(answer, Copied):
                left += answer.left
            elif not isinstance(answer, Retriable):
                raise answer
            else:
                _LOG.warning("%s: a share is copied again: %s", self._plan.query.id, answer.fact)
                left += _LEFT + 1
        return left

    # -- between two batches --------------------------------------------------------------------

    def _switch(self, new: QueryPlan, told: Callable[[str], None]) -> None:
        plan, services = self._plan, self._services
        told("waiting for the batch to end")
        with services.turn.barred(plan.query.id, _BAR_S) as ended:
            if not ended:
                raise Refused(
                    f"A batch of the job did not end within {_BAR_S:g} s.",
                    cause=self._run.waits_for or "it is large, or an executor was lost.",
                    action="try again when the job has caught up.",
                )
            told("switching")
            began = time.monotonic()
            if self._run.plan is not plan:
                raise PlanAgain(
                    f"{plan.query.id} is in another generation by now.",
                    cause="another driver has rescaled it",
                    action="none: it is tried again",
                )
            self._decide(new)
            # No batch may begin with the former generation's state tasks: the main loop prepares
            # the query anew, which follows the control topic.
            self._run.hold()
            took_s = time.monotonic() - began
        _LOG.info(
            "%s: %d state partitions became %d, in generation %d; the switch took %.1f s",
            plan.query.id, plan.state_partitions, self._wanted, new.generation, took_s,
        )  # fmt: skip

    def _decide(self, new: QueryPlan) -> None:
        former = Former(self._plan, threaded=self._threaded)
        to, query = Layout(new.generation, self._wanted), self._plan.query
        try:
            former.fence()
            times = [former.markers[p].stream_time_ms for p in sorted(former.markers)]
            check_times(query, times, self._wanted)
            self._end(new, Ending(former.ends, former.markers))
            former.move(to, layout_record(new.settings.application_id, query.id, to))
        except HoldfastError:
            former.close()
            # The last answer may be lost: only the log knows.
            if settled(self._plan) != to:
                raise
        finally:
            former.close()

    def _end(self, new: QueryPlan, ending: Ending) -> None:
        plan, context = self._plan, self._services.context
        try:
            answers = end_shares(plan, new, self._places, context, ending)
        except HoldfastError:
            raise
        except Exception as error:
            raise from_spark(plan.query.id, error) from error
        for answer in answers:
            if isinstance(answer, HoldfastError):
                raise answer


def _settings(admin: Admin, plan: QueryPlan) -> dict[str, str]:
    found = admin.config(plan.changelog)
    kept = {name: found[name] for name in _COPIED_SETTINGS if name in found}
    return {**changelog_config(plan.settings.state), **kept}


def _cold(plan: QueryPlan) -> Refused:
    return Refused(
        f"The new stores of {plan.query.id} were not level in half the time for which the "
        "changelog keeps the tombstones of deleted rows.",
        cause="executors cannot restore them, as the warning `The standby of … cannot follow` in "
        "their logs says (a remote store does not answer, a volume is full), or they are busy.",
        action="see that they can, and try again.",
    )


def _too_slow(plan: QueryPlan, left: int) -> Refused:
    return Refused(
        f"The changelog of {plan.query.id} could not be copied in half the time for which it keeps "
        f"the tombstones of deleted rows: {left} offsets are left.",
        cause="rows change faster than they are copied, or the executors are busy.",
        action="raise delete.retention.ms of the changelog, or try again with less load.",
    )
