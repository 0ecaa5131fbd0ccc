"""An admin client that goes on asking while brokers are still finding their roles."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from holdfast.transport.errors import (
    SETTLING,
    client_config,
    kafka_error,
    needs_new_client,
    refused_properties,
    translate,
)

__all__ = ["PatientClient"]

_T = TypeVar("_T")

_ATTEMPT_S = 10.0  # a question on a dead connection is asked again on another
_RETRY_S = 0.2


class PatientClient:
    """Owns one admin client, and replaces it when it hangs.  Safe to share between threads."""

    def __init__(self, properties: Mapping[str, str], timeout_s: float) -> None:
        """Nothing is sent before the first question; `timeout_s` bounds each one.

        Raises:
            InvalidConfig: the client refuses a property.
        """
        self.properties = dict(properties)
        self.timeout_s = timeout_s
        self.attempt_s = min(_ATTEMPT_S, timeout_s)
        self._lock = threading.Lock()
        self.client = self._connected()

    def ask(
        self, attempt: Callable[[], _T], doing: str, timeout_s: float | None = None, acl: str = ""
    ) -> _T:
        """What `attempt` returns, once brokers have found their roles.

        Args:
            attempt: asks `client` and raises what it raises; called again while that may help.
            doing: for messages: "reading offsets of topic x".
            timeout_s: another bound than that of all questions.
            acl: what a principal needs for it, named when it is refused.

        Raises:
            KafkaUnavailable, TopicMissing, Refused: the last answer.
        """
        deadline = time.monotonic() + (timeout_s or self.timeout_s)
        for failures in count(1):
            asked = self.client
            try:
                return attempt()
            except KafkaException as error:
                code = kafka_error(error).code()
                if needs_new_client(code, failures):
                    self._renew(asked)
                if code not in SETTLING or time.monotonic() >= deadline:
                    raise translate(error, doing, self.properties, acl) from error
                time.sleep(_RETRY_S)
        raise AssertionError("counting has no end")

    def _renew(self, old: AdminClient) -> None:
        """Replace a client; one that another thread has replaced meanwhile stays."""
        with self._lock:
            if self.client is old:
                self.client = self._connected()

    def _connected(self) -> AdminClient:
        try:
            return AdminClient(client_config(self.properties, {}, {}))
        except KafkaException as error:
            raise refused_properties(error) from error
