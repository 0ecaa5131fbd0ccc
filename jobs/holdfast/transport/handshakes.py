"""Why nobody answers a client that has TLS: one side may refuse the other's certificate.

librdkafka tells that aside, as an event; what it was asked only runs out of time, as if no broker
was there.  So a client of its own connects once more when that has happened, and listens.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Producer

__all__ = ["refused_handshake"]

_QUIET = logging.getLogger("holdfast.kafka.handshake")
_QUIET.disabled = True  # what it says was said before, by the client that was asked

# An alert of the broker's about our certificate has the code of a lost connection: here the text
# alone tells that OpenSSL was asked and said no, which it says in these words.
_OPENSSL = "SSL routines"
_LISTEN_S = 2.0
_POLL_S = 0.05


def refused_handshake(client: Mapping[str, str]) -> KafkaError | None:
    """How the TLS handshake with the brokers fails; None where it does not, or there is no TLS.

    Takes two seconds at most, and far less where a connection is refused.
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
