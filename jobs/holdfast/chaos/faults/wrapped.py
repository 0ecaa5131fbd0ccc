"""A target with one more component: everything else is left to the target where the job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.chaos.faults.target import Hook, Landing, QueryServers, Target, Victim
from holdfast.chaos.faults.words import Fault

__all__ = ["WrappedTarget"]


class WrappedTarget:
    """Forwards to `inner`; a subclass answers for its own component.

    Args:
        inner: the target where the job runs; handles all other components.
        component: the one that is added.
    """

    def __init__(self, inner: Target, component: str) -> None:
        self._inner = inner
        self._component = component

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        return self._inner.faults

    @property
    def notes(self) -> Mapping[Fault, str]:
        return self._inner.notes

    @property
    def hook(self) -> Hook | None:
        return self._inner.hook

    def is_dev_namespace(self) -> bool:
        return self._inner.is_dev_namespace()

    def victims(self, component: str) -> list[Victim]:
        return self._inner.victims(component)

    def strike(self, victim: Victim, fault: Fault) -> str:
        return self._inner.strike(victim, fault)

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        return self._inner.landed(victim, fault)

    def heal(self, victim: Victim, fault: Fault) -> None:
        """Heals the inner target's victims; those of the added component stay as they are."""
        if victim.component != self._component:
            self._inner.heal(victim, fault)

    def heal_all(self) -> list[str]:
        return self._inner.heal_all()

    def recovered(self, victims: Sequence[Victim]) -> bool:
        """Whether the job is complete, without a look at the added component."""
        return self._inner.recovered([v for v in victims if v.component != self._component])

    def refusal(self) -> str:
        return self._inner.refusal()

    def query_servers(self) -> QueryServers:
        return self._inner.query_servers()

    def job_status(self) -> dict[str, Any] | None:
        return self._inner.job_status()
