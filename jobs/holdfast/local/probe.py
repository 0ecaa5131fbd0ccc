"""Probes the network of this machine: is a port free, does Kafka answer on it?"""

from __future__ import annotations

import socket
import struct
from itertools import islice
from random import SystemRandom
from urllib.parse import urlsplit

__all__ = [
    "HOST",
    "answers",
    "free_port",
    "free_ports",
    "is_known",
    "serves_producers",
    "taken",
]

HOST = "127.0.0.1"
_API_VERSIONS = 18
_INIT_PRODUCER_ID = 22
_RESPONSE_MAX = 1 << 20
_CORRELATION = 0x486F6C64
_CLIENT = b"holdfast-probe"
# Below the kernel's range for outgoing connections, one of which could take a port between its
# probe and its use, or while a listening process restarts.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port that is free now and that no outgoing connection will get."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """This many free ports, all different."""
    shuffled = SystemRandom().sample(_PORTS, len(_PORTS))
    return list(islice((port for port in shuffled if not taken(port)), count))


def taken(port: int) -> bool:
    """True if a process holds the port."""
    with socket.socket() as sock:
        # As Kafka does: connections of a broker that just ended do not block the port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError:
            return True
    return False


def is_known(servers: str) -> bool:
    """True if this machine knows the address of a broker, whether it answers or not.

    Args:
        servers: as `bootstrap.servers` has them: host, port and protocol of each; host is enough.
    """
    return any(_has_address(each.strip().rpartition("://")[2]) for each in servers.split(","))


def _has_address(server: str) -> bool:
    try:
        host = urlsplit(f"//{server}").hostname
        return host is not None and bool(socket.getaddrinfo(host, None))
    except (OSError, ValueError):  # UnicodeError is a ValueError
        return False


def answers(port: int, timeout_s: float = 2.0) -> bool:
    """True if a Kafka broker answers on the port."""
    response = _ask(port, _API_VERSIONS, b"", timeout_s)
    return response is not None and struct.unpack_from(">h", response)[0] == 0


def serves_producers(port: int, timeout_s: float = 2.0) -> bool:
    """True if a broker hands out producer ids, the last thing it can do after a start."""
    body = struct.pack(">hi", -1, 60_000)  # no transactional id, timeout in ms
    response = _ask(port, _INIT_PRODUCER_ID, body, timeout_s)
    # The throttle time comes before the error code.
    return response is not None and struct.unpack_from(">ih", response)[1] == 0


def _ask(port: int, api: int, body: bytes, timeout_s: float) -> bytes | None:
    """Sends one request in version 0 of an API; the response after its header, None without one."""
    header = struct.pack(">hhih", api, 0, _CORRELATION, len(_CLIENT)) + _CLIENT
    request = header + body
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s) as sock:
            sock.sendall(struct.pack(">i", len(request)) + request)
            size, correlation = struct.unpack(">ii", _read(sock, 8))
            if correlation != _CORRELATION or not 10 <= size <= _RESPONSE_MAX:
                return None
            return _read(sock, size - 4)
    except OSError:
        return None


def _read(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            raise ConnectionError("closed before the whole response")
        found += part
    return found
