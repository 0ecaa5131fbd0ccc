from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from holdfast.errors import (
    Fenced,
    HoldfastError,
    InvalidConfig,
    KafkaUnavailable,
    Refused,
    TopicMissing,
)
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.errors import SETTLING, kafka_error, known_offset, translate
from holdfast.transport.producer import Producer, TransactionalProducer

CLIENT = {"bootstrap.servers": "broker-7:9092"}
NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._FENCED, Fenced),
        (KafkaError._FATAL, Fenced),
        (KafkaError.INVALID_PRODUCER_EPOCH, Fenced),
        (KafkaError.PRODUCER_FENCED, Fenced),
        (KafkaError._ALL_BROKERS_DOWN, KafkaUnavailable),
        (KafkaError._TRANSPORT, KafkaUnavailable),
        (KafkaError._TIMED_OUT, KafkaUnavailable),
        (KafkaError._MSG_TIMED_OUT, KafkaUnavailable),
        (KafkaError.NOT_ENOUGH_REPLICAS, KafkaUnavailable),
        (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaUnavailable),
        (KafkaError.FENCED_LEADER_EPOCH, KafkaUnavailable),
        (KafkaError.OFFSET_NOT_AVAILABLE, KafkaUnavailable),
        (KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaUnavailable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissing),
        (KafkaError._UNKNOWN_PARTITION, TopicMissing),
        (KafkaError._INVALID_ARG, InvalidConfig),
        (KafkaError._AUTHENTICATION, Refused),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Refused),
        (KafkaError.MSG_SIZE_TOO_LARGE, Refused),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, Refused),
        (KafkaError.INVALID_REQUEST, Refused),
    ],
)
def test_codes_become_the_reaction_they_ask_for(code: int, kind: type[HoldfastError]) -> None:
    found = translate(KafkaError(code, "said the broker"), "doing it", CLIENT)
    assert type(found) is kind
    assert "broker-7:9092" in found.fact
    assert "doing it: said the broker" in found.fact
    assert found.action


def test_an_unknown_error_is_tried_again_only_when_the_client_says_so() -> None:
    code = KafkaError.UNKNOWN
    again = KafkaError(code, "?", retriable=True)
    abort = KafkaError(code, "?", txn_requires_abort=True)
    fatal = KafkaError(code, "?", fatal=True)
    assert type(translate(KafkaError(code, "?"), "x", CLIENT)) is Refused
    assert type(translate(again, "x", CLIENT)) is KafkaUnavailable
    assert type(translate(abort, "x", CLIENT)) is KafkaUnavailable
    assert type(translate(fatal, "x", CLIENT)) is Fenced


def test_what_a_fatal_error_refuses_is_not_called_fenced() -> None:
    fatal = KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT, "?", fatal=True)
    found = translate(KafkaException(fatal), "x", CLIENT)
    assert type(found) is Refused
    assert "transaction.max.timeout.ms" in found.action


def test_an_exception_without_a_code_still_has_one() -> None:
    assert kafka_error(RuntimeError("odd")).code() == KafkaError._FAIL


@pytest.mark.parametrize("kind", [TransactionalProducer, Producer])
def test_unknown_client_properties_are_named(
    kind: type[TransactionalProducer | Producer],
) -> None:
    client = {**CLIENT, "lingering.ms": "5"}
    with pytest.raises(InvalidConfig, match=r"lingering\.ms"):
        TransactionalProducer(client, "x") if kind is TransactionalProducer else Producer(client)


def test_nobody_listening_is_unavailable_within_the_timeout() -> None:
    producer = TransactionalProducer(NOBODY, "x", timeout_ms=1000)
    with pytest.raises(KafkaUnavailable, match=r"127\.0\.0\.1:1 gave no answer in 1 s"):
        producer.init()
    producer.close()
    with pytest.raises(KafkaUnavailable, match=r"127\.0\.0\.1:1"):
        Admin(NOBODY).wait_ready(0.5)
    with pytest.raises(KafkaUnavailable, match="describing topic x"):
        Admin(NOBODY, timeout_s=0.5).describe("x")


def test_columns_of_unequal_length_are_a_caller_s_mistake() -> None:
    with TransactionalProducer(NOBODY, "x") as producer:
        with pytest.raises(ValueError, match=r"\[2, 1\]"):
            producer.send("t", 0, [b"a", b"b"], [b"1"])
        with pytest.raises(ValueError, match=r"\[1, 1, 2\]"):
            producer.send("t", [0, 1], [b"a"], [b"1"])


def test_a_closed_producer_may_be_closed_again_but_not_used() -> None:
    producer = TransactionalProducer(NOBODY, "x")
    producer.close()
    producer.close()
    with pytest.raises(Fenced, match="as x is closed"):
        producer.begin()


@pytest.mark.parametrize("offset", [0, 7, -1])
def test_an_offset_that_was_told_is_one(offset: int) -> None:
    assert known_offset(offset) == offset


def test_an_offset_that_nobody_has_told_is_asked_for_again() -> None:
    with pytest.raises(KafkaException) as told:
        known_offset(OFFSET_INVALID)
    assert kafka_error(told.value).code() in SETTLING
