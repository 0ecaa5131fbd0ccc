"""A broker with a listener that asks for a password (SASL PLAIN)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.local import broker as broker_module
from holdfast.local.broker import LocalKafka
from holdfast.local.broker_files import server_properties
from holdfast.local.probe import HOST, free_port

__all__ = ["USER", "guarded_kafka"]

USER = "clerk"


@contextmanager
def guarded_kafka(home: Path, password: str) -> Iterator[str]:
    """The address at which USER must show the password."""
    guarded = free_port()

    def properties(data: Path, port: int, controller_port: int) -> str:
        listeners = f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{guarded}"
        more = {
            "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common."
            f'security.plain.PlainLoginModule required user_{USER}="{password}";',
        }
        own = server_properties(data, port, controller_port)
        return own + "".join(f"{key}={value}\n" for key, value in more.items())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_module, "server_properties", properties)
        kafka = LocalKafka(home)
        try:
            kafka.start(port=0)
            yield f"{HOST}:{guarded}"
        finally:
            kafka.wipe()
