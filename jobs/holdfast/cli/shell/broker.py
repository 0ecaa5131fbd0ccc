"""A session's access to the broker: lists topics, and reads records of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from rich.table import Table

from holdfast.cli.deployed.orders import books
from holdfast.cli.shell.show import grid
from holdfast.errors import HoldfastError, InvalidConfig, InvalidTestCase, KafkaUnavailable
from holdfast.ingest.formats.as_json import registered_as_json
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import AssertTopic, Print
from holdfast.sql.plan.sources.listing import relations
from holdfast.state.topics.orders import OrderBook
from holdfast.testing.bytes_of import RawRecord, TopicCodec
from holdfast.testing.json_text import dumps
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.view import ClusterView
from holdfast.transport.reader import Chunk, PartitionReader
from holdfast.transport.registry import AskedSeldom
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.topology import Topology
from holdfast.types.words import iso_time

__all__ = ["Broker"]

_POLL_S = 0.2  # between polls for new records
_CHUNK = 500
_LOOK_S = 3.0  # for a broker that may not exist
_SILENT_S = 30.0  # a silent broker is not asked again for this time


class Broker:
    """Reads from the broker; it connects at the first request.

    Args:
        client: makes the librdkafka properties; raises `InvalidConfig` if no broker is named.
        schemas: the registry of formats that have one.
    """

    def __init__(
        self,
        client: Callable[[], Mapping[str, str]],
        *,
        timeout_s: float = 10.0,
        schemas: Schemas | None = None,
    ) -> None:
        self.schemas = schemas
        self._made = client
        self._timeout_s = timeout_s
        self._silent_until = 0.0

    def topics(self, *, everything: bool, extended: bool) -> Table:
        """SHOW TOPICS; without `everything`, names that start with _ are left out.

        Raises:
            KafkaUnavailable: no broker answered in time.
        """
        view = ClusterView(self._client, self._timeout_s)
        _, names = view.cluster()
        shown = [n for n in names if everything or not n.startswith("_")]
        table = grid("topic", "partitions", "replicas", *(["records"] if extended else []))
        states = view.topics(shown)
        for name in shown:
            partitions = states[name].partitions
            replicas = str(min((len(p.replicas) for p in partitions), default=0))
            counts = [self._count(name)] if extended else []
            table.add_row(name, str(len(partitions)), replicas, *counts)
        return table

    def jobs(self) -> dict[str, OrderBook]:
        """Query states that jobs reported, by application id; empty if no broker answers."""
        if not self.answers():
            return {}
        try:
            return books(self._client, _LOOK_S)
        except KafkaUnavailable:
            self._silent_until = time.monotonic() + _SILENT_S
            return {}

    @cached_property
    def _client(self) -> dict[str, str]:
        return dict(self._made())

    def answers(self) -> bool:
        """Whether a broker is named, and answered the last request."""
        with suppress(InvalidConfig):
            named = bool(self._client.get("bootstrap.servers"))
            return named and time.monotonic() >= self._silent_until
        return False

    def _count(self, topic: str) -> str:
        bounds = Admin(self._client, self._timeout_s).bounds(topic)
        return f"{sum(end - start for start, end in bounds.values()):,}"

    def assert_topic(self, statement: AssertTopic, script: Script) -> None:
        """ASSERT TOPIC: checked repeatedly until it holds or its time is over.

        Raises:
            InvalidStatement: it does not hold.
            KafkaUnavailable: no broker answered in time.
        """
        deadline = time.monotonic() + (statement.timeout_ms or 0) / 1000
        admin = Admin(self._client, self._timeout_s)
        while True:
            wrong = _wrong(statement, admin)
            if not wrong:
                return
            if time.monotonic() >= deadline:
                raise script.invalid(statement.at, wrong)
            time.sleep(_POLL_S)

    def records(self, statement: Print, topology: Topology) -> Iterator[str]:
        """PRINT: a line per record, until LIMIT or an interrupt.

        Raises:
            TopicMissing: there is no such topic.
            KafkaUnavailable: no broker answered in time.
        """
        schemas = None if self.schemas is None else AskedSeldom(self.schemas)
        show = _printer(statement.topic, topology, schemas)
        every, shown = statement.interval or 1, 0
        for index, line in enumerate(self._lines(statement, show)):
            if index % every:
                continue
            yield line
            shown += 1
            if shown == statement.limit:
                return

    def _lines(self, statement: Print, show: Callable[[RawRecord], str]) -> Iterator[str]:
        topic = statement.topic
        bounds = Admin(self._client, self._timeout_s).bounds(topic)
        at = {p: start if statement.from_beginning else end for p, (start, end) in bounds.items()}
        readers = {p: PartitionReader(self._client, topic, p, headers=True) for p in at}
        try:
            while statement.limit != 0:
                idle = True
                for partition, reader in readers.items():
                    for chunk in self._new(reader, at[partition]):
                        at[partition], idle = chunk.position, False
                        for record, headers in zip(_records(chunk), chunk.headers, strict=True):
                            yield f"{show(record)}, partition: {partition}{_headers(headers)}"
                if idle:
                    time.sleep(_POLL_S)
        finally:
            for reader in readers.values():
                reader.close()

    def _new(self, reader: PartitionReader, start: int) -> Iterator[Chunk]:
        _, end = reader.bounds()
        return reader.read(start, end, _CHUNK) if end > start else iter(())


def _wrong(statement: AssertTopic, admin: Admin) -> str:
    found = admin.describe(statement.topic)
    if found is None:
        return f"Topic {statement.topic} does not exist" if statement.exists else ""
    if not statement.exists:
        return f"Topic {statement.topic} exists"
    actual = {"PARTITIONS": found.partitions, "REPLICAS": found.replicas}
    for wanted in statement.properties:
        there = actual.get(wanted.key)
        if there is None:
            return f"Cannot assert unknown topic property: {wanted.key}"
        if there != wanted.value:
            return f"Topic {statement.topic} has {there} {wanted.key}, not {wanted.value}"
    return ""


def _records(chunk: Chunk) -> Iterator[RawRecord]:
    for key, value, timestamp in zip(chunk.keys, chunk.values, chunk.timestamps, strict=True):
        yield RawRecord(key, value, timestamp)


def _printer(topic: str, topology: Topology, schemas: Schemas | None) -> Callable[[RawRecord], str]:
    """Prints records in the formats of the stream or table over the topic, else in guessed ones."""
    of = next((s for s in relations(topology).values() if s.topic == topic), None)
    codec = None if of is None else TopicCodec(of, schemas)

    def show(record: RawRecord) -> str:
        key, value = shown(record)
        return f"rowtime: {iso_time(record.timestamp)}, key: {key}, value: {value}"

    def shown(record: RawRecord) -> tuple[str, str]:
        if codec is not None:
            with suppress(InvalidTestCase, UnicodeDecodeError):  # it does not fit, so guess
                spec = codec.decode(record)
                window = spec.window
                bounds = f" [{window.start}, {window.end})" if window is not None else ""
                return _text(spec.key) + bounds, _text(spec.value)
        return _guess(record.key, schemas), _guess(record.value, schemas)

    return show


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> str:
    told = ", ".join(f"{name}={_guess(value, None)}" for name, value in headers)
    return f", headers: {told}" if told else ""


def _text(value: object) -> str:
    return "<null>" if value is None else value if isinstance(value, str) else dumps(value)


def _guess(data: bytes | None, schemas: Schemas | None) -> str:
    if data is None:
        return "<null>"
    if schemas is not None and data.startswith(b"\0"):
        with suppress(ValueError, HoldfastError):
            return registered_as_json(data, schemas).decode()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return text if text.isprintable() else f"0x{data.hex()}"
