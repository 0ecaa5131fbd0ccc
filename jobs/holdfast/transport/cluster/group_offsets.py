"""Committed offsets of consumer groups without members: read and set, for lag tools.

The admin client cannot be used: its requests to a group's coordinator crash the process if the
coordinator moves, or answers late (librdkafka #4605, #5397).  A consumer that never subscribes is
no member, and uses other requests.  If the principal may not see the group, the call only times
out; the reason is among the consumer's events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from holdfast.transport.errors import client_config, kafka_error

__all__ = ["GroupOffsets", "committed_offsets"]

_POLL_S = 0.02
_SLICE_S = 1.0
_EVENTS = 10
_KEPT_MS = 4_000

_Answer = tuple[KafkaError | None, Sequence[TopicPartition]]


@dataclass
class _Client:
    """A consumer, and its coordinator's answers to commits."""

    consumer: Consumer
    answers: list[_Answer] = field(default_factory=list)


class GroupOffsets:
    """Owns a consumer for each group requested.

    Threads may share it, but only one at a time may commit offsets of the same group.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._clients: dict[str, _Client] = {}
        self._lock = threading.Lock()

    def committed(
        self, group: str, places: list[TopicPartition], timeout_s: float
    ) -> list[TopicPartition]:
        """The places with their committed offsets; negative if there is none.

        Raises:
            KafkaException: the coordinator did not answer.
        """
        try:
            return _without_errors(
                committed_offsets(self._client(group).consumer, places, timeout_s)
            )
        except KafkaException:
            self._forget(group)
            raise

    def commit(self, group: str, places: list[TopicPartition], timeout_s: float) -> None:
        """Sets committed offsets.

        Raises:
            KafkaException: the offsets were not committed.
        """
        client = self._client(group)
        try:
            client.consumer.commit(offsets=places, asynchronous=True)
            _without_errors(_awaited(client, timeout_s))
        except KafkaException:
            self._forget(group)
            raise

    def _client(self, group: str) -> _Client:
        with self._lock:
            if group not in self._clients:
                self._clients[group] = self._connected(group)
            return self._clients[group]

    def _connected(self, group: str) -> _Client:
        answers: list[_Answer] = []
        fixed = {
            "group.id": group,
            "enable.auto.commit": False,
            # The client keeps a commit for this long if the coordinator is unavailable.  It cannot
            # be closed before, and keeps a CPU core busy meanwhile (librdkafka 2.16).
            "session.timeout.ms": _KEPT_MS,
            "on_commit": lambda error, places: answers.append((error, places)),
        }
        return _Client(Consumer(client_config(self._properties, {}, fixed)), answers)

    def _forget(self, group: str) -> None:
        """Drops the client, because it may cache a coordinator that is gone."""
        with self._lock:
            self._clients.pop(group, None)


def committed_offsets(
    consumer: Consumer, places: Sequence[TopicPartition], timeout_s: float
) -> list[TopicPartition]:
    """The committed offsets of the consumer's group; negative if there is none.

    Args:
        consumer: a consumer without subscription and assignment.

    Raises:
        KafkaException: no answer in time, or the principal may not see the group.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        left_s = max(deadline - time.monotonic(), 0.0)
        try:
            return consumer.committed(list(places), timeout=min(_SLICE_S, left_s))
        except KafkaException as error:
            refused = _refused(consumer)
            if refused is not None:
                raise KafkaException(refused) from error
            if kafka_error(error).code() != KafkaError._TIMED_OUT or left_s <= _SLICE_S:
                raise


def _refused(consumer: Consumer) -> KafkaError | None:
    """The authorization error for which the group's coordinator is unknown, if there is one.

    Polling also runs the callbacks of commits.
    """
    errors = (event.error() for event in consumer.consume(_EVENTS, _POLL_S))
    refused = KafkaError.GROUP_AUTHORIZATION_FAILED
    return next((e for e in errors if e is not None and e.code() == refused), None)


def _awaited(client: _Client, timeout_s: float) -> Sequence[TopicPartition]:
    """Waits for the coordinator's answer to the single commit that was sent."""
    deadline = time.monotonic() + timeout_s
    while not client.answers:
        refused = _refused(client.consumer)
        if refused is not None:
            raise KafkaException(refused)
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer of the coordinator"))
    error, places = client.answers.pop()
    if error is not None:
        raise KafkaException(error)
    return places


def _without_errors(places: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The places of an answer; raises the first error among them."""
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
    return list(places)
