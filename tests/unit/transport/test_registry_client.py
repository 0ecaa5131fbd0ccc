"""The registry's client before a server that answers as broken ones do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from holdfast.errors import RegistryUnavailable, SchemaMissing
from holdfast.local.probe import free_port
from holdfast.transport.registry import RegistryClient
from holdfast.types.schemas import READY_PAGE, Schema, SchemaKind
from tests.support.faulty_registry import Fault, FaultyRegistry
from tests.support.loopback_server import Handler, LoopbackServer

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


def _serving(answers: dict[str, list[tuple[int, object]]]) -> LoopbackServer:
    """A server that gives the answers of each path in turn, the last one again and again."""

    class InTurn(Handler):
        def respond(self, _: bytes) -> None:
            left = answers[self.path.partition("?")[0]]
            status, told = left.pop(0) if len(left) > 1 else left[0]
            self.answer(status, json.dumps(told).encode())

    return LoopbackServer(InTurn)


_UNKNOWN = (404, {"error_code": 40403, "message": "No schema with that id."})
_FOUND = (200, {"schema": _SCHEMA.text, "schemaType": "JSON"})


@pytest.mark.parametrize(
    ("ready", "then", "expected"),
    [
        ((503, {"status": "DOWN"}), _UNKNOWN, RegistryUnavailable),
        ((200, {"status": "UP"}), _UNKNOWN, SchemaMissing),
        (_UNKNOWN, _UNKNOWN, SchemaMissing),  # Confluent's, which has no such page
        ((200, {"status": "UP"}), _FOUND, None),  # read between two questions
    ],
)
def test_a_registry_that_still_reads_its_schemas_denies_none(
    ready: tuple[int, object],
    then: tuple[int, object],
    expected: type[Exception] | None,
) -> None:
    answers = {"/schemas/ids/7": [_UNKNOWN, then], READY_PAGE: [ready]}
    with _serving(answers) as server:
        client = RegistryClient({"url": server.url, "request.timeout.ms": "2000"})
        if expected is None:
            assert client.by_id(7) == _SCHEMA
        else:
            with pytest.raises(expected):
                client.by_id(7)
        client.close()


_NOTHING: dict[str, list[tuple[int, object]]] = {
    "/schemas/ids/7": [_UNKNOWN],
    "/subjects/s/versions/latest": [(404, {"error_code": 40401, "message": "No subject."})],
}


def test_one_server_that_still_reads_is_enough() -> None:
    answers = _NOTHING | {READY_PAGE: [(503, {})]}
    with _serving(_NOTHING | {READY_PAGE: [(200, {})]}) as one, _serving(answers) as other:
        client = RegistryClient({"url": f"{one.url}, {other.url}", "request.timeout.ms": "2000"})
        for ask in (lambda: client.by_id(7), lambda: client.latest("s")):
            with pytest.raises(RegistryUnavailable, match="has not read all its schemas yet"):
                ask()
        client.close()


def test_several_servers_deny_an_id_and_a_subject() -> None:
    answers = _NOTHING | {READY_PAGE: [_UNKNOWN]}
    with _serving(answers) as one, _serving(answers) as other:
        client = RegistryClient({"url": f"{one.url},{other.url}", "request.timeout.ms": "2000"})
        with pytest.raises(SchemaMissing):
            client.by_id(7)
        assert client.latest("s") is None
        client.close()
