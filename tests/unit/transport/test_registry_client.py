"""The registry's client before a server that answers as broken ones do."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from holdfast.errors import RegistryUnavailable
from holdfast.local.probe import free_port
from holdfast.transport.registry import RegistryClient
from holdfast.types.schemas import Schema, SchemaKind
from tests.support.faulty_registry import Fault, FaultyRegistry

_SCHEMA = Schema(SchemaKind.JSON, '{"type": "string"}')
_TOLD = {
    Fault.HTML: "answers with something that is not JSON",
    Fault.NOT_FOUND: "answers 404",
    Fault.ERROR: "answers 500: disk full",
    Fault.HALF: "answers with something that is not JSON",
    Fault.RESET: "does not answer",
    Fault.HANG: "does not answer",
}


@pytest.fixture
def registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry(f"http://127.0.0.1:{free_port()}") as made:
        yield made


@pytest.mark.parametrize("fault", Fault)
def test_a_registry_that_is_none_is_away_and_denies_nothing(
    registry: FaultyRegistry, fault: Fault
) -> None:
    registry.begin(fault)
    client = RegistryClient({"url": registry.url, "request.timeout.ms": "300"})
    began = time.monotonic()
    for ask in (
        lambda: client.by_id(1),
        lambda: client.latest("s"),
        lambda: client.register("s", _SCHEMA),
        lambda: client.registered("s", _SCHEMA),
    ):
        with pytest.raises(RegistryUnavailable, match=_TOLD[fault]):
            ask()
    assert registry.hits >= 4
    assert time.monotonic() - began < 20
    client.close()
