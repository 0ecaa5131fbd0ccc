"""Committed offsets of consumer groups without members: read and set, for lag tools.

Not by the admin client: its requests to a group's coordinator end the whole process when the
coordinator moves, or falls silent and answers late (librdkafka #4605, #5397).  A consumer that
never subscribes is no member, and asks the coordinator in another way.  To a principal that may not
see the group it only says that time is over; why lies among its events.
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
    """A consumer, and what its coordinator has answered to a commit."""

    consumer: Consumer
    answers: list[_Answer] = field(default_factory=list)


class GroupOffsets:
    """Owns a consumer for each group that was asked for.

    Threads may share it, but only one at a time may commit offsets of the same group.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._clients: dict[str, _Client] = {}
        self._lock = threading.Lock()

    def committed(
        self, group: str, places: list[TopicPartition], timeout_s: float
    ) -> list[TopicPartition]:
        """The places with their committed offsets; negative where there is none.

        Raises:
            KafkaException: the coordinator did not say.
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
            KafkaException: they may not be set.
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
            # So long the client keeps a commit for a coordinator that is away.  It cannot be
            # closed before, and turns one core round meanwhile (librdkafka 2.16).
            "session.timeout.ms": _KEPT_MS,
            "on_commit": lambda error, places: answers.append((error, places)),
        }
        return _Client(Consumer(client_config(self._properties, {}, fixed)), answers)

    def _forget(self, group: str) -> None:
        """The next question has a new client: this one may remember a coordinator that is gone."""
        with self._lock:
            self._clients.pop(group, None)


def committed_offsets(
    consumer: Consumer, places: Sequence[TopicPartition], timeout_s: float
) -> list[TopicPartition]:
    """What the consumer's group has committed; a negative offset where it has nothing.

    Args:
        consumer: without subscription and assignment.

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
    """Why the coordinator of the group is not told, if it is a matter of rights.

    Answers to commits are called back meanwhile.
    """
    errors = (event.error() for event in consumer.consume(_EVENTS, _POLL_S))
    refused = KafkaError.GROUP_AUTHORIZATION_FAILED
    return next((e for e in errors if e is not None and e.code() == refused), None)


def _awaited(client: _Client, timeout_s: float) -> Sequence[TopicPartition]:
    """What the coordinator answers to the one commit that was sent."""
    deadline = time.monotonic() + timeout_s
    while not client.answers:
        refused = _refused(client.consumer)
        if refused is not None:
            raise KafkaException(refused)
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the coordinator is silent"))
    error, places = client.answers.pop()
    if error is not None:
        raise KafkaException(error)
    return places


def _without_errors(places: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The places of an answer; the first error among them is raised."""
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
    return list(places)
