"""Owners of sinks: a topic for the whole cluster in which a query claims its sink before use.

    [sink topic, application id, query id]  ->  the claim, or a tombstone after its release

A query appends its claim and reads everything before it: the first claim to the topic's id that was
not released wins, and a query that lost releases its own.  All queries see the log's order, so two
that start at once cannot both win.  A recreated topic has another id and no owner.  INSERT INTO
claims nothing: several queries may insert into a stream that another statement declares.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from holdfast.errors import KafkaUnavailable, SinkOwned
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import SINK_OWNERS_TOPIC
from holdfast.types.statements.topology import Query

__all__ = ["SinkClaim", "SinkOwners", "claims_sink"]

_CONFIG = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
_TIMEOUT_S = 30.0
_AGAIN_S = 0.1


@dataclass(frozen=True)
class SinkClaim:
    """A query's claim to a sink, and its time; `topic_id` is the id of the sink's topic."""

    sink: str
    topic_id: str
    application_id: str
    query_id: str
    since_ms: int

    @property
    def key(self) -> bytes:
        """The record key; one per query, so that a lost claim does not replace the winner's."""
        return json.dumps([self.sink, self.application_id, self.query_id]).encode()

    def told(self) -> str:
        """The owner and the time, for messages."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{self.query_id} of the application {self.application_id} since {since}"


def claims_sink(query: Query) -> bool:
    """Whether a query claims its sink: CREATE … AS SELECT does, INSERT INTO does not."""
    return not query.sink.internal and query.statement.split()[0].upper() == "CREATE"


class SinkOwners:
    """Claims sinks for the queries of one cluster."""

    def __init__(self, admin: Admin, client: Mapping[str, str], *, replicas: int = -1) -> None:
        """Sends nothing before the first call; `replicas` apply if the topic is created."""
        self._admin = admin
        self._client = dict(client)
        self._replicas = replicas

    def claims(self) -> list[SinkClaim]:
        """All claims that were not released, in order.

        Raises:
            KafkaUnavailable, Refused: the claims cannot be read.
        """
        if self._admin.describe(SINK_OWNERS_TOPIC) is None:
            return []
        reader = PartitionReader(self._client, SINK_OWNERS_TOPIC, 0)
        found: dict[bytes, SinkClaim] = {}
        try:
            start, end = reader.bounds()
            for chunk in reader.read(start, end) if start < end else ():
                for key, value in zip(chunk.keys, chunk.values, strict=True):
                    found.pop(key or b"", None)  # a repeated claim comes last
                    if value is not None:
                        found[key or b""] = SinkClaim(**json.loads(value))
        finally:
            reader.close()
        return list(found.values())

    def check(self, query: Query, topic_id: str, application_id: str) -> None:
        """Checks, without writing, that the application's query could claim its sink.

        Raises:
            SinkOwned: another query owns the sink.
            KafkaUnavailable, Refused: the owner is unknown.
        """
        _check(self.claims(), query, topic_id, application_id)

    def check_all(self, queries: Iterable[Query], application_id: str) -> None:
        """Checks, without writing, that the application's queries could claim sinks that exist.

        Raises:
            SinkOwned: another query owns one of them.
            KafkaUnavailable, Refused: an owner is unknown.
        """
        claiming = list(filter(claims_sink, queries))
        claims = self.claims() if claiming else []
        for query in claiming if claims else ():
            if (sink := self._admin.describe(query.sink.topic)) is not None:
                _check(claims, query, sink.topic_id, application_id)

    def claim(self, query: Query, topic_id: str, application_id: str) -> None:
        """Makes the application's query the owner of its sink, unless there is another.

        Raises:
            SinkOwned: another query owns the sink.
            KafkaUnavailable, Refused: the outcome is unknown.
        """
        self._admin.ensure_topic(SINK_OWNERS_TOPIC, 1, self._replicas, _CONFIG)
        now_ms = int(time.time() * 1000)
        mine = SinkClaim(query.sink.topic, topic_id, application_id, query.id, now_ms)
        owner = _owner(self.claims(), mine.sink, topic_id)
        if owner is None:
            self._write(mine.key, json.dumps(asdict(mine)).encode())
            owner = self._after(mine)
            if owner.key != mine.key:
                self._write(mine.key, None)
        if owner.key != mine.key:
            raise _owned(owner, query, application_id)

    def give_up(self, query: Query, application_id: str) -> None:
        """Releases the claim of the application's query to its sink.

        Raises:
            KafkaUnavailable, Refused: the outcome is unknown.
        """
        mine = (query.sink.topic, application_id, query.id)
        for claim in self.claims():
            if (claim.sink, claim.application_id, claim.query_id) == mine:
                self._write(claim.key, None)

    def release(self, sinks: Iterable[str]) -> list[SinkClaim]:
        """Releases all claims to these sinks, of any query; returns them.

        Raises:
            KafkaUnavailable, Refused: some may have been released.
        """
        wanted = set(sinks)
        gone = [c for c in self.claims() if c.sink in wanted]
        for claim in gone:
            self._write(claim.key, None)
        return gone

    def _after(self, mine: SinkClaim) -> SinkClaim:
        """The sink's owner, once the log shows the claim that was just appended."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            claims = self.claims()
            owner = _owner(claims, mine.sink, mine.topic_id)
            if owner is not None and any(c == mine for c in claims):
                return owner
            if time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"The claim to the sink {mine.sink} was written to {SINK_OWNERS_TOPIC}, but "
                    f"after {_TIMEOUT_S:.0f} s it is not visible.",
                    cause="the broker is slow, or the claim was released at once",
                    action="start again",
                )
            time.sleep(_AGAIN_S)

    def _write(self, key: bytes, value: bytes | None) -> None:
        producer = Producer(self._client, int(_TIMEOUT_S * 1000))
        try:
            producer.send(SINK_OWNERS_TOPIC, key, value, partition=0)
            producer.flush()
        finally:
            producer.close()


def _owner(claims: Iterable[SinkClaim], sink: str, topic_id: str) -> SinkClaim | None:
    return next((c for c in claims if (c.sink, c.topic_id) == (sink, topic_id)), None)


def _check(claims: Iterable[SinkClaim], query: Query, topic_id: str, application_id: str) -> None:
    owner, mine = _owner(claims, query.sink.topic, topic_id), (application_id, query.id)
    if owner is not None and (owner.application_id, owner.query_id) != mine:
        raise _owned(owner, query, application_id)


def _owned(owner: SinkClaim, query: Query, application_id: str) -> SinkOwned:
    return SinkOwned(
        f"The sink {owner.sink} belongs to {owner.told()}; {query.id} of {application_id} may not "
        "write it, too.",
        cause="the same statement runs under two application ids, or two statements name one "
        "KAFKA_TOPIC",
        action="give this statement another KAFKA_TOPIC, or delete the topic to begin anew; if "
        f"the owner is gone for good: holdfast sinks --release {owner.sink}",
    )
