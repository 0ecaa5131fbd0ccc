"""Translates the Kafka client's errors to Holdfast's.

Every error is classified by its code, never by its text.  Other errors are `Retriable` if the
client says so, and `Refused` otherwise.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from holdfast.errors import (
    Fenced,
    HoldfastError,
    InvalidConfig,
    KafkaUnavailable,
    Refused,
    TopicMissing,
)
from holdfast.transport.handshakes import refused_handshake

__all__ = [
    "KAFKA_LOGGER",
    "MISSING",
    "SETTLING",
    "SOCKET_TIMEOUT_MS",
    "client_config",
    "kafka_error",
    "known_offset",
    "needs_new_client",
    "refused_properties",
    "silent",
    "translate",
]

# The client's own log lines, which would otherwise go straight to stderr.
KAFKA_LOGGER = logging.getLogger("holdfast.kafka")

SOCKET_TIMEOUT_MS = 10_000
# A replaced broker pod has a new address.  Connections and requests to the old address are neither
# refused nor answered: librdkafka's default timeouts are half a minute and a minute.
_CONNECTING: dict[str, Any] = {
    "socket.connection.setup.timeout.ms": 5_000,
    "reconnect.backoff.max.ms": 2_000,
    "socket.timeout.ms": SOCKET_TIMEOUT_MS,
}
# The metadata of a restarted broker may be behind that of its clients, or ahead.
_OTHER_METADATA = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.REPLICA_NOT_AVAILABLE,
    }
)
# On a new cluster or topic the election of leaders and coordinators takes a moment.
SETTLING = _OTHER_METADATA | frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._NOENT,  # no leaders found
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
# Errors that come from a client's cached metadata: a coordinator that is gone (librdkafka #5511), a
# topic that did not exist before, the leader epoch from before a broker's restart, which it sends
# for a quarter of an hour.  A retry fails again; a new client has no cache.
_REMEMBERED = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._NOENT,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_RENEW_EVERY = 10
_FENCED = frozenset(
    {
        KafkaError._FATAL,  # the answer of every call after a fatal error
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)
MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_UNPROVEN = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.SECURITY_DISABLED,
    }
)
_UNPROVEN_S = 60.0
# The time and reason of the last failed authentication, by bootstrap servers.
_unproven: dict[str, tuple[float, str]] = {}
_DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_UNREACHABLE = _OTHER_METADATA | frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._NOENT,  # the admin client's "no leaders found", after a broker's restart
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)
# Errors of a client that has reached no broker, or was rejected before its first request.
_NOBODY = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
    }
)
# Actions for refusals that have one known remedy.
_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of the topic, and message.max.bytes of "
    "the client where it is lower.",
    KafkaError.RECORD_LIST_TOO_LARGE: "raise max.message.bytes of the topic.",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "lower transaction.timeout.ms, or raise the broker's "
    "transaction.max.timeout.ms.",
    KafkaError.INVALID_REPLICATION_FACTOR: "ask for no more replicas than there are brokers.",
    KafkaError.INVALID_CONFIG: "correct the topic's settings.",
    KafkaError.POLICY_VIOLATION: "ask for what the cluster's topic policy allows.",
    KafkaError.TOPIC_EXCEPTION: "use letters, digits, dots, dashes and underscores, at most 249.",
    KafkaError.INVALID_TIMESTAMP: "check the event time column, or raise the topic's "
    "message.timestamp.after.max.ms.",
    KafkaError.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true on the brokers.",
    KafkaError.NON_EMPTY_GROUP: "stop the consumers of the group first.",
}


def client_config(
    client: Mapping[str, str], defaults: Mapping[str, Any], fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """Properties of a client: our defaults, overridden by the user's, then by required ones."""
    servers = client.get("bootstrap.servers", "")

    def told(error: KafkaError) -> None:
        KAFKA_LOGGER.error("%s: %s", error.name(), error.str())
        if error.code() in _UNPROVEN:
            _unproven[servers] = time.monotonic(), error.str()

    ours = {"logger": KAFKA_LOGGER, "error_cb": told}
    return {**_CONNECTING, **defaults, **client, **fixed, **ours}


def kafka_error(error: BaseException) -> KafkaError:
    """The `KafkaError` in an exception of the client; without one, a `_FAIL`."""
    inner = error.args[0] if error.args else None
    return inner if isinstance(inner, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def known_offset(offset: int) -> int:
    """Returns an offset if a broker has returned it.

    librdkafka 2.16 reports an offsets request that timed out as answered, with its own value for
    "no offset".

    Raises:
        KafkaException: `_TIMED_OUT`, because no broker has returned an offset.
    """
    if offset == OFFSET_INVALID:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no broker returned the offset"))
    return offset


def needs_new_client(code: int, failures: int) -> bool:
    """Whether a request that failed with that code should be retried with a new client.

    Args:
        failures: how often it has failed; every few failures a new client is tried anyway, in case
            of other stale metadata.
    """
    return code in _REMEMBERED or (code in SETTLING and failures % _RENEW_EVERY == 0)


def translate(
    error: KafkaError | KafkaException, doing: str, client: Mapping[str, str], acl: str = ""
) -> HoldfastError:
    """The Holdfast error for a Kafka client's error.

    Args:
        doing: what was attempted, as a phrase that ends a sentence: "creating topic x".
        client: the client's properties; names the bootstrap servers.
        acl: the required ACL ("DESCRIBE_CONFIGS on topic x"), named in a refusal.
    """
    if isinstance(error, KafkaException):
        error = kafka_error(error)
    code, servers = error.code(), client.get("bootstrap.servers", "(no bootstrap.servers)")
    fact = f"Kafka at {servers} failed {doing}: {error.str()} ({error.name()})."
    if code in _UNPROVEN or code in _DENIED:
        return _refused_access(code, fact, acl)
    if code in MISSING:
        return TopicMissing(
            fact,
            cause="the topic was deleted or never created, or has fewer partitions than expected.",
            action="create the topic, or correct its name.",
        )
    if code in _HINTS:
        return Refused(fact, action=_HINTS[code])
    if code in _FENCED or error.fatal():
        return _fenced(fact)
    return (_untrusted(fact, client) if code in _NOBODY else None) or _passing_or_not(
        error, fact, client
    )


def silent(doing: str, client: Mapping[str, str], seconds: float) -> HoldfastError:
    """The error for a request without an answer within `seconds`."""
    servers = client.get("bootstrap.servers", "(no bootstrap.servers)")
    fact = f"Kafka at {servers} gave no answer in {seconds:g} s {doing}."
    return (
        _untrusted(fact, client)
        or _not_let_in(fact, client)
        or KafkaUnavailable(
            fact,
            cause="no broker is running there, or none can be reached from here.",
            action="check bootstrap.servers and that the brokers are up; it will be retried.",
        )
    )


def _not_let_in(fact: str, client: Mapping[str, str]) -> KafkaUnavailable | None:
    """The error for a failed authentication, which looks like an unavailable broker.

    It is retriable, because a broker that has just started may not know all users yet.
    """
    since, why = _unproven.get(client.get("bootstrap.servers", ""), (0.0, ""))
    if not why or time.monotonic() - since > _UNPROVEN_S:
        return None
    return KafkaUnavailable(
        fact,
        cause=f"the broker is up but rejects this client: {why}.",
        action="correct the client's security properties (sasl.username, sasl.password, "
        "sasl.mechanism, ssl.*), or create the user on the brokers; it will be retried.",
    )


def refused_properties(error: KafkaException) -> InvalidConfig:
    """The error for a client that cannot be created because of its properties."""
    return InvalidConfig(
        f"The Kafka client refuses its properties: {kafka_error(error).str()}.",
        action="correct the kafka.* properties of the job.",
    )


def _refused_access(code: int, fact: str, acl: str) -> Refused:
    if code in _DENIED:
        return Refused(
            fact,
            cause=f"the principal lacks {f'the ACL {acl}' if acl else 'an ACL'}.",
            action=f"grant {acl or 'the missing ACL'}; `holdfast acls` lists the required ACLs.",
        )
    return Refused(
        fact,
        cause="security.protocol, sasl.* or ssl.* do not fit the listener.",
        action="correct the client's security properties.",
    )


def _untrusted(fact: str, client: Mapping[str, str]) -> Refused | None:
    """The error for a failed TLS handshake with a broker; None if there is no such failure."""
    refused = refused_handshake(client)
    if refused is None:
        return None
    return Refused(
        fact,
        cause="the broker's certificate is not trusted, or it does not trust this client's: "
        f"{refused.str()}.",
        action="check ssl.ca.location, ssl.certificate.location and the host names in "
        "bootstrap.servers.",
    )


def _fenced(fact: str) -> Fenced:
    return Fenced(
        fact,
        cause="a newer producer with the same transactional id took over, or the broker ended "
        "this one's transaction because it outlived transaction.timeout.ms.",
        action="close the producer, which committed nothing, and reopen the state partition.",
    )


def _passing_or_not(error: KafkaError, fact: str, client: Mapping[str, str]) -> HoldfastError:
    code = error.code()
    if code == KafkaError._INVALID_ARG:
        return InvalidConfig(fact, action="correct the kafka.* properties of the job.")
    if code in _UNREACHABLE or error.retriable():
        return _not_let_in(fact, client) or KafkaUnavailable(
            fact,
            cause="a broker is down, starting or overloaded, or the network is.",
            action="wait; it will be retried.",
        )
    if error.txn_requires_abort():
        return KafkaUnavailable(
            fact, cause="the transaction was aborted.", action="replay the batch."
        )
    return Refused(fact, action="read the brokers' log; Holdfast does not know this error.")
