"""Small questions to the network of this machine: is a port free, does Kafka answer on it?"""

from __future__ import annotations

import socket
import struct

__all__ = ["HOST", "answers", "free_port", "taken"]

HOST = "127.0.0.1"
_API_VERSIONS = 18
_CORRELATION = 0x486F6C64
_CLIENT = b"holdfast-probe"


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


def taken(port: int) -> bool:
    """True if somebody holds the port."""
    with socket.socket() as sock:
        # As Kafka does: connections of a broker that just ended do not hold the port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError:
            return True
    return False


def answers(port: int, timeout_s: float = 2.0) -> bool:
    """True if a Kafka broker answers an ApiVersions request; it does once it serves clients."""
    body = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION, len(_CLIENT)) + _CLIENT
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s) as sock:
            sock.sendall(struct.pack(">i", len(body)) + body)
            head = b""
            while len(head) < 10:
                part = sock.recv(10 - len(head))
                if not part:
                    return False
                head += part
    except OSError:
        return False
    _, correlation, error = struct.unpack(">iih", head)
    return bool(correlation == _CORRELATION and error == 0)
