"""What must be put back: written to Kafka before a temporary setting, taken back after it.

One compacted topic per job (`types.ids.compaction_topic`), one record per changelog:

    key = changelog topic    value = what is in force for a while, and what has to come back
                             no value = nothing is open

An apply that is killed at any moment leaves either no change, or an entry that tells how to undo
it.  Whoever finds the entry may do that, and as often as they like.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from holdfast.errors import Refused
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.view import ClusterView
from holdfast.transport.idempotent_producer import Producer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import compaction_topic

__all__ = ["Entry", "Ledger", "ledgers"]

_CONFIG = {"cleanup.policy": "compact"}
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Entry:
    """Temporary settings of one changelog.

    Attributes:
        topic_id: of the changelog; a topic of that name that was remade is another one.
        temporary: what is in force until the cleaner has been over it; None: none of its own.
        put_back: what comes back, by the same names.
        owner: the resource that keeps its settings, or empty.
        written_ms: wall time.
        token: of the apply that wrote it, to tell its own entry from a later one's.
    """

    topic: str
    topic_id: str
    temporary: dict[str, str | None]
    put_back: dict[str, str | None]
    plan_hash: str
    owner: str = ""
    written_ms: int = 0
    token: str = field(default_factory=lambda: uuid.uuid4().hex)


_ADAPTER = TypeAdapter(Entry)


def ledgers(client: Mapping[str, str]) -> list[str]:
    """Application ids of all jobs of the cluster that may have open entries, sorted.

    Raises:
        KafkaUnavailable: no broker answered.
    """
    _, topics = ClusterView(client).cluster()
    suffix = compaction_topic("")
    return sorted(name.removesuffix(suffix) for name in topics if name.endswith(suffix))


class Ledger:
    """Owns the entries of one job.  Not thread-safe."""

    def __init__(
        self, client: Mapping[str, str], application_id: str, timeout_s: float = _TIMEOUT_S
    ) -> None:
        """Nothing is sent before the first call, and no topic made before the first entry."""
        self.topic = compaction_topic(application_id)
        self._client = dict(client)
        self._timeout_s = timeout_s
        self._admin = Admin(client, timeout_s)

    def open_entries(self) -> list[Entry]:
        """Every entry that was not taken back, by changelog.

        Raises:
            Refused: the topic holds what is no entry.
            KafkaUnavailable: no broker answered.
        """
        if self._admin.describe(self.topic) is None:
            return []
        found: dict[bytes, bytes | None] = {}
        reader = PartitionReader(self._client, self.topic, 0, timeout_s=self._timeout_s)
        try:
            start, end = reader.bounds()
            for chunk in reader.read(start, end):
                found.update(
                    (key or b"", v) for key, v in zip(chunk.keys, chunk.values, strict=True)
                )
        finally:
            reader.close()
        return [
            self._entry(key, value) for key, value in sorted(found.items()) if value is not None
        ]

    def find(self, topic: str) -> Entry | None:
        """The open entry of a changelog, None without one.

        Raises:
            Refused, KafkaUnavailable: as `open_entries`.
        """
        return next((e for e in self.open_entries() if e.topic == topic), None)

    def write(self, entry: Entry) -> None:
        """Writes the entry; when this returns, every in-sync replica has it.

        Raises:
            KafkaUnavailable, Refused: it may be there or not.
        """
        self._admin.ensure_topic(self.topic, 1, -1, _CONFIG)
        self._send(entry.topic, _ADAPTER.dump_json(entry))

    def close(self, topic: str) -> None:
        """Takes the entry of a changelog back.

        Raises:
            KafkaUnavailable, Refused: it may be open still.
        """
        self._send(topic, None)

    def _send(self, topic: str, value: bytes | None) -> None:
        # The last record of a topic is its entry, however often it comes.
        producer = Producer(self._client, int(self._timeout_s * 1000), idempotent=False)
        try:
            producer.send(self.topic, topic.encode(), value, partition=0)
            producer.flush()
        finally:
            producer.close()

    def _entry(self, key: bytes, value: bytes) -> Entry:
        try:
            return _ADAPTER.validate_json(value)
        except ValidationError as error:
            raise Refused(
                f"Topic {self.topic} holds a record under {key!r} that is no entry: "
                f"{error.error_count()} fields are wrong.",
                cause="another program, or another version of Holdfast, writes to it",
                action="read the record, put the settings it names back by hand, and delete it "
                "with a record of the same key without a value",
            ) from error
