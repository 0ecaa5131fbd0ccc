"""The load of a run: numbered records into the job's real input topics, at a steady pace.

The producer is idempotent and waits for unavailable brokers, so every record is in its topic
exactly once and the topics themselves are the truth.  A record's header `holdfast-chaos` is
`<run>/<number>`, with numbers from 0 over all topics of a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.chaos.history.events import Event, HistoryWriter
from holdfast.chaos.load.load_gate import LoadGate
from holdfast.chaos.load.records import LoadShape, RecordMaker
from holdfast.transport.idempotent_producer import Producer
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.topology import Source, Topology

__all__ = ["HEADER", "Load", "Sent", "Workload", "input_sources", "sent_before"]

HEADER = "holdfast-chaos"
# Longer than any broker outage: a record given up would be missing in the numbers.
_PATIENCE_MS = 900_000
# An added partition gets its share at once, not in five minutes.
_NEW_PARTITIONS = {"topic.metadata.refresh.interval.ms": "1000"}
_TICK_S = 0.05
_TELL_EVERY_S = 1.0


@dataclass(frozen=True)
class Load:
    """The load to produce.

    Attributes:
        run: name of the run, for the header.
        rate: records per second over all topics.
    """

    run: str
    seed: int
    rate: int
    shape: LoadShape


def input_sources(topology: Topology) -> tuple[Source, ...]:
    """The declared sources that the job reads but does not write itself, one per topic."""
    written = {q.sink.topic for q in topology.queries}
    read = {source.topic: source for q in topology.queries for source in q.sources}
    return tuple(source for topic, source in read.items() if topic not in written)


@dataclass(frozen=True)
class Sent:
    """Counts of a run's records; the next one gets number `sent`."""

    sent: int = 0
    acked: int = 0
    failed: int = 0


def sent_before(history: Iterable[Event]) -> Sent:
    """The last counts that an earlier workload of the same run recorded."""
    told = [e.data for e in history if e.what in ("produce", "produced")]
    if not told:
        return Sent()
    last = told[-1]
    return Sent(int(last["last"]) + 1, int(last["acked"]), int(last["failed"]))


class Workload:
    """Owns the numbers of the records it sends and their delivery results.

    Args:
        history: gets a "produce" state every second, with the run's counts so far and that second's
            numbers, and "produced" at the end.
        before: the counts of an earlier workload of the same run.
        gate: may hold the load; None: nothing holds it.
        schemas: the registry of sources in formats with one.
    """

    def __init__(
        self,
        load: Load,
        sources: Sequence[Source],
        client: Mapping[str, str],
        history: HistoryWriter,
        before: Sent | None = None,
        gate: LoadGate | None = None,
        schemas: Schemas | None = None,
    ) -> None:
        """Raises `Refused`: no records can be made for a source; see `RecordMaker`."""
        self._load = load
        self._makers = [(s.topic, RecordMaker(s, load.shape, schemas)) for s in sources]
        self._client = {**_NEW_PARTITIONS, **client}
        self._producer = self._opened()
        self._history, self._gate = history, gate
        self._before = before or Sent()
        self._next = self._before.sent
        self._at_once = 0

    def run(self, done: Callable[[], bool], limit_s: float) -> int:
        """Sends until `done()` is true or time is over; returns how many records were sent.

        Raises:
            KafkaUnavailable: records could not be delivered within a quarter of an hour.
        """
        start = began = told = time.monotonic()
        tell_from = self._next
        try:
            while not done() and time.monotonic() - start < limit_s:
                if self._gate is not None and self._gate.closed:
                    began += self._held(self._gate, done)
                self._send_due(time.monotonic() - began)
                if time.monotonic() - told >= _TELL_EVERY_S:
                    told = time.monotonic()
                    self._tell("produce", tell_from)
                    tell_from = self._next
                time.sleep(_TICK_S)
            self._producer.flush()
        finally:
            self._tell("produced", 0)
            self._producer.close()
        return self._next - self._before.sent

    def _opened(self) -> Producer:
        return Producer(self._client, _PATIENCE_MS)

    def _held(self, gate: LoadGate, done: Callable[[], bool]) -> float:
        """Waits until the gate opens, then sends the burst it asks for; returns the seconds held.

        It replaces the producer, because the old one knows a topic that may be gone by then.
        """
        since = time.monotonic()
        self._producer.flush()
        self._before = replace(
            self._before,
            acked=self._before.acked + self._producer.delivered(),
            failed=self._before.failed + self._producer.failed(),
        )
        self._producer.close()
        gate.tell_held()
        while gate.closed and not done():
            time.sleep(_TICK_S)
        self._producer = self._opened()
        self._at_once += gate.at_once()
        held_s = time.monotonic() - since
        self._send(self._next + gate.at_once())
        self._producer.flush()
        gate.tell_gone_on()
        return held_s

    def _send_due(self, seconds: float) -> None:
        self._send(self._before.sent + self._at_once + int(seconds * self._load.rate))

    def _send(self, due: int) -> None:
        now_ms = int(time.time() * 1000)
        while self._next < due:
            topic, maker = self._makers[self._next % len(self._makers)]
            record = maker.make(self._next, self._load.seed, now_ms)
            self._producer.send(
                topic,
                record.key,
                record.value,
                record.timestamp_ms,
                headers={HEADER: f"{self._load.run}/{self._next}"},
            )
            self._next += 1

    def _tell(self, what: str, first: int) -> None:
        self._history.state(
            what,
            sent=self._next,
            acked=self._before.acked + self._producer.delivered(),
            failed=self._before.failed + self._producer.failed(),
            first=first,
            last=self._next - 1,
        )
