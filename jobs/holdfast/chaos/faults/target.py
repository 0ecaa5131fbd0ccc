"""The operations a nemesis needs where a job runs: on local processes or on pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.chaos.faults.words import Fault
from holdfast.types.steps import Step

__all__ = ["Held", "Hook", "Landing", "QueryServers", "Target", "Victim"]


@dataclass(frozen=True)
class Victim:
    """One process or pod that may be hit.

    Attributes:
        component: the part of the job or platform that it is.
        name: for people: the pod's name, `executor 1`.
        identity: identifies this incarnation: pod uid and restart count, or pid and start time.
    """

    component: str
    name: str
    identity: str


@dataclass(frozen=True)
class Landing:
    """Whether a fault had its effect, with the evidence in words."""

    landed: bool
    evidence: str


@dataclass(frozen=True)
class Held:
    """A state task that a hook holds right after a step.

    Attributes:
        victim: the name of its executor (as `Victim.name`).
        pid: pid of the Python worker, as its own machine sees it.
    """

    order: str
    victim: str
    pid: int
    step: Step
    query_id: str
    partition: int


@dataclass(frozen=True)
class QueryServers:
    """The query servers to read from: their addresses, by number, and the number of servers that
    hold each state partition.
    """

    addresses: tuple[str, ...] = ()
    copies: int = 2


class Hook(Protocol):
    """Holds a state task right after a step of the commit order.

    It exists only where the job was started with the tests' hook on Python's path; no option or
    property of Holdfast turns it on.
    """

    def order(self, order: str, step: Step, hold_s: float) -> None:
        """Orders that the next state task past `step` is held, at most `hold_s` seconds."""

    def held(self, order: str) -> Held | None:
        """The state task held by the order; None while there is none."""

    def release(self, order: str) -> None:
        """Lets the held task continue, or withdraws the order; harmless when no task is held."""


class Target(Protocol):
    """A place where the job runs.  Every method raises only errors of Holdfast's own tree."""

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """By component, the faults that can be injected here, found out by looking, not assumed."""

    @property
    def notes(self) -> Mapping[Fault, str]:
        """How a fault is injected here, or why it cannot be, where that is not obvious."""

    @property
    def hook(self) -> Hook | None:
        """The hook; None: aimed moments are not possible here."""

    def is_dev_namespace(self) -> bool:
        """Whether anything may be broken here without confirmation."""

    def victims(self, component: str) -> list[Victim]:
        """The living victims, in a fixed order; only those labelled as the job's (or allowed).

        Raises:
            Refused: the component is unknown here or must not be touched.
        """

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Injects the fault, once; returns what was done in words.

        Raises:
            Retriable: nothing was done; the victim is gone or cannot be hit yet.
            HoldfastError: the fault could not be injected.
        """

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Whether the fault happened, seen on the victim: its incarnation is gone, it is stopped,
        it cannot write.  The absence of an error is no evidence.
        """

    def heal(self, victim: Victim, fault: Fault) -> None:
        """Heals a fault that lasts; may be called again, and for victims that are gone."""

    def heal_all(self) -> list[str]:
        """Heals whatever any nemesis has left here, found by its effects and not by memory."""

    def recovered(self, victims: Sequence[Victim]) -> bool:
        """Whether every victim has a living, ready successor (PAUSE: is itself ready again)."""

    def refusal(self) -> str:
        """Why the job has ended for good, in its own words; empty while it has not."""

    def query_servers(self) -> QueryServers:
        """The query servers beside the job that can be reached from here."""

    def job_status(self) -> dict[str, Any] | None:
        """The driver's /status; None when nobody answers."""
