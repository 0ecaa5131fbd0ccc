"""The vocabulary of the nemesis: components, faults and moments.  Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.types.steps import Step

__all__ = [
    "Fault",
    "Injection",
    "Moment",
]


class Fault(StrEnum):
    """A fault; the second column is the local target's nearest equivalent.

    | fault       | a pod                                      | a process of this machine        |
    |-------------|--------------------------------------------|----------------------------------|
    | DELETE      | deleted, with its own grace period         | SIGTERM                          |
    | DELETE_NOW  | deleted, grace 0                           | SIGKILL to all its processes     |
    | KILL        | SIGKILL inside the container               | SIGKILL to its main process      |
    | PAUSE       | SIGSTOP for longer than the transaction    | the same                         |
    |             | time-out, then SIGCONT: a zombie           |                                  |
    | LOSE_VOLUME | deleted together with its volume claim     | SIGKILL, and its volume's stores |
    |             |                                            | removed                          |
    | CUT_OFF     | Kafka cannot be reached for some time      | the broker is stopped (SIGSTOP)  |
    | DISK_FULL   | writes to the state volume fail            | the same                         |
    | SLOW        | stopped and continued several times a      | the same                         |
    |             | second                                     |                                  |

    Some faults hit what the job keeps or reads, not a single process.  SECOND_DRIVER, OLD_VOLUME,
    SWAP_VOLUMES and RECREATE_TOPIC are local only, and RECREATE_TOPIC hits only a Kafka that
    belongs to the run:

    | fault          | what is done                                                                |
    |----------------|-----------------------------------------------------------------------------|
    | SECOND_DRIVER  | a second driver of the same job runs beside the first for some time         |
    | OLD_VOLUME     | SIGKILL, its stores copied aside; once the job has continued, SIGKILL again |
    |                | and the old stores put back                                                 |
    | SWAP_VOLUMES   | SIGKILL to all executors, and on each volume the stores of two state        |
    |                | partitions of each query swapped                                            |
    | ADD_PARTITION  | a source topic gets one more partition, which the load then writes to       |
    | RECREATE_TOPIC | a source topic is deleted and recreated while the driver is stopped; the    |
    |                | load then alternates between a burst of more records than the topic had     |
    |                | before, and its usual pace                                                  |
    | DAMAGE_SNAPSHOT| a byte of a file of each newest snapshot changed, then LOSE_VOLUME          |
    | RESCALE        | a query gets another number of state partitions; while its state is copied  |
    |                | an executor or the driver is killed (DELETE_NOW)                            |
    | EMPTY_STORES   | all stores of the job are removed from its database                         |
    """

    DELETE = "delete"
    DELETE_NOW = "delete-now"
    KILL = "kill"
    PAUSE = "pause"
    LOSE_VOLUME = "lose-volume"
    CUT_OFF = "cut-off"
    DISK_FULL = "disk-full"
    SLOW = "slow"
    SECOND_DRIVER = "second-driver"
    OLD_VOLUME = "old-volume"
    SWAP_VOLUMES = "swap-volumes"
    ADD_PARTITION = "add-partition"
    RECREATE_TOPIC = "recreate-topic"
    DAMAGE_SNAPSHOT = "damage-snapshot"
    RESCALE = "rescale"
    EMPTY_STORES = "empty-stores"

    @property
    def lasts(self) -> bool:
        """Whether it must be healed after a while (its `duration_s`)."""
        return self in _LASTING

    @property
    def kills(self) -> bool:
        """Whether a process ends at once, without a chance to tidy up."""
        return self in _KILLING


_LASTING = frozenset({Fault.PAUSE, Fault.CUT_OFF, Fault.DISK_FULL, Fault.SLOW, Fault.SECOND_DRIVER})
_KILLING = frozenset(
    {Fault.DELETE_NOW, Fault.KILL, Fault.LOSE_VOLUME, Fault.OLD_VOLUME, Fault.SWAP_VOLUMES}
)


class Moment(StrEnum):
    """The moment: at random, in another fault's recovery, or held right after a commit step."""

    RANDOM = "random"
    RECOVERY = "recovery"
    RESTORING = "restoring"
    OPENED = "opened"
    CHECKED = "checked"
    BEGUN = "begun"
    PRODUCED = "produced"
    MARKED = "marked"
    COMMITTED = "committed"
    WRITTEN = "written"

    @property
    def step(self) -> Step | None:
        """The commit step that it is aimed at; None when it needs no hook."""
        return Step[self.name] if self.name in Step.__members__ else None


@dataclass(frozen=True)
class Injection:
    """One planned fault.

    Attributes:
        number: from 0, in the order of the schedule.
        component: see the constants above.
        count: victims at once.
        choice: 0 to 1, picks the first victim from the list.
        delay_s: wait before it, counted from the previous fault's recovery (RANDOM) or landing
            (RECOVERY); an aimed moment is awaited after this wait.
        duration_s: how long a fault that lasts is kept up.
    """

    number: int
    component: str
    fault: Fault
    moment: Moment
    count: int = 1
    choice: float = 0.0
    delay_s: float = 0.0
    duration_s: float = 0.0
