"""The interface of a peer: how to build and start it, and where its results and progress are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.bench.workloads import Query

__all__ = ["Case", "Command", "Peer", "Restored"]


@dataclass(frozen=True)
class Case:
    """One run of one peer: a fresh sink and folder; `application` is also its group.

    `topics`: of the input; more than one only of (h).

    `form`: of the input's values; `registry`: where its schemas are, if it has any.

    `batch`: the largest micro-batch, in records, of engines that need to be told.

    `under`: the command that starts the peer's commands, which are its last arguments.
    """

    bootstrap: str
    application: str
    topics: tuple[str, ...]
    query: Query
    folder: Path
    batch: int
    form: str = "JSON"
    registry: str = ""
    under: tuple[str, ...] = ()

    @property
    def input_topic(self) -> str:
        """The first one."""
        return self.topics[0]

    @property
    def sink_topic(self) -> str:
        return f"{self.application}-sink"


@dataclass(frozen=True)
class Command:
    """A process of the peer, started in a session of its own."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Restored:
    """A finished restore of all stores: changelog records, and seconds without process start."""

    records: int
    seconds: float


class Peer(Protocol):
    """One engine under test; it knows its commands, and nothing of measuring.

    `can_restore`: restores and kills are measured.  `reads_registered`: it reads formats with a
    registry.  `queries`: those it is written for.  `notes`: settings and guarantees, for the
    report.
    """

    name: str
    title: str
    notes: str
    can_restore: bool
    reads_registered: bool
    queries: frozenset[Query]

    def prepare(self, report: Callable[[str], None]) -> None:
        """Fetch and build what it needs; quick the second time.

        Raises:
            Refused: this machine lacks something.
        """

    def commands(self, case: Case) -> list[Command]: ...

    def group(self, case: Case) -> str:
        """The consumer group whose offsets of the input topic are its progress."""

    def state_folders(self, case: Case) -> list[Path]:
        """The folders that a lost volume takes away."""

    @property
    def rescaling(self) -> Callable[[Case], Command] | None:
        """The command that gives a running table 64 state partitions; None: there is none."""

    def restored(self, case: Case) -> Restored | None:
        """The restore after the last start, once it is done."""

    def volume_of(self, case: Case, pid: int) -> Path:
        """The folder that is lost with the volume of a process."""

    def victim(self, case: Case, pids: Sequence[int]) -> tuple[int, bool]:
        """The process to kill, and whether nobody but the bench starts it again.

        Args:
            pids: of the commands, in their order.
        """
