"""The one broker of a benchmark, and the registry beside it: real ones, in a home of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from holdfast.local.broker import LocalKafka
from holdfast.local.registry import LocalRegistry
from holdfast.transport.cluster.admin import Admin
from tests.bench.workloads import PARTITIONS

__all__ = ["Cluster"]

_MARKERS = 2  # per topic partition
_NODE = "1"  # of the local broker
# Kafka's defaults.  A local broker's cleaner has room for 600,000 keys and begins every 5 s, which
# suits a demo: the changelog of a large table it reads twenty times over instead of three times,
# with a core of its own.
_CLEANER = {"log.cleaner.dedupe.buffer.size": "134217728", "log.cleaner.backoff.ms": "15000"}


class Cluster:
    """Owns the broker between `start` and `stop`, which deletes all it holds."""

    def __init__(self, home: Path, report: Callable[[str], None]) -> None:
        self._kafka = LocalKafka(home, report)
        self._registry = LocalRegistry(home, report)
        self.pid = 0
        self.client: dict[str, str] = {}

    def start(self) -> None:
        """Raises KafkaUnavailable or Refused as `LocalKafka.start`."""
        self._kafka.wipe()
        status = self._kafka.start(0)
        self.pid = status.pid
        self.client = {"bootstrap.servers": status.bootstrap_servers}
        self._admin = Admin(self.client)
        self._lists = AdminClient(dict(self.client))
        self._clean_as_on_a_server()

    def _clean_as_on_a_server(self) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in _CLEANER.items()
        ]
        broker = ConfigResource(ResourceType.BROKER, _NODE, incremental_configs=entries)
        for changed in self._lists.incremental_alter_configs([broker]).values():
            changed.result(30)

    def stop(self) -> None:
        # First, or they complain that the broker is gone.
        self.__dict__.pop("_admin", None)
        self.__dict__.pop("_lists", None)
        self._registry.wipe()
        self._kafka.wipe()

    def registry(self) -> str:
        """The URL of the schema registry, which is started the first time."""
        running = self._registry.status() or self._registry.start(port=0)
        return running.url

    @property
    def bootstrap(self) -> str:
        return self.client["bootstrap.servers"]

    def create(self, topic: str) -> None:
        """A topic of four partitions with the broker's defaults."""
        self._admin.ensure_topic(topic, PARTITIONS)

    def size(self, topic: str) -> int:
        """Records of a topic that nothing was deleted from and no transaction wrote to."""
        return sum(end - start for start, end in self._admin.bounds(topic).values())

    def committed(self, group: str, topic: str) -> int:
        """How many records of a topic a group has committed."""
        return sum(self._admin.committed(group, topic).values())

    def progress(self, group: str, topic: str, application: str) -> int:
        """How many records of a topic have been worked into a group's results.

        A record that was only written into a repartition topic has not: the input's share counts
        that the group has committed of that topic.
        """
        done = self.committed(group, topic)
        found = self._topics(application, "repartition")
        for between in [topic for topic in found if "changelog" not in topic]:
            ends = self._admin.end_offsets(between)
            behind = self._admin.committed(group, between)
            # The markers of the last transactions are no records.
            left = sum(max(0, end - behind.get(p, 0) - _MARKERS) for p, end in ends.items())
            done = done * (sum(ends.values()) - left) // max(1, sum(ends.values()))
        return done

    def _topics(self, *parts: str) -> list[str]:
        topics = self._lists.list_topics(timeout=30).topics
        return [topic for topic in topics if all(part in topic for part in parts)]

    def forget(self, application: str) -> None:
        """Deletes every topic whose name holds the application id: sink, changelogs, the rest."""
        for topic in self._topics(application):
            self._admin.delete_topic(topic)
