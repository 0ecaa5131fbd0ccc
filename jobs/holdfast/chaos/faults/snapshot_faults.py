"""Damage to a job's snapshots: adds the component `snapshot-store`, on any target."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.chaos.faults.target import Landing, Target, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.faults.wrapped import WrappedTarget
from holdfast.errors import Refused, Retriable
from holdfast.types.components import EXECUTOR, SNAPSHOTS

__all__ = ["SnapshotTarget", "Snapshots"]


class Snapshots(Protocol):
    """The snapshots of a job.  Every method raises `Retriable` if their place does not answer."""

    def newest(self) -> list[str]:
        """The manifest of the newest snapshot of each state partition, sorted."""

    def damage(self) -> list[str]:
        """Damages the largest file of each newest snapshot; which files are damaged now."""

    def wrong(self, paths: Sequence[str]) -> list[str]:
        """Those of these files whose contents are not what their names say."""


class SnapshotTarget(WrappedTarget):
    """A target that can damage the job's snapshots as well, wherever `snapshot.uri` is.

    Damage shows only when a store is lost, so an executor loses its volume in the same fault.

    Args:
        inner: the target where the job runs; handles all other components.
    """

    def __init__(self, inner: Target, snapshots: Snapshots) -> None:
        super().__init__(inner, SNAPSHOTS)
        self._snapshots = snapshots
        self._lost: dict[str, Victim] = {}  # by victim: the executor that lost its volume with it
        self._damaged: dict[str, list[str]] = {}

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """The inner target's faults, and the faults of snapshots."""
        return {**self._inner.faults, SNAPSHOTS: frozenset({Fault.DAMAGE_SNAPSHOT})}

    def victims(self, component: str) -> list[Victim]:
        """The job's newest snapshots as one victim; none before any can be seen."""
        if component != SNAPSHOTS:
            return self._inner.victims(component)
        try:
            newest = self._snapshots.newest()
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
        if fault is not Fault.DAMAGE_SNAPSHOT:
            raise Refused(f"{fault.value} cannot be done to snapshots here.")
        executors = self._inner.victims(EXECUTOR)
        if not executors:
            raise Retriable("There is no executor whose volume could be lost.")
        changed = self._snapshots.damage()
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
            wrong = self._snapshots.wrong(changed)
        except Retriable as error:
            return Landing(False, error.fact)
        volume = self._inner.landed(lost, Fault.LOSE_VOLUME)
        told = f"{len(wrong)} of {len(changed)} files are wrong; {volume.evidence}"
        return Landing(bool(wrong) and volume.landed, told)


def _named(manifests: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(manifests).encode()).hexdigest()[:16]
