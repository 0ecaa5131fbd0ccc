"""The registry's client before a server that answers as broken ones do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from holdfast.errors import RegistryUnavailable, SchemaMissing, SchemaRefused
from holdfast.local.probe import free_port
from holdfast.transport.registry import RegistryClient
from holdfast.types.columns.schemas import ANSWER_BYTES_MAX, READY_PAGE, Schema, SchemaKind
from tests.support.servers.faulty_registry import Fault, FaultyRegistry
from tests.support.servers.loopback_server import Handler, LoopbackServer

_SCHEMA = Schema(SchemaKind.JSON, '{"type": "string"}')
_TOLD = {
    Fault.HTML: "answers with something that is not JSON",
    Fault.NOT_FOUND: "answers 404",
    Fault.ERROR: "answers 500: disk full",
    Fault.HALF: "answers with something that is not JSON",
    Fault.RESET: "does not answer",
    Fault.HANG: "does not answer",
    Fault.ENDLESS: "answers with more than 16 MiB",
    Fault.SLOW: "no end of the answer after 0.3 s",
    Fault.NESTED: "answers with JSON that is nested without an end",
    Fault.INFLATED: "answers with the content encoding gzip",
}
_TIMEOUT_MS = {Fault.ENDLESS: "20000"}  # what is told is the size, on a busy machine as well


@pytest.fixture
def registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry(f"http://127.0.0.1:{free_port()}") as made:
        yield made


@pytest.mark.parametrize("fault", Fault)
def test_a_registry_that_is_none_is_away_and_denies_nothing(
    registry: FaultyRegistry, fault: Fault
) -> None:
    registry.begin(fault)
    timeout = _TIMEOUT_MS.get(fault, "300")
    client = RegistryClient({"url": registry.url, "request.timeout.ms": timeout})
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
    assert registry.streamed < 2 * ANSWER_BYTES_MAX  # some of it is in buffers
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


class _EndlessReady(Handler):
    """Denies every id, and never ends the answer of whether it is ready."""

    def respond(self, body: bytes) -> None:
        if self.path == READY_PAGE:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                for _ in range(1_000):  # 63 MiB
                    self.wfile.write(bytes(65_536))
                self.server.whole = True  # type: ignore[attr-defined]
        else:
            status, told = _UNKNOWN
            self.answer(status, json.dumps(told).encode())


def test_an_endless_answer_about_readiness_is_not_read() -> None:
    with LoopbackServer(_EndlessReady) as server:
        client = RegistryClient({"url": server.url, "request.timeout.ms": "2000"})
        with pytest.raises(SchemaMissing):
            client.by_id(7)
        client.close()
        assert not hasattr(server, "whole")


@pytest.mark.parametrize(
    ("letters", "told"),
    [(3_000_000, "refers to more than"), (10, "references go more than 100 deep")],
)
def test_a_schema_with_endless_references_is_refused(letters: int, told: str) -> None:
    """Each answer is small enough, but not all of them together."""

    class Endless(Handler):
        asked = 0

        def respond(self, _: bytes) -> None:
            Endless.asked += 1
            other = {"name": f"n{self.asked}", "subject": f"s{self.asked}", "version": 1}
            found = {
                "schema": "x" * letters, "schemaType": "PROTOBUF", "references": [other],
                "subject": f"s{self.asked - 1}", "version": 1, "id": self.asked,
            }  # fmt: skip
            self.answer(200, json.dumps(found).encode())

    with LoopbackServer(Endless) as server:
        client = RegistryClient({"url": server.url, "request.timeout.ms": "5000"})
        with pytest.raises(RegistryUnavailable, match=told):
            client.by_id(7)
        client.close()
    assert Endless.asked < 110


_REFUSING = (200, {"is_compatible": False})
_FITTING = (200, {"is_compatible": True})


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ({"/config/s": (200, {"compatibilityLevel": "BACKWARD_TRANSITIVE"})}, "version 2"),
        ({"/config/s": (200, {"compatibilityLevel": "BACKWARD"})}, ""),
        ({"/config/s": (404, {"error_code": 40408}),
          "/config": (200, {"compatibilityLevel": "FULL_TRANSITIVE"})}, "version 2"),
        ({"/config/s": (403, {"error_code": 403})}, ""),  # it may register all the same
        ({"/config/s": (200, {"compatibilityLevel": "NEW"})}, ""),
    ],
)  # fmt: skip
def test_a_transitive_subject_is_asked_about_all_its_versions(
    config: dict[str, tuple[int, object]], refused: str
) -> None:
    """Versions 1 and 3 take the schema, and 2 would not: the newest one alone says nothing."""
    answers: dict[str, list[tuple[int, object]]] = {
        "/subjects/s": [(404, {"error_code": 40403})],
        "/subjects/s/versions": [(200, [1, 2, 3])],
        "/compatibility/subjects/s/versions/latest": [_FITTING],
        "/compatibility/subjects/s/versions/1": [_FITTING],
        "/compatibility/subjects/s/versions/2": [_REFUSING],
        "/compatibility/subjects/s/versions/3": [_FITTING],
        READY_PAGE: [(404, {})],
        **{path: [answer] for path, answer in config.items()},
    }
    with _serving(answers) as server:
        client = RegistryClient({"url": server.url, "request.timeout.ms": "5000"})
        if refused:
            with pytest.raises(SchemaRefused, match=f"for s: it does not fit {refused}"):
                client.registered("s", _SCHEMA)
        else:
            assert client.registered("s", _SCHEMA) is None
        client.close()
