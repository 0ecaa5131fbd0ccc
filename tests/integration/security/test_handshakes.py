"""Every way to authenticate, and the error if the other side does not accept it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, InvalidConfig, KafkaUnavailable, Refused
from holdfast.local.probe import HOST, free_port
from holdfast.transport import idempotent_producer as plain
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.log_dirs import log_sizes
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.transport.tokens import token_of
from holdfast.types.acls import Binding, Operation, Resource
from tests.support.servers.certificates import Authority
from tests.support.servers.secured_kafka import SecuredKafka, Way

_TOPIC, _ID = "ways", "ways-1"
_NEEDED = [
    *(Binding(Resource.TOPIC, _TOPIC, Operation[o]) for o in ("CREATE", "READ", "WRITE")),
    Binding(Resource.TRANSACTIONAL_ID, _ID, Operation.WRITE),
    Binding(Resource.CLUSTER, "kafka-cluster", Operation.DESCRIBE),
]


@pytest.mark.parametrize("way", list(Way))
def test_every_client_proves_who_it_is(secured: SecuredKafka, way: Way) -> None:
    secured.grant("tester", _NEEDED)
    client = secured.client("tester", way)
    Admin(client).ensure_topic(_TOPIC, 1)
    with TransactionalProducer(client, _ID, 10_000) as producer:
        producer.init()
        producer.begin()
        producer.send(_TOPIC, 0, [b"key"], [way.encode()])
        producer.commit()
    reader = PartitionReader(client, _TOPIC, 0)
    try:
        values = [v for chunk in reader.read(*reader.bounds()) for v in chunk.values]
    finally:
        reader.close()
    assert values[-1] == way.encode()
    (folder,) = log_sizes(client, [_TOPIC]).dirs
    assert folder.bytes[_TOPIC, 0] > 0
    secured.revoke_all("tester")
    assert way is not Way.TOKEN or "tester" in secured.tokens.asked


@pytest.fixture
def strangers(tmp_path: Path) -> Authority:
    """An authority that the brokers do not know."""
    return Authority("strangers", tmp_path)


def test_a_broker_whose_certificate_is_not_trusted_is_told_as_such(
    secured: SecuredKafka, strangers: Authority
) -> None:
    client = secured.client("tester") | {"ssl.ca.location": str(strangers.path)}
    _assert_untrusted(client, "certificate verify failed")
    with pytest.raises(Refused, match="certificate is not trusted"):
        PartitionReader(client, _TOPIC, 0, timeout_s=1.0).bounds()
    with pytest.raises(Refused, match="certificate is not trusted"):
        TransactionalProducer(client, _ID, 1_000).init()


def test_a_client_whose_certificate_is_not_trusted_is_told_as_such(
    secured: SecuredKafka, strangers: Authority
) -> None:
    certificate, key = strangers.issue("tester")
    mine = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
    _assert_untrusted(secured.client("tester", Way.CERTIFICATE) | mine, "alert")


def test_a_client_without_a_certificate_is_told_as_such(secured: SecuredKafka) -> None:
    client = secured.client("tester", Way.CERTIFICATE)
    del client["ssl.certificate.location"], client["ssl.key.location"]
    _assert_untrusted(client, "alert")


def test_a_broker_under_another_name_is_told_as_such(
    secured: SecuredKafka,
) -> None:
    """A name that leads to it, and is not in its certificate."""
    client = secured.client("tester", Way.CERTIFICATE)
    client["bootstrap.servers"] = f"127.1:{secured.tls_port}"
    _assert_untrusted(client, "certificate verify failed")


def test_nobody_there_is_not_taken_for_a_wrong_certificate(secured: SecuredKafka) -> None:
    client = secured.client("tester") | {"bootstrap.servers": f"{HOST}:{free_port()}"}
    told = _told(client)
    assert isinstance(told, KafkaUnavailable)
    assert "certificate" not in told.cause


def test_a_file_that_is_missing_is_named(secured: SecuredKafka) -> None:
    client = secured.client("tester") | {"ssl.ca.location": "/nowhere/ca.pem"}
    with pytest.raises(InvalidConfig, match=r"ssl\.ca\.location"):
        Admin(client)


def test_a_token_that_is_not_given_is_told_with_who_refused_it(secured: SecuredKafka) -> None:
    client = secured.client("tester", Way.TOKEN)
    with pytest.raises(Refused, match="status 401") as refused:
        token_of(client | {"sasl.oauthbearer.client.secret": "another"})
    assert "tester" in refused.value.cause
    nobody = f"http://{HOST}:{free_port()}/token"
    with pytest.raises(KafkaUnavailable, match="gives no token"):
        token_of(client | {"sasl.oauthbearer.token.endpoint.url": nobody})
    with pytest.raises(InvalidConfig, match="oidc"):
        token_of(client | {"sasl.oauthbearer.method": "default"})


def test_a_refusal_is_told_even_when_the_client_has_lost_it(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log line that is written in the same moment may hide why a producer came to its end."""
    secured.grant("clerk", [Binding(Resource.TOPIC, _TOPIC, Operation.READ)])
    monkeypatch.setattr(plain, "_uncovered", lambda _: None)
    Admin(secured.master).ensure_topic(_TOPIC, 1)
    producer = plain.Producer(secured.client("clerk"), 10_000)
    try:
        producer.send(_TOPIC, b"key", b"value")
        with pytest.raises(Refused, match=f"the ACL WRITE on topic {_TOPIC}"):
            producer.flush()
    finally:
        producer.close()
        secured.revoke_all("clerk")


def test_a_topic_that_the_client_knows_to_be_closed_is_told_with_its_acl(
    secured: SecuredKafka,
) -> None:
    """A record that is not even taken, because an earlier one was refused."""
    Admin(secured.master).ensure_topic(_TOPIC, 1)
    producer = plain.Producer(secured.client("clerk"), 10_000)
    try:
        with pytest.raises(Refused, match=f"the ACL WRITE on topic {_TOPIC}"):
            _until_refused(lambda: producer.send(_TOPIC, b"key", b"value"))
    finally:
        producer.close()


def test_a_refusal_is_told_to_who_asks_what_has_arrived(secured: SecuredKafka) -> None:
    Admin(secured.master).ensure_topic(_TOPIC, 1)
    producer = plain.Producer(secured.client("clerk"), 10_000)
    producer.send(_TOPIC, b"key", b"value")
    with pytest.raises(Refused, match=f"the ACL WRITE on topic {_TOPIC}"):
        _until_refused(producer.delivered)
    producer.close()


def _until_refused(call: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        call()
        time.sleep(0.02)


def _assert_untrusted(client: dict[str, str], why: str) -> None:
    told = _told(client)
    assert isinstance(told, Refused)
    assert "certificate is not trusted" in told.cause
    assert why in told.cause


def _told(client: dict[str, str]) -> HoldfastError:
    with pytest.raises(HoldfastError) as error:
        Admin(client).wait_ready(0.5)
    return error.value
