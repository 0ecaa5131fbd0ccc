"""A rescale under fire: adds the component `query` to a target, wherever the job runs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.chaos.faults.target import Landing, Target, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.faults.wrapped import WrappedTarget
from holdfast.errors import HoldfastError, Refused, Retriable
from holdfast.types.components import DRIVER, EXECUTOR, QUERY
from holdfast.types.ids import changelog_topic
from holdfast.types.statements.topology import Emit, Topology

__all__ = ["RescaleTarget", "Rescales", "Rescaling", "rescaled_of"]

_FAULTS = frozenset({Fault.RESCALE})
_BEGUN_S, _POLL_S = 60.0, 0.02
_LATER_S = 1.2  # the copy of a small state and the switch take about as long


@dataclass(frozen=True)
class Rescaling:
    """The rescales of one query, as the job's control topic tells them.

    Attributes:
        generation: the one that counts; 0: it was never rescaled.
        state_partitions: of that generation; 0: as the job's setting says.
        copying: the generation that its state is being copied into; 0: into none.
        answered: the token of the order that the job has answered last.
        doing: what it does about that order; empty: it is done, or has failed.
        failure: why it has failed; empty: it has not.
    """

    generation: int = 0
    state_partitions: int = 0
    copying: int = 0
    answered: str = ""
    doing: str = ""
    failure: str = ""


class Rescales(Protocol):
    """Orders rescales of a job's queries, and looks how they get on."""

    def of(self, query_id: str) -> Rescaling:
        """Reads what the control topic says now.

        Raises:
            KafkaUnavailable: no broker answered in time.
        """

    def order(self, query_id: str, state_partitions: int) -> str:
        """Orders a rescale; returns the order's token.

        Raises:
            KafkaUnavailable, Refused: it may have been written.
        """


def rescaled_of(topology: Topology) -> tuple[str, ...]:
    """The ids of the queries that can get more and fewer state partitions, in a fixed order.

    EMIT FINAL is left out: fewer state partitions are refused where their times differ.
    """
    fitting = (
        query.id
        for query in topology.queries
        if query.stateful and getattr(query.step, "emit", None) is not Emit.FINAL
    )
    return tuple(sorted(fitting))


class RescaleTarget(WrappedTarget):
    """A target that can rescale the job's queries and kill what does it.

    Odd generations have twice the state partitions of even ones.  The executor or the driver dies
    some time after the copy has begun: before the switch, during it or shortly after it.

    Args:
        inner: the target where the job runs; handles all other components.
        application_id: the job.
        queries: the ids of those that may be rescaled.
        rescales: makes the view of the job's control topic, at the first use.
        partitions: tells how many partitions a topic has; 0: there is none.
    """

    def __init__(
        self,
        inner: Target,
        application_id: str,
        queries: Sequence[str],
        rescales: Callable[[], Rescales],
        partitions: Callable[[str], int],
    ) -> None:
        super().__init__(inner, QUERY)
        self._application_id = application_id
        self._queries = tuple(queries)
        self._rescales = rescales
        self._partitions = partitions
        self._orders: dict[str, tuple[str, int]] = {}  # by query id: token, state partitions
        self._hit: dict[str, tuple[Victim, str]] = {}  # by victim: who was killed, and when

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """The inner target's faults, and the faults of queries."""
        return {**self._inner.faults, QUERY: _FAULTS} if self._queries else self._inner.faults

    def victims(self, component: str) -> list[Victim]:
        """The queries that keep state and are not being rescaled."""
        if component != QUERY:
            return self._inner.victims(component)
        found = {query_id: self._rescales().of(query_id) for query_id in self._queries}
        return [
            Victim(QUERY, query_id, f"{query_id}/{now.generation}/{now.state_partitions}")
            for query_id, now in found.items()
            if not self._under_way(query_id, now)
        ]

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Orders a rescale, and kills an executor or the driver once the copy has begun.

        Raises:
            Retriable: the query has no changelog yet, or there is nobody to kill.
            Refused: the fault is not one for queries.
            HoldfastError: the job did not begin in time.
        """
        if victim.component != QUERY:
            return self._inner.strike(victim, fault)
        if fault not in _FAULTS:
            raise Refused(f"{fault.value} cannot be done to a query.")
        query_id = victim.name
        generation = self._rescales().of(query_id).generation
        changelog = changelog_topic(self._application_id, query_id, generation)
        now = self._partitions(changelog)
        if not now:
            raise Retriable(f"{query_id} has no changelog {changelog} yet.")
        wanted = max(1, now // 2) if generation % 2 else now * 2
        self._orders[query_id] = self._rescales().order(query_id, wanted), wanted
        self._await_copy(query_id, generation)
        killed = self._kill(victim, generation)
        return f"{query_id}: from {now} to {wanted} state partitions; {killed}"

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Whether the process that was killed during the copy is gone."""
        if victim.component != QUERY:
            return self._inner.landed(victim, fault)
        hit = self._hit.get(victim.identity)
        if hit is None:
            return Landing(False, f"nobody was hit while {victim.name} was copied")
        killed = self._inner.landed(hit[0], Fault.DELETE_NOW)
        return Landing(killed.landed, f"{killed.evidence}, {hit[1]}")

    def recovered(self, victims: Sequence[Victim]) -> bool:
        """Whether the job is complete, and the rescales are decided.

        Raises:
            HoldfastError: a rescale has failed.
        """
        mine = [v for v in victims if v.component == QUERY]
        return super().recovered(victims) and all(self._is_done(v.name) for v in mine)

    def _is_done(self, query_id: str) -> bool:
        token, wanted = self._orders.get(query_id, ("", 0))
        now = self._rescales().of(query_id)
        if now.answered != token or now.doing:
            return False
        if now.failure:
            raise HoldfastError(f"The rescale of {query_id} has failed: {now.failure}")
        return now.state_partitions == wanted

    def _await_copy(self, query_id: str, before: int) -> None:
        deadline = time.monotonic() + _BEGUN_S
        while time.monotonic() < deadline:
            now = self._rescales().of(query_id)
            if max(now.copying, now.generation) > before:
                return
            time.sleep(_POLL_S)
        raise HoldfastError(
            f"The job has not begun to rescale {query_id} within {_BEGUN_S:.0f} s.",
            cause="it does not run, or is carrying out another order",
        )

    def _kill(self, victim: Victim, before: int) -> str:
        chance = random.Random(victim.identity)
        time.sleep(chance.uniform(0.0, _LATER_S))
        found = self._inner.victims(chance.choice((EXECUTOR, EXECUTOR, DRIVER)))
        if not found:
            raise HoldfastError(f"There was nobody to hit while {victim.name} was rescaled.")
        one = chance.choice(found)
        did = self._inner.strike(one, Fault.DELETE_NOW)
        moved = self._rescales().of(victim.name).generation > before
        when = "after the switch" if moved else "before or in the switch"
        self._hit[victim.identity] = one, when
        return f"{one.name}: {did}"

    def _under_way(self, query_id: str, now: Rescaling) -> bool:
        order = self._orders.get(query_id)
        return bool(now.doing) or (order is not None and now.answered != order[0])
