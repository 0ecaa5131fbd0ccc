"""Faults of a simulated history: what, after which step or request, and a schedule from a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.tasks.steps import AnyStep, RescaleStep, SavepointStep, SnapshotStep, Step
from tests.simulation.fakes.kafka import Op, Trouble

__all__ = [
    "DATABASE",
    "FAMILIES",
    "GENERAL",
    "Family",
    "Fault",
    "Injector",
    "Kind",
    "schedule",
    "schedule_of",
]


class Kind(StrEnum):
    """The kinds of faults.

    | kind         | when            | what                                                   |
    |--------------|-----------------|--------------------------------------------------------|
    | KILL         | after a step    | the executor's process is gone                         |
    | KILL_ALL     | after a step    | so are all others                                      |
    | MACHINE      | after a step    | its volume loses what was not synced, too              |
    | LOSE_VOLUME  | after a step    | its volume is lost, too                                |
    | PAUSE        | after a step    | it stops, is replaced, and goes on later: a zombie     |
    | DRIVER       | after a step    | driver and all executors are gone                      |
    | DRIVER_LATER | after a step    | the task ends, then the driver and all executors do    |
    | KAFKA        | at a request    | one of the fake broker's troubles                      |
    | ABSENCE      | before a round  | an executor dies and is long replaced when it is back  |

    Of histories of a `Family` only, all of them before a round; those after the first four
    stop the whole job, and start it again:

    | kind            | what                                                                  |
    |-----------------|-----------------------------------------------------------------------|
    | ADD_PARTITION   | the source topic gets one more partition                              |
    | CLOCK           | the engine's wall clock jumps by `seconds`                            |
    | RETENTION       | the changelog's cleaner takes tombstones at once, for a while         |
    | RECREATE        | the source topic is deleted and made again                            |
    | OLD_STORE       | a store of some rounds ago comes back                                 |
    | SWAP_STORES     | the stores of two state partitions change places                      |
    | EMPTY_CHANGELOG | one changelog partition loses everything                              |
    | CUT_CHANGELOG   | one changelog partition loses its last transactions                   |
    | LOSE_VOLUMES    | some volumes are lost                                                 |

    And those of the place of the snapshots, which do not stop the job:

    | kind            | what                                                                  |
    |-----------------|-----------------------------------------------------------------------|
    | DAMAGE_SNAPSHOT | one file is changed, cut, removed, or replaced by another             |
    | SNAPSHOT_OUTAGE | it is out of reach for `seconds`                                      |

    And those of the database of remote stores, after each of whose requests a process may die:

    | kind            | what                                                                  |
    |-----------------|-----------------------------------------------------------------------|
    | FLUSH           | it loses everything                                                   |
    | DATABASE_OUTAGE | it is out of reach for `seconds`                                      |
    """

    KILL = "kill"
    KILL_ALL = "kill-all"
    MACHINE = "machine"
    LOSE_VOLUME = "lose-volume"
    PAUSE = "pause"
    DRIVER = "driver"
    DRIVER_LATER = "driver-later"
    KAFKA = "kafka"
    ABSENCE = "absence"
    ADD_PARTITION = "add-partition"
    CLOCK = "clock"
    RETENTION = "retention"
    RECREATE = "recreate"
    OLD_STORE = "old-store"
    SWAP_STORES = "swap-stores"
    EMPTY_CHANGELOG = "empty-changelog"
    CUT_CHANGELOG = "cut-changelog"
    LOSE_VOLUMES = "lose-volumes"
    DAMAGE_SNAPSHOT = "damage-snapshot"
    SNAPSHOT_OUTAGE = "snapshot-outage"
    FLUSH = "flush"
    DATABASE_OUTAGE = "database-outage"


DATABASE = "database"
"""The `Fault.at` of a request to the database of remote stores."""

_AT_STEPS = (
    Kind.KILL, Kind.KILL, Kind.KILL_ALL, Kind.MACHINE, Kind.LOSE_VOLUME, Kind.PAUSE, Kind.PAUSE,
    Kind.DRIVER, Kind.DRIVER_LATER,
)  # fmt: skip
_AT_COMMIT = (
    Trouble.UNKNOWN_APPLIED, Trouble.UNKNOWN_LOST, Trouble.UNKNOWN_LATE, Trouble.UNAVAILABLE,
    Trouble.OUTAGE,
)  # fmt: skip
_ANYWHERE = (Trouble.UNAVAILABLE, Trouble.OUTAGE)
GENERAL = (*dict.fromkeys(_AT_STEPS), Kind.ABSENCE)
"""Beside the broker's troubles, what may happen in a history of no family."""
# State tasks are opened once per driver and after faults; the rest happens in every batch.
_RARE = frozenset({Step.RESTORING, Step.OPENED})


@dataclass(frozen=True)
class Family:
    """Histories that have something in common beside the faults that all may have.

    Attributes:
        kinds: what happens in each, one or two of them.
        drivers: how many there are at once.
        faults: at most, of those that all may have.
        weights: of totals, extremes, windows, late, filter, computed, listed, columns, a join.
        executors: of each driver, at least and at most; rounds likewise.
        standbys: whether executors keep standbys, and state partitions move to them.
        snapshots: whether they take snapshots, and restore lost stores from them.
        remote: whether the stores are in a database.
        rescales: whether the driver changes the number of state partitions now and then.
        savepoints: whether another job, with another number of state partitions, goes on from a
            savepoint of the first one.
    """

    kinds: tuple[Kind, ...] = ()
    drivers: tuple[int, ...] = (1,)
    faults: int = 3
    weights: tuple[int, ...] = (3, 2, 3, 1, 2, 2, 2, 1, 1)
    executors: tuple[int, int] = (1, 3)
    rounds: tuple[int, int] = (4, 9)
    standbys: bool = False
    snapshots: bool = False
    savepoints: bool = False
    rescales: bool = False
    remote: bool = False


_MOVES = (
    Kind.ADD_PARTITION, Kind.CLOCK, Kind.RETENTION, Kind.OLD_STORE, Kind.SWAP_STORES,
)  # fmt: skip
FAMILIES = {
    "drivers": Family(drivers=(2, 2, 3)),
    "partitions": Family((Kind.ADD_PARTITION,), drivers=(1, 2, 2)),
    "topics": Family((Kind.RECREATE,)),
    # Records that were late the first time may be in time when they are counted again.
    "changelogs": Family(
        (Kind.EMPTY_CHANGELOG, Kind.EMPTY_CHANGELOG, Kind.CUT_CHANGELOG),
        weights=(3, 2, 3, 0, 2, 2, 2, 1, 0),
        snapshots=True,
    ),
    "stores": Family((Kind.OLD_STORE, Kind.SWAP_STORES)),
    # It takes a store that is away while rows leave the table.
    "clocks": Family(
        (Kind.CLOCK, Kind.RETENTION),
        weights=(0, 0, 3, 1, 0, 0, 0, 0, 0),
        executors=(2, 3),
        rounds=(8, 13),
    ),
    "standbys": Family(
        (*_MOVES, Kind.ABSENCE), (1, 1, 2), 5, executors=(2, 3), rounds=(5, 11), standbys=True
    ),
    "snapshots": Family(
        (
            Kind.LOSE_VOLUMES,
            Kind.LOSE_VOLUMES,
            Kind.DAMAGE_SNAPSHOT,
            Kind.SNAPSHOT_OUTAGE,
            Kind.RETENTION,
            Kind.CLOCK,
        ),
        (1, 1, 2),
        5,
        rounds=(6, 12),
        snapshots=True,
    ),
    "savepoints": Family(
        (Kind.ABSENCE, Kind.SNAPSHOT_OUTAGE, Kind.RETENTION),
        faults=4,
        rounds=(3, 8),
        savepoints=True,
    ),
    "rescales": Family(
        (Kind.ABSENCE,),
        (1, 1, 2, 2),
        4,
        weights=(3, 2, 3, 1, 0, 2, 0, 0, 2),
        rounds=(5, 10),
        rescales=True,
    ),
    "remote": Family(
        (Kind.ABSENCE, Kind.FLUSH, Kind.DATABASE_OUTAGE),
        (1, 1, 2),
        faults=4,
        weights=(3, 2, 3, 1, 0, 2, 0, 0, 2),
        rounds=(4, 10),
        rescales=True,
        remote=True,
    ),
    "everything": Family(_MOVES, drivers=(1, 2, 3)),
}


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        at: name of the step, value of the request, or "round".
        nth: at its n-th visit, from 1, or at the next one after that.
        trouble: the broker's, of KAFKA faults.
        seconds: of an outage, an absence, or a jump of the clock.
    """

    kind: Kind
    at: str
    nth: int
    trouble: Trouble | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        what = f"{self.kind} {self.trouble}" if self.trouble else str(self.kind)
        lasting = f" for {self.seconds:.0f} s" if self.seconds else ""
        return f"{what} at {self.at} {self.nth}{lasting}"


def schedule(rng: random.Random, rounds: int, partitions: int) -> tuple[Fault, ...]:
    """Faults of one history; one in eight histories has none."""
    count = rng.choice((0, 1, 2, 3, 4, 5, 6, 8))
    return tuple(_fault(rng, rounds, partitions) for _ in range(count))


def schedule_of(
    family: Family, rng: random.Random, rounds: int, partitions: int
) -> tuple[Fault, ...]:
    """Faults of one history of a family."""
    some = [_fault(rng, rounds, partitions) for _ in range(rng.randint(0, family.faults))]
    if family.snapshots:
        some += [_snapshot_fault(rng, rounds) for _ in range(rng.randint(0, 3))]
    if family.rescales:
        some += [_rescale_fault(rng, partitions) for _ in range(rng.randint(0, 5))]
    if family.remote:
        some += [_database_fault(rng, rounds) for _ in range(rng.randint(0, 5))]
    if family.savepoints:
        some += [_savepoint_fault(rng, partitions) for _ in range(rng.randint(0, 4))]
    moves = [_move(rng, rng.choice(family.kinds), rounds) for _ in range(rng.randint(1, 2))
             if family.kinds]  # fmt: skip
    return (*_absences(rng, moves), *moves, *some)


def _snapshot_fault(rng: random.Random, rounds: int) -> Fault:
    kinds = (Kind.KILL, Kind.KILL_ALL, Kind.MACHINE, Kind.LOSE_VOLUME, Kind.DRIVER)
    step = rng.choice(list(SnapshotStep))
    return Fault(rng.choice(kinds), step.name, rng.randint(1, rounds))


def _savepoint_fault(rng: random.Random, partitions: int) -> Fault:
    step = rng.choice(list(SavepointStep))
    return Fault(rng.choice(_AT_STEPS), step.name, rng.randint(1, 2 * partitions))


def _rescale_fault(rng: random.Random, partitions: int) -> Fault:
    step = rng.choice(list(RescaleStep))
    return Fault(rng.choice(_AT_STEPS), step.name, rng.randint(1, 3 * partitions))


def _database_fault(rng: random.Random, rounds: int) -> Fault:
    return Fault(rng.choice(_AT_STEPS), DATABASE, rng.randint(1, 40 * rounds))


def _move(rng: random.Random, kind: Kind, rounds: int) -> Fault:
    if kind in {Kind.SNAPSHOT_OUTAGE, Kind.DATABASE_OUTAGE}:
        return Fault(kind, "round", rng.randint(2, rounds), seconds=rng.uniform(20, 300))
    if kind is Kind.ABSENCE:
        return Fault(kind, "round", rng.randint(2, rounds), seconds=rng.uniform(5, 200))
    jump_s = rng.choice((-1, 1)) * rng.choice((30, 300, 86_400))
    about = {Kind.CLOCK, Kind.RETENTION}
    nth = rng.randint(rounds // 2 if kind in about else 2, rounds)
    return Fault(kind, "round", nth, seconds=jump_s if kind is Kind.CLOCK else 0.0)


def _absences(rng: random.Random, moves: Sequence[Fault]) -> list[Fault]:
    """Absences of stores around moves of clocks and retention, which decide their restore."""
    about = [m for m in moves if m.kind in {Kind.CLOCK, Kind.RETENTION}]
    return [_absence(rng, move) for move in about]


def _absence(rng: random.Random, move: Fault) -> Fault:
    seconds = rng.uniform(5, 50) if move.kind is Kind.RETENTION else rng.uniform(60, 200)
    return Fault(Kind.ABSENCE, "round", max(move.nth - rng.randint(0, 2), 1), seconds=seconds)


def _fault(rng: random.Random, rounds: int, partitions: int) -> Fault:
    draw = rng.random()
    often = rounds * partitions
    if draw < 0.6:
        step = rng.choice(list(Step))
        nth = rng.randint(1, 2 * partitions if step in _RARE else often)
        return Fault(rng.choice(_AT_STEPS), step.name, nth)
    if draw < 0.76:
        trouble = rng.choice(_AT_COMMIT)
        nth = rng.randint(1, often)
        return Fault(Kind.KAFKA, Op.COMMIT, nth, trouble, _seconds(rng, trouble))
    if draw < 0.88:
        op, trouble = rng.choice([o for o in Op if o is not Op.COMMIT]), rng.choice(_ANYWHERE)
        nth = rng.randint(1, often)
        return Fault(Kind.KAFKA, op, nth, trouble, _seconds(rng, trouble))
    return Fault(Kind.ABSENCE, "round", rng.randint(1, rounds), seconds=rng.uniform(30, 200))


def _seconds(rng: random.Random, trouble: Trouble) -> float:
    return rng.uniform(1, 90) if trouble is Trouble.OUTAGE else 0.0


class Injector:
    """Owns which faults are still to come, and counts what was visited and hit.

    Attributes:
        visits: of steps by name and of requests by value.
        hits: faults that landed, by (step, request or round; kind or trouble).
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._pending = list(faults)
        self.visits: Counter[str] = Counter()
        self.hits: Counter[tuple[str, str]] = Counter()
        self.strike: Callable[[Fault], None] = lambda _: None
        self.armed = False  # nothing happens before the job runs, nor while it is judged

    @property
    def may_pause(self) -> bool:
        return any(f.kind is Kind.PAUSE for f in self._pending)

    def step(self, step: AnyStep, query_id: str, partition: int) -> None:
        """The observer of the commit order."""
        fault = self._due(step.name)
        if fault is not None:
            self.strike(fault)

    def database(self) -> None:
        """Called after every request to the database of remote stores."""
        fault = self._due(DATABASE)
        if fault is not None:
            self.strike(fault)

    def request(self, op: Op) -> Fault | None:
        """The fault, if one is due at this request."""
        return self._due(op)

    def round(self, number: int) -> Fault | None:
        """The next fault that is due before this round of input."""
        return self._found("round", number) if self.armed else None

    def missed(self, fault: Fault) -> None:
        """There was nothing that it could have done something to."""
        self.hits[fault.at, str(fault.kind)] -= 1

    def _due(self, at: str) -> Fault | None:
        if not self.armed:
            return None
        self.visits[at] += 1
        return self._found(at, self.visits[at])

    def _found(self, at: str, now: int) -> Fault | None:
        for fault in self._pending:
            if fault.at == at and fault.nth <= now:
                self._pending.remove(fault)
                self.hits[at, str(fault.trouble or fault.kind)] += 1
                return fault
        return None
