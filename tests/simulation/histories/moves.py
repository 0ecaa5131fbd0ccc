"""Faults of a simulated job's environment: its topics, its stores on disk, its clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.types.ids import changelog_topic, progress_topic
from holdfast.types.statements.topology import Query
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.fakes.database import Database
from tests.simulation.fakes.disk import Disk
from tests.simulation.fakes.kafka import FakeKafka
from tests.simulation.fakes.log import Log
from tests.simulation.fakes.snapshot_place import SnapshotPlace
from tests.simulation.histories.faults import Fault, Kind
from tests.simulation.histories.job import APPLICATION

__all__ = ["STOPPING", "Moves"]

STOPPING = frozenset(
    {Kind.OLD_STORE, Kind.SWAP_STORES, Kind.EMPTY_CHANGELOG, Kind.CUT_CHANGELOG, Kind.LOSE_VOLUMES}
)
"""Happens while no process of the job is alive."""

_SOON_S = 1.0


@dataclass
class Moves:
    """Owns what has been done to one job.

    Attributes:
        copies: of all stores, one of each round.
        former: the records of a source topic that was deleted, by topic.
        headless: whether a changelog partition has lost its first records, and no offset: it does
            not look like a new one.
    """

    kafka: FakeKafka
    disk: Disk
    clock: VirtualTime
    query: Query
    rng: random.Random
    copies: list[dict[Path, dict[bytes, bytes]]] = field(default_factory=list)
    former: dict[str, list[Log]] = field(default_factory=dict)
    headless: bool = False
    snapshots: SnapshotPlace | None = None
    database: Database | None = None

    def make(self, fault: Fault) -> bool:
        """Does it; false when there is nothing to do it to."""
        by_kind: Mapping[Kind, Callable[[], bool]] = {
            Kind.ADD_PARTITION: lambda: self.add_partition(self.rng.choice((0, 0, 5))),
            Kind.CLOCK: lambda: self._jump(fault.seconds),
            Kind.RETENTION: self.take_tombstones,
            Kind.RECREATE: self.recreate,
            Kind.LOSE_VOLUMES: self._lose_volumes,
            Kind.DAMAGE_SNAPSHOT: self._damage,
            Kind.SNAPSHOT_OUTAGE: lambda: self._cut_off(fault.seconds),
            Kind.FLUSH: lambda: self.database is not None and self.database.flush(),
            Kind.DATABASE_OUTAGE: lambda: self._cut_off_database(fault.seconds),
            Kind.OLD_STORE: self._bring_back,
            Kind.SWAP_STORES: self._swap,
            Kind.EMPTY_CHANGELOG: lambda: self._lose(self._empty),
            # Of a query without state the last marker is all that shows how far it was.
            Kind.CUT_CHANGELOG: lambda: self.query.stateful and self._lose(self._cut),
        }
        return by_kind[fault.kind]()

    # -- source topics -----------------------------------------------------------------------

    def add_partition(self, start: int = 0) -> bool:
        """The first source topic gets one more; `start`: its first records are gone already."""
        self.kafka.add_partition(self.query.source.topic, start)
        return True

    def recreate(self) -> bool:
        """Deletes and recreates the first source topic, with the same name and size."""
        name = self.query.source.topic
        before = self.kafka.topics[name].logs
        known = self.former.get(name, [Log() for _ in before])
        self.former[name] = [_joined(old, new) for old, new in zip(known, before, strict=True)]
        self.kafka.delete_topic(name)
        self.kafka.make_topic(name, len(before), {})
        return any(log.end for log in before)

    def as_one(self) -> None:
        """The deleted records followed by the later ones, which is the input to count."""
        for name, former in self.former.items():
            topic = self.kafka.topics[name]
            topic.logs = [_joined(old, new) for old, new in zip(former, topic.logs, strict=True)]
            for (_, of), offsets in self.kafka.groups.items():
                if of == name:
                    offsets.update({p: o + former[p].end for p, o in offsets.items()})
        self.former = {}

    # -- changelog ---------------------------------------------------------------------------

    def empty(self, partition: int) -> None:
        """One changelog partition is as if it had just been made."""
        self.kafka.topics[self.changelog].logs[partition] = Log()

    def delete_records(self, partition: int) -> None:
        """One changelog partition loses all it has, and its offsets go on."""
        self._behead(self.kafka.log(self.changelog, partition))

    def delete_changelog(self) -> None:
        """An operator deletes it, while the job does not run."""
        self.kafka.delete_topic(self.changelog)
        self.headless = False

    @property
    def changelog(self) -> str:
        """The topic of its commit markers."""
        name = changelog_topic if self.query.stateful else progress_topic
        return name(APPLICATION, self.query.id)

    def take_tombstones(self) -> bool:
        """An operator lowers delete.retention.ms, lets the cleaner run, and raises it again."""
        topic = self.kafka.topics.get(self.changelog)
        if topic is None:
            return False
        kept = topic.config
        topic.config = {**kept, "delete.retention.ms": str(int(_SOON_S * 1000))}
        for _ in range(2):
            self.clean()
            self.clock.sleep(2 * _SOON_S)
        topic.config = kept
        return True

    def clean(self) -> None:
        """Runs the log cleaner over the whole changelog."""
        topic = self.kafka.topics[self.changelog]
        kept_s = int(topic.config["delete.retention.ms"]) / 1000
        for log in topic.logs:
            log.compact(log.end, self.clock.monotonic(), kept_s)

    def _lose(self, how: Callable[[Log], Log | None]) -> bool:
        logs = self.kafka.topics[self.changelog].logs if self.changelog in self.kafka.topics else []
        held = [p for p, log in enumerate(logs) if log.transactions()]
        if len(held) < 2:  # all of one partition is another matter: nothing shows what was lost
            return False
        partition = self.rng.choice(held)
        left = how(logs[partition])
        if left is not None:
            logs[partition] = left
        if self.rng.random() < 0.5:
            for path in [p for p in self.disk.paths(Path()) if p.name == str(partition)]:
                self.disk.delete(path)
        return True

    def _empty(self, log: Log) -> Log | None:
        if self.rng.random() < 0.7:
            return Log()
        self._behead(log)
        return None

    def _behead(self, log: Log) -> None:
        log.delete_before(log.end)
        self.headless = True

    def _cut(self, log: Log) -> Log | None:
        *kept, last = log.transactions()
        lost = self.rng.randint(0, min(2, len(kept)))
        log.delete_from([*kept, last][-1 - lost])
        return None

    # -- snapshots ---------------------------------------------------------------------------

    def _damage(self) -> bool:
        """Not only one file: the newest snapshot may have been spared."""
        assert self.snapshots is not None, "a family with snapshots"
        return max(self.snapshots.damage() for _ in range(self.rng.randint(1, 4)))

    def _cut_off(self, seconds: float) -> bool:
        assert self.snapshots is not None, "a family with snapshots"
        self.snapshots.away_until_s = self.clock.monotonic() + seconds
        return True

    # -- remote stores -----------------------------------------------------------------------

    def _cut_off_database(self, seconds: float) -> bool:
        assert self.database is not None, "a family with remote stores"
        until_s = self.clock.monotonic() + seconds
        self.database.away = lambda: self.clock.monotonic() < until_s
        return True

    # -- stores ------------------------------------------------------------------------------

    def _bring_back(self) -> bool:
        old = [(path, rows) for copy in self.copies for path, rows in copy.items()]
        if not old:
            return False
        self.disk.bring_back(*self.rng.choice(old))
        return True

    def _lose_volumes(self) -> bool:
        """All of them or one."""
        volumes = sorted({path.parts[0] for path in self.disk.paths(Path())})
        lost = volumes if self.rng.random() < 0.5 else volumes[:1]
        for volume in lost:
            self.disk.delete(Path(volume))
        return bool(lost)

    def _swap(self) -> bool:
        paths = self.disk.paths(Path())
        pairs = [(a, b) for a in paths for b in paths if a.name < b.name]
        if not pairs:
            return False
        self.disk.swap(*self.rng.choice(pairs))
        return True

    def _jump(self, seconds: float) -> bool:
        self.clock.jump(seconds)
        return True


def _joined(first: Log, then: Log) -> Log:
    """One log with the records of both."""
    found = Log()
    found.entries = [*first.entries]
    found.entries += [replace(e, offset=e.offset + first.end) for e in then.entries]
    found.start, found.end = first.start, first.end + then.end
    return found
