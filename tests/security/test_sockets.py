"""What a WebSocket may cost, and who may have one."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from holdfast.serve.http.request import Limits
from tests.security.server_process import ServerProcess, server_process
from tests.support.serve import plain_http as plain
from tests.support.serve.http_world import Served, served
from tests.support.serve.tokens import bearer, tokens_file

_MIB = 1 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """Its clients: `one` and `two`."""
    limits = Limits(sockets=2, request_bytes=1_000, request_s=60.0)
    tokens = tokens_file(tmp_path, one=["*"], two=["*"])
    with served(tmp_path, tokens=tokens, limits=limits) as found:
        yield found


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def _connect(server: Served, path: str = "/v1/ws", **headers: str) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{server.port}{path}", additional_headers=headers)


def _refused(server: Served, path: str = "/v1/ws", **headers: str) -> int:
    with pytest.raises(InvalidStatus) as refused:
        _connect(server, path, **headers)
    return refused.value.response.status_code


def test_nobody_is_accepted_without_a_token(server: Served) -> None:
    assert _refused(server) == 401
    assert _refused(server, **bearer("unknown")) == 401
    assert _refused(server, cookie="holdfast_token=unknown") == 401
    with _connect(server, cookie="holdfast_token=t-one") as accepted:
        accepted.send(json.dumps({"sql": "SELECT ONE"}))
        assert "columns" in json.loads(accepted.recv())


def test_a_token_in_a_message_is_nobodys(server: Served) -> None:
    with _connect(server, **bearer("t-one")) as accepted:
        accepted.send(json.dumps({"sql": "SELECT LIVE", "authorization": "Bearer t-two"}))
        query_id = json.loads(accepted.recv())["query_id"]
        asked = {"queryId": query_id}
        for token, status in (("t-two", 400), ("t-one", 200)):
            found = plain.post(f"{server.url}/close-query", json=asked, headers=bearer(token))
            assert found.status_code == status


@pytest.mark.parametrize("path", ["/", "/v1/query", "/internal/health", "/console/", "/v1/ws/x"])
def test_no_other_path_takes_a_socket(server: Served, path: str) -> None:
    assert _refused(server, path, **bearer("t-one")) == 404


def test_a_page_of_another_site_gets_no_socket(server: Served, tmp_path: Path) -> None:
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert _refused(server, **headers, **bearer("t-one")) == 403
    with served(tmp_path) as open_server:
        assert _refused(open_server, host="evil.example") == 403
        own = f"http://127.0.0.1:{open_server.port}"
        with _connect(open_server, origin=own) as accepted:
            accepted.send(json.dumps({"sql": "SELECT ONE"}))
            assert "columns" in json.loads(accepted.recv())


def test_each_client_has_so_many_sockets(server: Served) -> None:
    with contextlib.ExitStack() as stack:
        mine = [stack.enter_context(_connect(server, **bearer("t-one"))) for _ in range(2)]
        assert _refused(server, **bearer("t-one")) == 429
        stack.enter_context(_connect(server, **bearer("t-two")))
        mine[0].send(json.dumps({"sql": "SELECT LIVE"}))
        mine[0].recv()
        _until(lambda: server.told.open == 1)
        assert _refused(server, **bearer("t-one")) == 429
        mine[0].close()
        _until(lambda: _is_accepted(server))


def _is_accepted(server: Served) -> bool:
    try:
        with _connect(server, **bearer("t-one")):
            return True
    except InvalidStatus:
        return False


def test_those_without_a_token_have_so_many_together(tmp_path: Path) -> None:
    with served(tmp_path, limits=Limits(sockets=2)) as server, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(_connect(server))
        assert _refused(server) == 429


def test_a_message_that_is_too_large_is_refused(server: Served) -> None:
    with _connect(server, **bearer("t-one")) as accepted:
        accepted.send("x" * 1_001)
        assert json.loads(accepted.recv())["error"]["error_code"] == 41300


# -- unfinished messages -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("process")) as found:
        yield found


_HANDSHAKE = (
    b"GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer t-all\r\n"
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)


@contextlib.contextmanager
def _raw(process: ServerProcess) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", process.port), timeout=60) as raw:
        raw.sendall(_HANDSHAKE)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += raw.recv(4096)
        assert answer.startswith(b"HTTP/1.1 101"), answer
        yield raw


def _frame(opcode: int, size: int, *, last: bool, sent: int | None = None) -> bytes:
    """A frame of spaces that says it has `size` bytes, with its first `sent`."""
    head = bytes([opcode | (0x80 if last else 0), 0xFF]) + struct.pack(">Q", size) + bytes(4)
    return head + b" " * (size if sent is None else sent)


def _sent(raw: socket.socket, parts: Iterator[bytes]) -> None:
    """Sends what it can before the server closes the connection."""
    with contextlib.suppress(ConnectionError):
        for part in parts:
            raw.sendall(part)


def _fragments() -> Iterator[bytes]:
    """A message of 15 MiB that never ends."""
    yield _frame(1, 64 << 10, last=False)
    for _ in range(15 * 16 - 1):
        yield _frame(0, 64 << 10, last=False)


def _one_frame() -> Iterator[bytes]:
    """A frame of 15 MiB without its last byte."""
    yield _frame(1, 15 * _MIB, last=True, sent=0)
    for _ in range(15 * 16 - 1):
        yield b" " * (64 << 10)


def _many_messages() -> Iterator[bytes]:
    for _ in range(15 * 16):
        yield _frame(1, 64 << 10, last=True)


@pytest.mark.parametrize("parts", [_fragments, _one_frame, _many_messages])
@pytest.mark.parametrize("asked", [False, True], ids=["before it asks", "while it is answered"])
def test_a_socket_that_sends_too_much_is_cut(
    process: ServerProcess, parts: Callable[[], Iterator[bytes]], asked: bool
) -> None:
    with _raw(process) as raw:
        if asked:
            query = json.dumps({"sql": "SELECT * FROM PER_CITY EMIT CHANGES;"}).encode()
            raw.sendall(bytes([0x81, 0x80 | len(query)]) + bytes(4) + query)
            assert b"columns" in raw.recv(4096)
        _sent(raw, parts())
        with contextlib.suppress(ConnectionError):
            while raw.recv(1 << 16):
                pass  # until it is closed, which the client does not ask for


def test_many_unfinished_messages_take_little_memory(process: ServerProcess) -> None:
    before = process.memory_peak_bytes
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(_raw(process)) for _ in range(40)]
        with ThreadPoolExecutor(len(sockets)) as pool:
            list(pool.map(lambda raw: _sent(raw, _fragments()), sockets))
    # 40 sockets with 15 MiB each are 600 MiB, with what one may send 80 MiB.
    assert process.memory_peak_bytes - before < 300 * _MIB
    assert plain.get(f"{process.url}/healthcheck").status_code == 200


def test_a_socket_that_is_quiet_is_left_alone(process: ServerProcess) -> None:
    with connect(
        f"ws://127.0.0.1:{process.port}/v1/ws", additional_headers=bearer("t-all")
    ) as accepted:
        accepted.send(json.dumps({"sql": "SELECT * FROM PER_CITY EMIT CHANGES;"}))
        assert "columns" in json.loads(accepted.recv())
        for _ in range(200):
            assert accepted.ping().wait(60)
        with pytest.raises(TimeoutError):
            accepted.recv(timeout=0.2)
        with contextlib.suppress(ConnectionClosed):
            accepted.close()
