"""The words of the nemesis: what can be hit, how, and when.  Plain values, nothing happens here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.types.steps import Step

__all__ = [
    "BROKER",
    "DRIVER",
    "EXECUTOR",
    "SCHEDULER",
    "SERVER",
    "TOPIC",
    "Fault",
    "Injection",
    "Moment",
]

DRIVER, EXECUTOR, BROKER, SCHEDULER = "driver", "executor", "broker", "scheduler"
SERVER = "server"  # a query server
TOPIC = "topic"  # an input topic of the job
"""Components every target knows; on Kubernetes any other label value is a component as well."""


class Fault(StrEnum):
    """What is done to a victim; the second column is the local target's nearest equal.

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
    | SLOW        | stopped and let go several times a second  | the same                         |

    Some are done to what the job keeps or reads, and to no process alone; but for ADD_PARTITION
    they are local only, and RECREATE_TOPIC is done only to a Kafka of the run's own:

    | fault          | what is done                                                                |
    |----------------|-----------------------------------------------------------------------------|
    | SECOND_DRIVER  | a second driver of the same job runs beside the first for some time         |
    | OLD_VOLUME     | SIGKILL, its stores copied aside; when the job has gone on SIGKILL again,   |
    |                | and the old stores put back                                                 |
    | SWAP_VOLUMES   | SIGKILL to all executors, and on each volume the stores of two state        |
    |                | partitions of each query swapped                                            |
    | ADD_PARTITION  | a source topic gets one more partition, which the load then writes to       |
    | RECREATE_TOPIC | a source topic is deleted and made again while the driver is stopped; every |
    |                | second time the load goes on with records at its usual pace only, else with |
    |                | more records at once than were in the topic before                          |
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

    @property
    def lasts(self) -> bool:
        """Whether it must be taken back after a while (its `duration_s`)."""
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
    """When: at a random time, in another fault's recovery, or held right after a commit step."""

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
        """The step of the commit order it is aimed at; None when it needs no hook."""
        return Step[self.name] if self.name in Step.__members__ else None


@dataclass(frozen=True)
class Injection:
    """One planned fault.

    Attributes:
        number: from 0, in the order of the schedule.
        component: see the constants above.
        count: victims at once.
        choice: 0 to 1, picks the first victim among those there are.
        delay_s: wait before it, counted from the recovery of the one before (RANDOM), or from
            that one's landing (RECOVERY); aimed moments are awaited after it.
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
