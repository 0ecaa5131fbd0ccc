"""Whether a real registry would take a schema, before it is asked to."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    SchemaRegistryClient,
    ServerConfig,
)

from holdfast.errors import SchemaRefused
from holdfast.local.registry import RegistryStatus
from holdfast.transport.registry import RegistryClient
from holdfast.types.columns.schemas import Schema, SchemaKind


def _schema(*fields: object) -> Schema:
    text = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, *fields]}
    return Schema(SchemaKind.AVRO, json.dumps(text))


_TEXT = _schema({"name": "b", "type": "string"})
_WITHOUT = _schema()
_NUMBER = _schema({"name": "b", "type": "int", "default": 0})  # fits the newest one only


@pytest.mark.parametrize("level", ["BACKWARD", "BACKWARD_TRANSITIVE"])
def test_it_says_what_the_registration_will_say(registry: RegistryStatus, level: str) -> None:
    subject, client = f"levels-{level}-value", RegistryClient({"url": registry.url})
    client.register(subject, _TEXT)
    with SchemaRegistryClient({"url": registry.url}) as settings:
        config = ServerConfig(compatibility=ConfigCompatibilityLevel[level])
        settings.set_config(subject, config)
    client.register(subject, _WITHOUT)
    if level == "BACKWARD":
        assert client.registered(subject, _NUMBER) is None
        found = client.register(subject, _NUMBER)
        assert client.registered(subject, _NUMBER) == found
    else:
        with pytest.raises(SchemaRefused, match="it does not fit version 1"):
            client.registered(subject, _NUMBER)
        with pytest.raises(SchemaRefused):
            client.register(subject, _NUMBER)
    client.close()
