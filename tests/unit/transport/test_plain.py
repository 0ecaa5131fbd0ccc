"""A fatal error stays readable, however many callbacks the client ran on top of it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from holdfast.errors import Refused
from holdfast.transport.idempotent_producer import Producer


class _Fatal:
    """A client whose `flush` raises as librdkafka's binding does: each callback hides the last."""

    def __init__(self, hidden_by: int) -> None:
        self._hidden_by = hidden_by

    def flush(self, _timeout_s: float) -> int:
        denied = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no PID", fatal=True)
        error: Exception = KafkaException(denied)
        for _ in range(self._hidden_by):
            outer = SystemError("returned a result with an exception set")
            outer.__cause__ = error
            error = outer
        raise error


@pytest.mark.parametrize("hidden_by", [0, 1, 2])
def test_a_fatal_error_names_the_acl_under_every_callback(
    monkeypatch: pytest.MonkeyPatch, hidden_by: int
) -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(producer, "_topic", "orders")
    monkeypatch.setattr(producer, "_client", _Fatal(hidden_by))
    with pytest.raises(Refused) as refused:
        producer.flush()
    assert refused.value.cause == "the principal lacks the ACL WRITE on topic orders."
