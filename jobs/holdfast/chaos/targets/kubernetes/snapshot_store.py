"""Damage to a job's snapshots, done in an executor's pod: adds `snapshot-store`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from holdfast.chaos.faults.target import Landing, Target, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.faults.wrapped import WrappedTarget
from holdfast.chaos.targets.kubernetes.in_executor import InExecutor
from holdfast.chaos.targets.kubernetes.scripts import SNAPSHOT_FILES
from holdfast.errors import Refused, Retriable
from holdfast.types.components import EXECUTOR, SNAPSHOTS

__all__ = ["PodSnapshotTarget"]

_FAULTS = frozenset({Fault.DAMAGE_SNAPSHOT})


class PodSnapshotTarget(WrappedTarget):
    """A target that can damage the job's snapshots as well, wherever `snapshot.uri` is.

    Damage shows only when a store is lost, so an executor loses its volume in the same fault.

    Args:
        inner: the target where the job runs; handles all other components.
        pods: an executor's pod, which reaches the snapshots.
    """

    def __init__(self, inner: Target, pods: InExecutor) -> None:
        super().__init__(inner, SNAPSHOTS)
        self._pods = pods
        self._lost: dict[str, Victim] = {}  # by victim: the executor that lost its volume with it
        self._damaged: dict[str, list[str]] = {}

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """The inner target's faults, and those of snapshots: their place cannot be cut off here."""
        return {**self._inner.faults, SNAPSHOTS: _FAULTS}

    def victims(self, component: str) -> list[Victim]:
        """The job's newest snapshots as one victim; none before any can be seen."""
        if component != SNAPSHOTS:
            return self._inner.victims(component)
        try:
            newest: list[str] = self._pods.ask(SNAPSHOT_FILES, "list")
        except Retriable:
            return []
        return [Victim(SNAPSHOTS, "snapshots", _named(newest))] if newest else []

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Changes a byte in a file of each newest snapshot, and has an executor need them.

        Raises:
            Retriable: there is no snapshot, or no executor to hit.
            Refused: the fault is not one for snapshots.
        """
        if victim.component != SNAPSHOTS:
            return self._inner.strike(victim, fault)
        if fault not in _FAULTS:
            raise Refused(f"{fault.value} cannot be done to snapshots here.")
        executors = self._inner.victims(EXECUTOR)
        if not executors:
            raise Retriable("There is no executor whose volume could be lost.")
        changed: list[str] = self._pods.ask(SNAPSHOT_FILES, "damage")
        if not changed:
            raise Retriable("No snapshot has a file with rows yet.")
        self._lost[victim.identity], self._damaged[victim.identity] = executors[0], changed
        did = self._inner.strike(executors[0], Fault.LOSE_VOLUME)
        return f"a byte of {len(changed)} files changed; {did}"

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Whether files have other contents than their names say, and the volume is gone."""
        if victim.component != SNAPSHOTS:
            return self._inner.landed(victim, fault)
        changed, lost = self._damaged.get(victim.identity), self._lost.get(victim.identity)
        if not changed or lost is None:
            return Landing(False, "no file was changed")
        try:
            wrong: list[str] = self._pods.ask(SNAPSHOT_FILES, "wrong", *changed)
        except Retriable as error:
            return Landing(False, error.fact)
        volume = self._inner.landed(lost, Fault.LOSE_VOLUME)
        told = f"{len(wrong)} of {len(changed)} files are wrong; {volume.evidence}"
        return Landing(bool(wrong) and volume.landed, told)


def _named(manifests: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(manifests).encode()).hexdigest()[:16]
