"""The loss of a remote database's rows: adds the component `remote-store`, on any target."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Protocol

from holdfast.chaos.faults.target import Landing, Target, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.faults.wrapped import WrappedTarget
from holdfast.errors import Refused, Retriable
from holdfast.types.components import EXECUTOR, REMOTE_STORE

__all__ = ["RemoteStoreTarget", "Stores"]

_FAULTS = frozenset({Fault.EMPTY_STORES})
_OF_VOLUMES = frozenset({Fault.LOSE_VOLUME, Fault.DISK_FULL, Fault.OLD_VOLUME, Fault.SWAP_VOLUMES})


class Stores(Protocol):
    """The stores of a job in its database."""

    def stores(self) -> list[tuple[str, str, int]]:
        """(application id, state name, state partition) of every store.

        Raises:
            StoreUnavailable: the database does not answer.
        """

    def delete_all(self) -> int:
        """Removes every store, whoever has it open; returns how many there were.

        Raises:
            StoreUnavailable: the database does not answer.
        """


class RemoteStoreTarget(WrappedTarget):
    """A target whose job keeps its stores in a database: they are removed under its hands.

    Executors have no volumes then, and so none of the faults of volumes.

    Args:
        inner: the target where the job runs; handles all other components.
        stores: makes the way to the job's stores, at the first use.
    """

    def __init__(self, inner: Target, stores: Callable[[], Stores]) -> None:
        super().__init__(inner, REMOTE_STORE)
        self._stores = stores
        self._strikes = 0
        self._removed: dict[str, int] = {}  # by victim: how many stores

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """The inner target's faults but for those of volumes, and the database's."""
        inner = dict(self._inner.faults)
        if EXECUTOR in inner:
            inner[EXECUTOR] -= _OF_VOLUMES
        return {**inner, REMOTE_STORE: _FAULTS}

    def victims(self, component: str) -> list[Victim]:
        """The job's stores as one victim; none before any can be seen."""
        if component != REMOTE_STORE:
            return self._inner.victims(component)
        try:
            found = self._stores().stores()
        except Retriable:
            return []
        told = f"{self._strikes} {found}"
        identity = hashlib.sha256(told.encode()).hexdigest()[:16]
        return [Victim(REMOTE_STORE, "stores", identity)] if found else []

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Removes all stores of the job.

        Raises:
            Retriable: there are none, or the database does not answer.
            Refused: the fault is not one for a database.
        """
        if victim.component != REMOTE_STORE:
            return self._inner.strike(victim, fault)
        if fault not in _FAULTS:
            raise Refused(f"{fault.value} cannot be done to a database.")
        removed = self._stores().delete_all()
        if not removed:
            raise Retriable("The job has no store in its database yet.")
        self._strikes += 1
        self._removed[victim.identity] = removed
        return f"{removed} stores removed"

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Whether stores were removed."""
        if victim.component != REMOTE_STORE:
            return self._inner.landed(victim, fault)
        removed = self._removed.get(victim.identity, 0)
        return Landing(removed > 0, f"{removed} stores were removed from the database")
