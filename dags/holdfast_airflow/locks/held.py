"""The lock of a job: which run has it, since when, and for how long at most."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Held", "Holder", "JobLock", "LockUnavailable"]


class LockUnavailable(RuntimeError):
    """The lock can neither be read nor taken here, and a retry would not help."""


@dataclass(frozen=True)
class Holder:
    """One run of a DAG, and until when it may have the lock at most."""

    dag: str
    run: str
    since: datetime
    until: datetime

    def same_run(self, other: Holder) -> bool:
        return (self.dag, self.run) == (other.dag, other.run)

    @property
    def expired(self) -> bool:
        """Whether its time is over; its Airflow has ended every such run by then."""
        return datetime.now(UTC) > self.until

    def __str__(self) -> str:
        return f"{self.dag}, run {self.run}, since {self.since:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class Held:
    """A lock as it was read; `version` changes with every change of it."""

    holder: Holder
    version: str


class JobLock(Protocol):
    """The lock of one job.  Every change is a comparison and an exchange in one.

    Attributes:
        by_hand: how a person removes it.
    """

    by_hand: str

    def read(self) -> Held | None:
        """The present holder; None if nobody has it."""

    def take(self, holder: Holder, instead_of: Held | None) -> bool:
        """Take the lock; False if it is not, or no longer, as `instead_of` says."""

    def free(self, held: Held) -> None:
        """Give the lock back; nothing happens if it has changed."""
