"""What a nemesis can do where a job runs; processes of this machine or pods are two answers."""

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
        component: which part of the job or platform it is.
        name: for people: the pod's name, `executor 1`.
        identity: of this incarnation: pod uid and restart count, pid and time of birth.
    """

    component: str
    name: str
    identity: str


@dataclass(frozen=True)
class Landing:
    """Whether a fault did what it should, and the evidence in words."""

    landed: bool
    evidence: str


@dataclass(frozen=True)
class Held:
    """A state task that a hook holds right after a step.

    Attributes:
        victim: the name of the executor it is in (as `Victim.name`).
        pid: of the Python worker, as its own machine sees it.
    """

    order: str
    victim: str
    pid: int
    step: Step
    query_id: str
    partition: int


@dataclass(frozen=True)
class QueryServers:
    """Query servers that are read from: their addresses, by number, and on how many of them each
    state partition lies.
    """

    addresses: tuple[str, ...] = ()
    copies: int = 2


class Hook(Protocol):
    """Holds a state task right after a step of the commit order.

    It is there only where the job was started with the tests' hook on Python's path; no option
    or property of Holdfast turns it on.
    """

    def order(self, order: str, step: Step, hold_s: float) -> None:
        """The next state task that gets past `step` is held, at most `hold_s` seconds."""

    def held(self, order: str) -> Held | None:
        """Who is held by the order; None as long as nobody is."""

    def release(self, order: str) -> None:
        """Lets go, or takes the order back; also when nobody is held any more."""


class Target(Protocol):
    """Where the job runs.  Every method raises `KafkaUnavailable`-like errors of the tree only."""

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """By component: what can be done to it here, found out by looking, not assumed."""

    @property
    def notes(self) -> Mapping[Fault, str]:
        """How a fault is brought about here, or why it cannot be, where that is not plain."""

    @property
    def hook(self) -> Hook | None:
        """None: aimed moments are not possible here."""

    def is_dev_namespace(self) -> bool:
        """May anything be broken here without anybody's confirmation?"""

    def victims(self, component: str) -> list[Victim]:
        """Those alive now, in a fixed order; only what is labelled as the job's (or allowed).

        Raises:
            Refused: the component is unknown here or must not be touched.
        """

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Does it, once; returns what was done in words.

        Raises:
            Retriable: nothing was done, for the victim is gone or not yet fit to be hit.
            HoldfastError: it could not be done.
        """

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Did it happen?  Looks at the victim: its incarnation is gone, it is stopped, it cannot
        write; a fault is never believed only because nobody complained.
        """

    def heal(self, victim: Victim, fault: Fault) -> None:
        """Takes back a fault that lasts; may be called again, and for victims that are gone."""

    def heal_all(self) -> list[str]:
        """Takes back whatever any nemesis has left here, known by what it did, not by memory."""

    def recovered(self, victims: Sequence[Victim]) -> bool:
        """Are there as many living, ready successors as victims (the same ones for PAUSE)?"""

    def refusal(self) -> str:
        """Why the job has ended for good, in its own words; empty as long as it has not."""

    def query_servers(self) -> QueryServers:
        """Those beside the job that can be reached from here."""

    def job_status(self) -> dict[str, Any] | None:
        """What the driver's /status says; None when nobody answers."""
