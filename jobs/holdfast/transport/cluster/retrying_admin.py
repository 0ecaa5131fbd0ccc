"""An admin client that retries while leaders and coordinators are being elected."""

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

_ATTEMPT_S = 10.0  # a request on a dead connection is repeated on another
_RETRY_S = 0.2


class PatientClient:
    """Owns one admin client, and replaces it when it hangs.  Safe to share between threads."""

    def __init__(self, properties: Mapping[str, str], timeout_s: float) -> None:
        """Sends nothing before the first request; `timeout_s` bounds each one.

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
        """Calls `attempt` until it succeeds, fails for good, or times out; returns its result.

        Args:
            attempt: makes a request with `client` and lets its errors through; retried if useful.
            doing: for messages: "reading offsets of topic x".
            timeout_s: replaces the default bound.
            acl: the required ACL, named in a refusal.

        Raises:
            KafkaUnavailable, TopicMissing, Refused: the last error.
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
        """Replaces a client, unless another thread has replaced it already."""
        with self._lock:
            if self.client is old:
                self.client = self._connected()

    def _connected(self) -> AdminClient:
        try:
            return AdminClient(client_config(self.properties, {}, {}))
        except KafkaException as error:
            raise refused_properties(error) from error
