from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.local.probe import HOST, answers, free_port, free_ports, serves_producers, taken


@contextmanager
def _server(response: bytes) -> Iterator[int]:
    """Answers one connection with these bytes and closes it."""
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(response)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5)


def _framed(body: bytes, correlation: int = 0x486F6C64) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation) + body


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (_framed(struct.pack(">hi", 0, 0)), True),
        (_framed(struct.pack(">hi", 35, 0)), False),
        (_framed(struct.pack(">hi", 0, 0), correlation=1), False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (_framed(struct.pack(">hi", 0, 0))[:9], False),
        (b"", False),
    ],
)
def test_only_kafka_answers_as_kafka(response: bytes, expected: bool) -> None:
    with _server(response) as port:
        assert answers(port) is expected


@pytest.mark.parametrize(("error", "expected"), [(0, True), (14, False)])
def test_a_loading_coordinator_does_not_serve_producers_yet(error: int, expected: bool) -> None:
    with _server(_framed(struct.pack(">ihqh", 0, error, 1, 0))) as port:
        assert serves_producers(port) is expected


def test_nobody_listening_is_no_answer() -> None:
    port = free_port()
    assert not taken(port)
    assert not answers(port)


def test_a_free_port_is_none_that_outgoing_connections_are_given() -> None:
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given.read_text().split()[0]) if given.exists() else 49_152
    if first < 32_000:
        pytest.skip(f"this machine gives outgoing connections ports from {first} on")
    assert free_port() < first
    assert len(set(free_ports(500))) == 500


def test_a_port_with_a_listener_is_taken() -> None:
    with socket.create_server((HOST, 0)) as listener:
        assert taken(listener.getsockname()[1])
