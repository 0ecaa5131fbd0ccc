"""A broker in memory, at the level of `holdfast.transport`: topics, transactions, groups.

What it promises is held against the real broker by tests/contract/transport.  It is as unkind as
a broker may be: control records may come late, requests may be lost after they were carried out,
an open transaction ends when its time is over, and it may be away for a while.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from holdfast.errors import Fenced, KafkaUnavailable, TopicMissing
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.fakes.log import Fate, Log, Transaction

__all__ = ["FakeKafka", "FakeTopic", "Op", "Process", "Trouble"]

_OP_S = 0.001
_LATE_CONTROL = 0.3  # share of transactions whose control records come later than the answer
_ARRIVES = 0.1  # chance, at each operation, that a commit request in flight arrives


class Op(StrEnum):
    """The requests of clients, at which troubles are aimed."""

    INIT = "init"
    SEND = "send"
    COMMIT = "commit"
    BOUNDS = "bounds"
    READ = "read"
    ADMIN = "admin"


class Trouble(StrEnum):
    """The outcome of a disturbed request; the last three are for commits.

    | trouble         | the client hears | the transaction                  |
    |-----------------|------------------|----------------------------------|
    | UNAVAILABLE     | KafkaUnavailable | of a commit: aborted             |
    | OUTAGE          | see `Op`         | the broker is away for a while   |
    | UNKNOWN_APPLIED | CommitUnknown    | committed                        |
    | UNKNOWN_LOST    | CommitUnknown    | open until fenced or timed out   |
    | UNKNOWN_LATE    | CommitUnknown    | committed later, unless fenced   |
    """

    UNAVAILABLE = "unavailable"
    OUTAGE = "outage"
    UNKNOWN_APPLIED = "unknown-applied"
    UNKNOWN_LOST = "unknown-lost"
    UNKNOWN_LATE = "unknown-late"


class Process(Protocol):
    """The process that uses a client; a dead process closes and aborts nothing."""

    @property
    def alive(self) -> bool: ...


@dataclass
class FakeTopic:
    """A topic; a recreated one has a new id."""

    name: str
    topic_id: str
    logs: list[Log]
    config: Mapping[str, str]

    @property
    def append_time(self) -> bool:
        return self.config.get("message.timestamp.type") == "LogAppendTime"


@dataclass
class _Coordinated:
    """The coordinator's state of one transactional id."""

    epoch: int = -1
    transaction: Transaction | None = None


@dataclass
class FakeKafka:
    """Owns everything a cluster knows.

    Attributes:
        trouble: asked before every operation; None lets it pass.
        before: called before every operation; other processes may run meanwhile.
        current: the process that runs now; new clients belong to it.
        away_until_s: the broker answers nobody before.
    """

    clock: VirtualTime
    rng: random.Random
    trouble: Callable[[Op], Trouble | None] = lambda _: None
    before: Callable[[], None] = lambda: None
    current: Process | None = None
    away_until_s: float = 0.0
    topics: dict[str, FakeTopic] = field(default_factory=dict)
    groups: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    _coordinated: dict[str, _Coordinated] = field(default_factory=dict)
    _concluding: list[Transaction] = field(default_factory=list)  # decided, control records late
    _topics_made: int = 0

    # -- topics ------------------------------------------------------------------------------

    def make_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> FakeTopic:
        self._topics_made += 1
        topic = FakeTopic(
            name, f"id/{self._topics_made}+==", [Log() for _ in range(partitions)], dict(config)
        )
        self.topics[name] = topic
        return topic

    def delete_topic(self, name: str) -> None:
        """The topic is gone, and with it what groups have committed of it."""
        self.topics.pop(name, None)
        for place in [place for place in self.groups if place[1] == name]:
            del self.groups[place]

    def add_partition(self, name: str, start: int = 0) -> None:
        """A topic gets one more partition; `start`: retention has deleted so many records of it."""
        log = Log()
        log.start = log.end = start
        self.topics[name].logs.append(log)

    def log(self, topic: str, partition: int) -> Log:
        """A topic partition's log.

        Raises:
            TopicMissing: there is none.
        """
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.logs):
            raise TopicMissing(
                f"There is no topic {topic} with a partition {partition}.",
                action="create it, or correct its name.",
            )
        return found.logs[partition]

    def compact(self, name: str) -> None:
        """The cleaner visits a topic; how far it comes is up to it."""
        topic = self.topics[name]
        retention_s = int(topic.config.get("delete.retention.ms", "86400000")) / 1000
        for log in topic.logs:
            upto = self.rng.randint(log.start, log.end)
            log.compact(upto, self.clock.monotonic(), retention_s)

    # -- transactions ------------------------------------------------------------------------

    def init(self, transactional_id: str) -> int:
        """Fences every older producer and ends what it left open; the new epoch."""
        known = self._coordinated.setdefault(transactional_id, _Coordinated())
        transaction = known.transaction
        if transaction is not None and transaction.fate is Fate.OPEN:
            arrives = transaction.in_flight and self.rng.random() < 0.5
            self._decide(transaction, Fate.COMMITTED if arrives else Fate.ABORTED)
        self._conclude_of(transactional_id)
        known.epoch += 1
        known.transaction = None
        return known.epoch

    def fenced(self, transactional_id: str, epoch: int) -> bool:
        """Whether nothing that this producer asks for is done any more."""
        return self._coordinated[transactional_id].epoch > epoch

    def append(
        self, place: tuple[str, int], record: tuple[bytes | None, bytes | None, int | None],
        producer: tuple[str, int], timeout_s: float,
    ) -> int:  # fmt: skip
        """Adds a record to the producer's transaction, which begins with its first one.

        Args:
            record: key, value and time in ms (None: now).
            producer: transactional id and epoch.

        Raises:
            Fenced: a newer producer has the transactional id, or the time is over.
            TopicMissing: there is no such topic partition.
        """
        known = self._known(*producer)
        log = self.log(*place)
        if known.transaction is None:
            self._conclude_of(producer[0])
            known.transaction = Transaction(*producer, self.clock.monotonic(), timeout_s)
        key, value, time_ms = record
        now = time_ms is None or self.topics[place[0]].append_time
        return log.append(key, value, self.clock.now_ms() if now else time_ms or 0,
                          known.transaction)  # fmt: skip

    def end(self, transactional_id: str, epoch: int, fate: Fate) -> None:
        """Commits or aborts the open transaction, if there is one.

        Raises:
            Fenced: a newer producer has the transactional id, or the time is over.
        """
        known = self._known(transactional_id, epoch)
        if known.transaction is not None:
            self._decide(known.transaction, fate)
        known.transaction = None

    def drop_end_of(self, transactional_id: str) -> None:
        """Aborts the open transaction and writes no control record, ever (ADR 9)."""
        known = self._coordinated[transactional_id]
        assert known.transaction is not None
        known.transaction.fate, known.transaction = Fate.ABORTED, None

    def leave_in_flight(self, transactional_id: str, epoch: int) -> None:
        """The commit request is on its way; it may arrive later, or never."""
        known = self._known(transactional_id, epoch)
        if known.transaction is not None:
            known.transaction.in_flight = True

    def _known(self, transactional_id: str, epoch: int) -> _Coordinated:
        known = self._coordinated.get(transactional_id, _Coordinated())
        if known.epoch != epoch:
            raise Fenced(
                f"{transactional_id} has epoch {known.epoch}, this producer {epoch}.",
                cause="a newer producer took over, or the transaction's time was over.",
                action="close the producer.",
            )
        return known

    def _decide(self, transaction: Transaction, fate: Fate) -> None:
        transaction.fate, transaction.in_flight = fate, False
        if self.rng.random() < _LATE_CONTROL:
            self._concluding.append(transaction)
        else:
            self._conclude(transaction)

    def _conclude_of(self, transactional_id: str) -> None:
        for transaction in [t for t in self._concluding if t.transactional_id == transactional_id]:
            self._concluding.remove(transaction)
            self._conclude(transaction)

    def _conclude(self, transaction: Transaction) -> None:
        for log in transaction.places:
            log.conclude(transaction, self.clock.now_ms())
        transaction.ended = True

    # -- time and troubles -------------------------------------------------------------------

    @contextmanager
    def asked(self, op: Op, timeout_s: float) -> Iterator[Trouble | None]:
        """One request, with what becomes of it; commits deal with their own troubles.

        Raises:
            KafkaUnavailable: nobody answered within `timeout_s`.
        """
        self.before()
        self.clock.sleep(_OP_S)
        trouble = self.trouble(op)
        if op is not Op.COMMIT:
            if trouble is Trouble.UNAVAILABLE:
                self.clock.sleep(timeout_s)
                raise _silent(op, timeout_s)
            self.wait_back(op, timeout_s)
        self.go_on()
        yield trouble

    def wait_back(self, op: Op, timeout_s: float) -> None:
        """Waits for a broker that is away.

        Raises:
            KafkaUnavailable: it stays away for longer than `timeout_s`.
        """
        left_s = self.away_until_s - self.clock.monotonic()
        self.clock.sleep(min(left_s, timeout_s))
        if left_s > timeout_s:
            raise _silent(op, timeout_s)
        self.go_on()

    def go_on(self) -> None:
        """Runs the broker's own work: aborts overdue transactions, writes delayed markers."""
        if self.clock.monotonic() < self.away_until_s:
            return
        for known in self._coordinated.values():
            transaction = known.transaction
            if transaction is None:
                continue
            if transaction.in_flight and self.rng.random() < _ARRIVES:
                self._decide(transaction, Fate.COMMITTED)
                known.transaction = None
            elif self.clock.monotonic() > transaction.began_s + transaction.timeout_s:
                self._decide(transaction, Fate.ABORTED)
                known.transaction = None
                known.epoch += 1
        for transaction in list(self._concluding):
            if self.rng.random() < 0.5:
                self._concluding.remove(transaction)
                self._conclude(transaction)

    def settle(self) -> None:
        """Lets every transaction's time pass and every control record be written."""
        longest = max((k.transaction.timeout_s for k in self._coordinated.values()
                       if k.transaction is not None), default=0.0)  # fmt: skip
        self.clock.sleep(max(self.away_until_s - self.clock.monotonic(), 0.0) + longest + 1)
        while self._concluding or any(k.transaction for k in self._coordinated.values()):
            self.go_on()


def _silent(op: Op, seconds: float) -> KafkaUnavailable:
    return KafkaUnavailable(
        f"The fake broker gave no answer to {op} in {seconds:g} s.",
        cause="the simulation keeps it away.",
        action="wait; it will be retried.",
    )
