"""Membership of a consumer group that has one place: who takes it last has it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from holdfast.transport.cluster.retrying_admin import PatientClient
from holdfast.transport.errors import KAFKA_LOGGER, client_config, refused_properties

__all__ = ["LIVES_S", "Membership", "has_member"]

LIVES_S = 6.0
"""How long the brokers still count a member that is dead; the least that they take by default."""

_HEARTBEAT_MS = 1_000
_POLL_S = 0.2
_DAY_MS = 86_400_000
_INSTANCE = "driver"  # the one place of each group
_LOST = frozenset({KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID})


def has_member(client: Mapping[str, str], group: str, timeout_s: float) -> bool:
    """Whether a group has a member, alive or dead for less than `LIVES_S`.

    Raises:
        KafkaUnavailable, Refused: the brokers did not tell.
    """
    patient = PatientClient(client, timeout_s)

    def ask() -> bool:
        # What is to replace it: `describe_consumer_groups` aborts the process if the coordinator
        # goes away while it asks (see `group_offsets`), and `list_consumer_groups` says nothing of
        # a group that the principal may not see, or whose broker is away: no member, it would seem.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            found = patient.client.list_groups(group, timeout=patient.attempt_s)
        return any(described.members for described in found)

    return patient.ask(ask, f"looking for members of group {group}", acl=f"READ on group {group}")


class Membership:
    """Owns the place in a group until another process takes it; a thread keeps it.

    Each heartbeat tells within `_HEARTBEAT_MS` whether it still is ours.  A broker that does not
    answer takes nothing away.

    Args:
        topic: what the group subscribes to, because a member has to; it is not read.
        lost: called once, from the thread, when another process has taken the place.
    """

    def __init__(
        self, client: Mapping[str, str], group: str, topic: str, lost: Callable[[], None]
    ) -> None:
        """Takes the place, from whoever has it.

        Raises:
            InvalidConfig: the client refuses a property.
        """
        fixed = {
            "group.id": group,
            "group.instance.id": _INSTANCE,
            "session.timeout.ms": int(LIVES_S * 1000),
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "max.poll.interval.ms": _DAY_MS,
            "enable.auto.commit": False,
        }
        self._group, self._lost = group, lost
        self._closed = threading.Event()
        try:
            self._consumer = Consumer(client_config(client, {}, fixed))
        except KafkaException as error:
            raise refused_properties(error) from error
        self._consumer.subscribe([topic], on_assign=_read_nothing)
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops keeping the place; it is free after `LIVES_S`."""
        self._closed.set()
        self._thread.join()

    def _keep(self) -> None:
        told: set[int] = set()
        while not self._closed.is_set():
            error = _error_of(self._consumer.poll(_POLL_S))
            if error is None:
                continue
            if error.code() in _LOST or error.fatal():
                self._lost()
                break
            if error.code() not in told:  # the same one may come with every poll
                told.add(error.code())
                KAFKA_LOGGER.warning("Group %s: %s", self._group, error.str())
        self._consumer.close()


def _error_of(message: Any) -> KafkaError | None:
    return message.error() if message is not None else None


def _read_nothing(consumer: Consumer, _places: Sequence[TopicPartition]) -> None:
    consumer.assign([])
