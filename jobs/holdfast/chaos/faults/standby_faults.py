"""The loss of a volume while there are standbys: adds the component `standby`, on any target."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.chaos.faults.target import Landing, Target, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.faults.wrapped import WrappedTarget
from holdfast.errors import Refused, Retriable
from holdfast.types.components import EXECUTOR, STANDBY
from holdfast.types.status import JobStatus, PartitionStatus

__all__ = ["StandbyTarget"]

_FAULTS = frozenset({Fault.LOSE_VOLUME})
_Place = tuple[str, int]
"""A query and its state partition."""


class StandbyTarget(WrappedTarget):
    """A target where an owner's volume can be lost while there are standbys.

    The volume is lost when every state partition has a standby that is level; the fault lands when
    one of these standbys has taken over.
    """

    def __init__(self, inner: Target) -> None:
        """`inner`: the target where the job runs; handles all other components."""
        super().__init__(inner, STANDBY)
        self._lost: dict[str, Victim] = {}  # by victim: the executor that lost its volume
        self._heirs: dict[str, dict[_Place, frozenset[str]]] = {}  # by victim: volumes of standbys
        self._told: dict[str, str] = {}  # by victim: who took over

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """The inner target's faults, and the faults of standbys."""
        return {**self._inner.faults, STANDBY: _FAULTS}

    def victims(self, component: str) -> list[Victim]:
        """The standbys of the whole job, once each state partition has one that is level."""
        if component != STANDBY:
            return self._inner.victims(component)
        heirs = self._level()
        return [Victim(STANDBY, "standbys", _named(heirs))] if heirs else []

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Loses the volume of an executor.

        Raises:
            Retriable: a standby is behind, or there is no executor to hit.
            Refused: the fault is not one for standbys.
        """
        if victim.component != STANDBY:
            return self._inner.strike(victim, fault)
        if fault not in _FAULTS:
            raise Refused(f"{fault.value} cannot be done to standbys.")
        heirs, executors = self._level(), self._inner.victims(EXECUTOR)
        if not heirs or not executors:
            raise Retriable("Not every state partition has a standby that is level.")
        number = int(victim.identity, 16) % len(executors)
        did = self._inner.strike(executors[number], fault)
        self._lost[victim.identity], self._heirs[victim.identity] = executors[number], heirs
        return f"{did}, of {executors[number].name}"

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Whether the executor is gone and a state partition lies where its standby was."""
        if victim.component != STANDBY:
            return self._inner.landed(victim, fault)
        lost = self._lost.get(victim.identity)
        if lost is None:
            return Landing(False, "no volume was lost")
        volume = self._inner.landed(lost, fault)
        taken = self._taken_over(victim.identity)
        told = taken or "no standby has taken over"
        return Landing(volume.landed and bool(taken), f"{volume.evidence}; {told}")

    def _taken_over(self, identity: str) -> str:
        """The first state partition that a standby has taken over, in words."""
        if identity not in self._told:
            heirs = self._heirs[identity]
            for place, state in self._partitions():
                if state.volume in heirs.get(place, ()):
                    query, partition = place
                    told = f"{query} {partition} was taken over on volume {state.volume}"
                    self._told[identity] = told
                    break
        return self._told.get(identity, "")

    def _level(self) -> dict[_Place, frozenset[str]]:
        """The volumes of level standbys of each state partition; empty unless each has one."""
        heirs = {
            place: frozenset(s.volume for s in state.standbys if s.lag >= 0) - {state.volume}
            for place, state in self._partitions()
        }
        return heirs if all(heirs.values()) else {}

    def _partitions(self) -> Iterator[tuple[_Place, PartitionStatus]]:
        status = JobStatus.of(self._inner.job_status() or {})
        for name, query in ({} if status is None else status.queries).items():
            for state in query.state_partitions:
                yield (name, state.partition), state


def _named(heirs: Mapping[_Place, Any]) -> str:
    told = repr(sorted((place, sorted(volumes)) for place, volumes in heirs.items()))
    return hashlib.sha256(told.encode()).hexdigest()[:16]
