"""The clients of `holdfast.transport` on a fake broker: producer, reader, admin.

Make them with `clients`: classes that know their broker and are called like the real ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self

from holdfast.errors import (
    CommitUnknown,
    DataLoss,
    Fenced,
    HangingTransaction,
    HoldfastError,
    KafkaUnavailable,
    TopicMissing,
)
from holdfast.transport.cluster.admin import TopicBounds, TopicInfo
from holdfast.transport.reader import Chunk
from tests.simulation.fakes.kafka import FakeKafka, Op, Trouble
from tests.simulation.fakes.log import Fate

__all__ = ["Clients", "FakeAdmin", "FakeProducer", "FakeReader", "clients"]

_Record = tuple[str, int, bytes | None, bytes | None, int | None]
_ADMIN_S = 30.0
_POLL_S = 1.0
_SMALL_CHUNK = 4  # records


class FakeProducer:
    """`TransactionalProducer`: buffers records, and the broker has some of them before `commit`."""

    kafka: ClassVar[FakeKafka]

    def __init__(
        self, client: Mapping[str, str], transactional_id: str, timeout_ms: int = 60_000
    ) -> None:
        self.transactional_id = transactional_id
        self._timeout_s = timeout_ms / 1000
        self._process = self.kafka.current
        self._epoch: int | None = None
        self._buffer: list[_Record] = []
        self._marker: int | None = None  # its index in the transaction
        self._sent: list[int] = []  # offsets of the transaction's records so far
        self._open = self._closed = False
        self._failed = False  # then only `close` is left

    def init(self) -> None:
        with self._asked(Op.INIT):
            self._epoch = self.kafka.init(self.transactional_id)

    def begin(self) -> None:
        self._check_open()
        self._buffer, self._sent, self._marker, self._open = [], [], None, True

    def send(
        self,
        topic: str,
        partitions: int | Sequence[int],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: int | Sequence[int] | None = None,
    ) -> None:
        self._check_open()
        count = len(keys)
        places = [partitions] * count if isinstance(partitions, int) else list(partitions)
        times = (
            [t or 1 for t in timestamps_ms]  # as the contract of brokers has it
            if isinstance(timestamps_ms, Sequence)
            else [1 if timestamps_ms == 0 else timestamps_ms] * count
        )
        if {len(values), len(places), len(times)} - {count}:
            raise ValueError("columns of different lengths")
        self._buffer += [
            (topic, p, k, v, t) for p, k, v, t in zip(places, keys, values, times, strict=True)
        ]
        with self._asked(Op.SEND):
            self._deliver(self.kafka.rng.randint(0, len(self._buffer)))

    def send_marker(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        self._marker = len(self._sent) + len(self._buffer)
        self.send(topic, partition, [key], [value])

    def commit(self) -> int | None:
        self._check_open()
        with self._asked(Op.COMMIT) as trouble:
            self.kafka.wait_back(Op.COMMIT, self._timeout_s)
            self._deliver(len(self._buffer))
            self._open = False
            self._end(trouble)
        return None if self._marker is None else self._sent[self._marker]

    def abort(self) -> None:
        if self._process is not None and not self._process.alive:
            return
        self._open = False
        # The broker aborts what cannot be aborted now: at the next `init`, or after the time-out.
        if self._epoch is not None and self.kafka.clock.monotonic() >= self.kafka.away_until_s:
            try:
                self.kafka.end(self.transactional_id, self._epoch, Fate.ABORTED)
            except Fenced:
                return

    def close(self) -> None:
        if self._open:
            self.abort()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, trouble: Trouble | None) -> None:
        kafka, epoch = self.kafka, self._epoch or 0
        if trouble is Trouble.UNAVAILABLE:
            kafka.end(self.transactional_id, epoch, Fate.ABORTED)
            raise KafkaUnavailable("The fake broker aborted a transaction.", action="do it again.")
        if trouble is Trouble.UNKNOWN_LATE:
            kafka.leave_in_flight(self.transactional_id, epoch)
        elif trouble is not Trouble.UNKNOWN_LOST:
            kafka.end(self.transactional_id, epoch, Fate.COMMITTED)
        if trouble is not None and trouble is not Trouble.OUTAGE:
            kafka.clock.sleep(self._timeout_s / 2)
            raise self._unknown()

    def _deliver(self, count: int) -> None:
        now, self._buffer = self._buffer[:count], self._buffer[count:]
        who = (self.transactional_id, -1 if self._epoch is None else self._epoch)
        for topic, partition, key, value, time_ms in now:
            offset = self.kafka.append(
                (topic, partition), (key, value, time_ms), who, self._timeout_s
            )
            self._sent.append(offset)

    @contextmanager
    def _asked(self, op: Op) -> Iterator[Trouble | None]:
        assert not self._failed, "a producer that has raised an error is closed and made anew"
        try:
            with self.kafka.asked(op, self._timeout_s) as trouble:
                yield trouble
        except HoldfastError:
            self._failed = True
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise Fenced(f"The producer {self.transactional_id} is closed.", action="open anew.")

    def _unknown(self) -> CommitUnknown:
        self._open = False
        return CommitUnknown(
            f"The fake broker did not say what became of {self.transactional_id}'s transaction.",
            action="close the producer; the changelog tells.",
        )


class FakePlainProducer:
    """`Producer`: each record is there when `send` returns."""

    kafka: ClassVar[FakeKafka]

    def __init__(self, client: Mapping[str, str], timeout_ms: int, *, idempotent: bool) -> None:
        self._timeout_s = timeout_ms / 1000

    def send(self, topic: str, key: bytes, value: bytes | None, *, partition: int) -> None:
        with self.kafka.asked(Op.SEND, self._timeout_s):
            self.kafka.log(topic, partition).append(key, value, self.kafka.clock.now_ms())

    def flush(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is held."""


class FakeReader:
    """`PartitionReader` of records that never have headers; what is compacted is not seen."""

    kafka: ClassVar[FakeKafka]

    def __init__(
        self,
        client: Mapping[str, str],
        topic: str,
        partition: int,
        *,
        timeout_s: float = 30.0,
        headers: bool = False,
        exists: bool = False,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._timeout_s = timeout_s
        self._headers = headers

    def turn_to(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition

    def bounds(self) -> tuple[int, int]:
        with self.kafka.asked(Op.BOUNDS, self._timeout_s):
            log = self.kafka.log(self.topic, self.partition)
            return log.start, log.stable_end

    def read(self, start: int, end: int, chunk_records: int = 50_000) -> Iterator[Chunk]:
        low, high = self.bounds()
        if start < low or max(start, end) > high:
            wanted = start if start < low or start > high else end
            raise DataLoss(
                f"Of topic {self.topic} partition {self.partition} offset {wanted} is wanted but "
                f"offsets {low} to {high} (exclusive) are available.",
                action="restore the topic.",
            )
        while start < end:
            chunk = self._chunk(start, end, chunk_records)
            start = chunk.position
            yield chunk

    def close(self) -> None:
        """Nothing is held."""

    def _chunk(self, start: int, end: int, size: int) -> Chunk:
        with self.kafka.asked(Op.READ, self._timeout_s):
            found = self.kafka.log(self.topic, self.partition).visible(start, end, size)
        return Chunk(
            keys=[e.key for e in found],
            values=[e.value for e in found],
            offsets=[e.offset for e in found],
            timestamps=[e.timestamp_ms for e in found],
            position=found[-1].offset + 1 if len(found) == size else end,
            headers=[[] for _ in found] if self._headers else [],
        )


class FakeSourceReader(FakeReader):
    """`PartitionReader` of a source topic, whose chunks may be small."""

    def read(self, start: int, end: int, chunk_records: int = 50_000) -> Iterator[Chunk]:
        return super().read(start, end, self.kafka.rng.choice((_SMALL_CHUNK, chunk_records)))


class FakeAdmin:
    """`Admin`, as far as the engine and the judge use it."""

    kafka: ClassVar[FakeKafka]

    def __init__(self, client: Mapping[str, str], timeout_s: float = _ADMIN_S) -> None:
        self._timeout_s = timeout_s

    def ensure_topic(
        self,
        name: str,
        partitions: int,
        replicas: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> TopicInfo:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            if name not in self.kafka.topics:
                self.kafka.make_topic(name, partitions, config or {})
            return self._info(name)

    def create_topic(
        self,
        name: str,
        partitions: int,
        replicas: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> TopicInfo | None:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            if name in self.kafka.topics:
                return None
            self.kafka.make_topic(name, partitions, config or {})
            return self._info(name)

    def describe(self, name: str) -> TopicInfo | None:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            return self._info(name) if name in self.kafka.topics else None

    def config(self, name: str) -> dict[str, str]:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            self._check(name)
            return dict(self.kafka.topics[name].config)

    def raised(self, name: str, setting: str) -> int | None:
        found = self.config(name).get(setting)
        return None if found is None else int(found)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            self._check(topic)
            logs = self.kafka.topics[topic].logs
            return {p: (log.start, log.stable_end) for p, log in enumerate(logs)}

    def look(self, topic: str) -> TopicBounds:
        bounds = self.bounds(topic)
        return TopicBounds(self.kafka.topics[topic].topic_id, bounds)

    def end_offsets(self, topic: str) -> dict[int, int]:
        return {p: end for p, (_, end) in self.bounds(topic).items()}

    def first_at(self, topic: str, time_ms: int) -> dict[int, int]:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            self._check(topic)
            logs = self.kafka.topics[topic].logs
            found = {p: log.first_at(time_ms) for p, log in enumerate(logs)}
            return {p: offset for p, offset in found.items() if offset is not None}

    def high_watermarks(self, topic: str) -> dict[int, int]:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            self._check(topic)
            return {p: log.end for p, log in enumerate(self.kafka.topics[topic].logs)}

    def await_ended(self, topic: str, partition: int, timeout_s: float) -> None:
        deadline_s = self.kafka.clock.monotonic() + timeout_s
        while True:
            with self.kafka.asked(Op.ADMIN, self._timeout_s):
                log = self.kafka.log(topic, partition)
                if log.stable_end == log.end:
                    return
            if self.kafka.clock.monotonic() >= deadline_s:
                raise HangingTransaction(f"{topic}-{partition}: stable to {log.stable_end}.")
            self.kafka.clock.sleep(_POLL_S)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            return dict(self.kafka.groups.get((group, topic), {}))

    def commit_group(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            self.kafka.groups.setdefault((group, topic), {}).update(offsets)

    def delete_topic(self, name: str) -> None:
        with self.kafka.asked(Op.ADMIN, self._timeout_s):
            self.kafka.delete_topic(name)

    def _info(self, name: str) -> TopicInfo:
        topic = self.kafka.topics[name]
        return TopicInfo(name, topic.topic_id, len(topic.logs), 1)

    def _check(self, name: str) -> None:
        if name not in self.kafka.topics:
            raise TopicMissing(f"There is no topic {name}.", action="create it.")


@dataclass(frozen=True)
class Clients:
    """Classes whose instances talk to one fake broker."""

    producer: type[FakeProducer]
    plain: type[FakePlainProducer]
    reader: type[FakeReader]
    source_reader: type[FakeSourceReader]
    admin: type[FakeAdmin]


def clients(kafka: FakeKafka) -> Clients:
    """The classes to put in the place of transport's."""
    bound = {"kafka": kafka}
    return Clients(
        type("TransactionalProducer", (FakeProducer,), dict(bound)),
        type("Producer", (FakePlainProducer,), dict(bound)),
        type("PartitionReader", (FakeReader,), dict(bound)),
        type("PartitionReader", (FakeSourceReader,), dict(bound)),
        type("Admin", (FakeAdmin,), dict(bound)),
    )
