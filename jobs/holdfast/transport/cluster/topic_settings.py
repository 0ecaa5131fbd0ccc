"""Settings of topics and brokers: effective values, their sources, and changes of topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from holdfast.errors import KafkaUnavailable
from holdfast.transport.cluster.retrying_admin import PatientClient

__all__ = ["SettingValue", "TopicSettings"]

_TIMEOUT_S = 30.0
_SHOWN_POLL_S = 0.1
_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster",
    ConfigSource.STATIC_BROKER_CONFIG: "file",
    ConfigSource.DEFAULT_CONFIG: "default",
}


@dataclass(frozen=True)
class SettingValue:
    """An effective value and its source.

    Attributes:
        source: `topic`, `broker` (dynamic), `cluster` (dynamic default), `file` (of the broker),
            `default`, or `unknown`.
    """

    value: str
    source: str


class TopicSettings:
    """Reads settings, and changes those of topics.  Safe to share between threads."""

    def __init__(self, client: Mapping[str, str], timeout_s: float = _TIMEOUT_S) -> None:
        """Sends nothing before the first call; `timeout_s` bounds each call.

        Raises:
            InvalidConfig: the client refuses a property.
        """
        self._patient = PatientClient(client, timeout_s)

    def of(self, topics: Sequence[str]) -> dict[str, dict[str, SettingValue]]:
        """Every setting of each topic that has a value, defaults included; one request.

        Raises:
            TopicMissing: a topic is gone.
            Refused: the principal lacks DESCRIBE_CONFIGS on a topic.
            KafkaUnavailable: no broker answered in time.
        """
        if not topics:
            return {}
        named = f"topic {', '.join(topics)}"
        found = self._describe(ResourceType.TOPIC, topics, named)
        return {topic: found[topic] for topic in topics}

    def of_brokers(self) -> dict[int, dict[str, SettingValue]]:
        """Every setting of each broker that has a value and is no secret, by broker id.

        Raises:
            Refused: the principal lacks DESCRIBE_CONFIGS on the cluster.
            KafkaUnavailable: no broker answered in time.
        """
        cluster = self._patient.ask(
            lambda: self._patient.client.list_topics(timeout=self._patient.attempt_s),
            "listing brokers",
        )
        return {  # each broker only knows its own settings
            broker: self._describe(ResourceType.BROKER, [str(broker)], "the cluster")[str(broker)]
            for broker in sorted(cluster.brokers)
        }

    def alter(self, topic: str, settings: Mapping[str, str | None]) -> None:
        """Changes some of a topic's own settings and waits until the change is visible.

        Args:
            settings: values by name; None removes the topic's own, so that the broker's holds.

        Raises:
            TopicMissing: the topic is gone.
            Refused: the principal lacks ALTER_CONFIGS on it, or the broker refuses a value.
            KafkaUnavailable: no broker answered in time, or the change is not visible.
        """
        if not settings:
            return
        entries = [_entry(name, value) for name, value in settings.items()]

        def change() -> None:
            # A resource keeps the state of its request, so each attempt needs a new one.
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
            futures = self._patient.client.incremental_alter_configs(
                [resource], request_timeout=self._patient.attempt_s
            )
            futures[resource].result()

        acl = f"ALTER_CONFIGS on topic {topic}"
        self._patient.ask(change, f"changing {', '.join(settings)} of topic {topic}", acl=acl)
        self._await_shown(topic, settings)

    def _await_shown(self, topic: str, settings: Mapping[str, str | None]) -> None:
        deadline = time.monotonic() + self._patient.timeout_s
        while True:
            now = self.of([topic])[topic]
            missing = [name for name, value in settings.items() if not _shows(now, name, value)]
            if not missing:
                return
            if time.monotonic() >= deadline:
                raise KafkaUnavailable(
                    f"{self._patient.timeout_s:g} s after {', '.join(missing)} of topic {topic} "
                    "changed, no broker shows it.",
                    cause="the brokers lag behind their controller",
                    action="look at the brokers' log; it can be retried",
                )
            time.sleep(_SHOWN_POLL_S)

    def _describe(
        self, kind: ResourceType, names: Iterable[str], named: str
    ) -> dict[str, dict[str, SettingValue]]:
        resources = [ConfigResource(kind, name) for name in names]

        def ask() -> dict[str, dict[str, SettingValue]]:
            futures = self._patient.client.describe_configs(
                resources, request_timeout=self._patient.attempt_s
            )
            return {r.name: _values(future.result()) for r, future in futures.items()}

        acl = f"DESCRIBE_CONFIGS on {named}"
        return self._patient.ask(ask, f"reading the settings of {named}", acl=acl)


def _entry(name: str, value: str | None) -> ConfigEntry:
    how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=how)


def _shows(now: Mapping[str, SettingValue], name: str, value: str | None) -> bool:
    found = now.get(name)
    if value is None:
        return found is None or found.source != "topic"
    return found is not None and found.source == "topic" and found.value == value


def _values(entries: Mapping[str, ConfigEntry]) -> dict[str, SettingValue]:
    return {
        name: SettingValue(entry.value, _source(entry))
        for name, entry in entries.items()
        if entry.value is not None and not entry.is_sensitive
    }


def _source(entry: ConfigEntry) -> str:
    return _SOURCES.get(ConfigSource(entry.source), "unknown")
