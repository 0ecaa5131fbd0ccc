"""Detects failed TLS handshakes, in which one side refuses the other's certificate.

librdkafka only reports them as an event; the request itself times out as if no broker was there.
So after a timeout a separate client connects again and listens for that event.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Producer

__all__ = ["refused_handshake"]

_QUIET = logging.getLogger("holdfast.kafka.handshake")
_QUIET.disabled = True  # the first client has logged the same

# A broker's alert about our certificate has the code of a lost connection: here only this text,
# which OpenSSL writes, shows that the handshake failed.
_OPENSSL = "SSL routines"
_LISTEN_S = 2.0
_POLL_S = 0.05


def refused_handshake(client: Mapping[str, str]) -> KafkaError | None:
    """The error of the TLS handshake with the brokers; None if it works, or without TLS.

    Takes two seconds at most, and far less if a connection is refused.
    """
    if not client.get("security.protocol", "").upper().endswith("SSL"):
        return None
    heard: list[KafkaError] = []
    try:
        asker = Producer({**client, "error_cb": heard.append, "logger": _QUIET})
    except KafkaException:
        return None
    deadline = time.monotonic() + _LISTEN_S
    while time.monotonic() < deadline and not heard:
        asker.poll(_POLL_S)
    return next((error for error in heard if _refusal(error)), None)


def _refusal(error: KafkaError) -> bool:
    return error.code() == KafkaError._SSL or _OPENSSL in error.str()
