"""The sizes of topic partitions' logs on the disks of their brokers.

confluent-kafka does not support DescribeLogDirs.  kafka-python does, and is used for this request
only, with the client properties translated.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError as ClientError
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from holdfast.errors import HoldfastError, InvalidConfig, KafkaUnavailable, Refused
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.errors import silent, translate
from holdfast.transport.tokens import TOKEN_PROPERTIES, Token, extensions_of, token_of

__all__ = ["LogDir", "LogSizes", "log_sizes"]

_TIMEOUT_S = 30.0
_ATTEMPT_S = 10.0
_RETRY_S = 0.5
_ACL = "DESCRIBE on the cluster"
_UNTOLD = -1  # brokers before Kafka 3.3 do not return it
# kafka-python's log lines would only confuse readers; failures are raised.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class LogDir:
    """One log folder of one broker.

    Attributes:
        path: the folder's path on the broker.
        total_bytes, free_bytes: of the folder's volume; -1 if the broker does not return them.
        bytes: the size of each requested topic partition's log, all segments.
    """

    broker: int
    path: str
    total_bytes: int
    free_bytes: int
    bytes: Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class LogSizes:
    """Every log folder of every broker that answered."""

    dirs: tuple[LogDir, ...]

    def bytes_of(self, topic: str, partition: int, broker: int) -> int | None:
        """Bytes of the replica on `broker`; None if it has none."""
        found = self.dir_of(topic, partition, broker)
        return None if found is None else found.bytes[topic, partition]

    def dir_of(self, topic: str, partition: int, broker: int) -> LogDir | None:
        """The folder that holds the replica on `broker`."""
        place = (topic, partition)
        return next((d for d in self.dirs if d.broker == broker and place in d.bytes), None)

    def free_bytes(self, broker: int) -> int:
        """Free bytes on the fullest volume of `broker`; -1 if unknown."""
        return min((d.free_bytes for d in self.dirs if d.broker == broker), default=_UNTOLD)


def log_sizes(
    client: Mapping[str, str], topics: Sequence[str], timeout_s: float = _TIMEOUT_S
) -> LogSizes:
    """The size of every replica of `topics`, from every broker.

    Args:
        client: librdkafka properties.
        topics: names of topics; missing topics are omitted.

    Raises:
        InvalidConfig: kafka-python has no counterpart of a security property.
        Refused: the principal lacks DESCRIBE on the cluster, or is unknown.
        KafkaUnavailable: a broker did not answer in time.
    """
    if not topics:
        return LogSizes(())
    deadline = time.monotonic() + timeout_s
    # kafka-python leaks sockets that could not connect, so this first checks that they can.
    Admin(client, timeout_s).wait_ready(timeout_s)
    told = _translated(client) | {
        "request_timeout_ms": int(min(_ATTEMPT_S, timeout_s) * 1000),
        "bootstrap_timeout_ms": int(timeout_s * 1000),
    }

    def ask() -> list[dict[str, Any]]:
        with _connected(told) as admin:
            found: list[dict[str, Any]] = admin.describe_log_dirs(sorted(topics))
        return found

    answers = _patiently(ask, client, deadline, timeout_s)
    return LogSizes(tuple(_log_dir(a["broker"], d) for a in answers for d in _dirs(a)))


@contextmanager
def _connected(told: Mapping[str, Any]) -> Iterator[KafkaAdminClient]:
    """A client that is closed completely, even if it could not connect."""
    made: list[KafkaNetClient] = []

    def make(**config: Any) -> KafkaNetClient:
        made.append(KafkaNetClient(**config))
        return made[-1]

    try:
        yield KafkaAdminClient(kafka_client=make, **told)
    finally:
        for network in made:
            network.close()


def _patiently(
    ask: Callable[[], list[dict[str, Any]]],
    client: Mapping[str, str],
    deadline: float,
    timeout_s: float,
) -> list[dict[str, Any]]:
    while True:
        try:
            return ask()
        except KafkaError as error:
            found = _found(error, "asking for the sizes of logs", client, timeout_s)
            if not isinstance(found, KafkaUnavailable) or time.monotonic() >= deadline:
                raise found from error
            time.sleep(_RETRY_S)


def _found(
    error: KafkaError, doing: str, client: Mapping[str, str], timeout_s: float
) -> HoldfastError:
    """The Holdfast error; both clients use the brokers' error numbers."""
    code = getattr(error, "errno", None)
    if isinstance(code, int) and code > 0:
        return translate(ClientError(code), doing, client, _ACL)
    if error.retriable or type(error).__name__.endswith(("TimeoutError", "Cancelled")):
        return silent(doing, client, timeout_s)
    return Refused(
        f"Kafka failed {doing}: {error}.",
        cause="security.protocol, sasl.* or ssl.* do not fit the listener.",
        action="correct the client's security properties.",
    )


def _dirs(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A broker's folders; none means that it refuses, because a broker has at least one."""
    dirs: list[dict[str, Any]] = [d for d in answer["log_dirs"] if not d["error_code"]]
    if not answer["log_dirs"]:
        raise Refused(
            f"Broker {answer['broker']} does not return the sizes of its logs.",
            cause=f"the principal lacks the ACL {_ACL}.",
            action=f"grant it {_ACL}.",
        )
    return dirs


def _log_dir(broker: int, told: Mapping[str, Any]) -> LogDir:
    sizes = {
        (topic["name"], partition["partition_index"]): partition["partition_size"]
        for topic in told["topics"]
        for partition in topic["partitions"]
        if not partition["is_future_key"]  # a copy that is being moved to another folder
    }
    return LogDir(
        broker,
        told["log_dir"],
        told.get("total_bytes", _UNTOLD),
        told.get("usable_bytes", _UNTOLD),
        sizes,
    )


# librdkafka's properties with a counterpart; other sasl.* and ssl.* properties are refused.
_SAME = {
    "bootstrap.servers": "bootstrap_servers",
    "metadata.broker.list": "bootstrap_servers",
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
_SASL = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"})
_TLS = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
_FALSE = frozenset({"false", "0", "f"})


def _translated(client: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's arguments for librdkafka's properties, without tuning properties.

    Raises:
        InvalidConfig: names the properties without a counterpart.
        Refused, KafkaUnavailable: there is no token for the client.
    """
    known = _SAME.keys() | _TLS | TOKEN_PROPERTIES
    strange = [
        name
        for name in client
        if name.startswith(("sasl.", "ssl.", "enable.sasl.")) and name not in known
    ]
    told: dict[str, Any] = {ours: client[name] for name, ours in _SAME.items() if name in client}
    mechanism = told.get("sasl_mechanism", "").upper()
    if mechanism and mechanism not in _SASL:
        strange.append(f"sasl.mechanism={mechanism}")
    if strange:
        raise InvalidConfig(
            f"The sizes of logs cannot be requested with {', '.join(sorted(strange))}.",
            cause="they are requested with another client, which does not support it.",
            action="use a listener with PLAINTEXT, TLS from PEM files, or SASL PLAIN, SCRAM or "
            "OAUTHBEARER (method oidc, client credentials).",
        )
    protocol = told.get("security_protocol", "PLAINTEXT").upper()
    told["security_protocol"] = protocol
    told["bootstrap_servers"] = told.get("bootstrap_servers", "").split(",")
    if mechanism == "OAUTHBEARER":
        told["sasl_oauth_token_provider"] = Token(token_of(client), extensions_of(client))
    return told | ({"ssl_context": _tls(client)} if protocol.endswith("SSL") else {})


def _tls(client: Mapping[str, str]) -> ssl.SSLContext:
    location = client.get("ssl.ca.location", "")
    folder = bool(location) and Path(location).is_dir()
    own = location not in ("", "probe")
    try:
        context = ssl.create_default_context(
            cafile=location if own and not folder else None,
            capath=location if own and folder else None,
            cadata=client.get("ssl.ca.pem"),
        )
        if "ssl.certificate.location" in client:
            context.load_cert_chain(
                client["ssl.certificate.location"],
                client.get("ssl.key.location"),
                client.get("ssl.key.password"),
            )
        if "ssl.crl.location" in client:
            context.load_verify_locations(client["ssl.crl.location"])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except OSError as error:  # includes ssl.SSLError
        raise InvalidConfig(
            f"The files of the ssl.* properties cannot be used: {error}.",
            action="give PEM files that exist and fit together.",
        ) from error
    if client.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if client.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
