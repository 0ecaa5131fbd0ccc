"""Makes TCP ports unreachable from the network namespace it runs in, until told to end.

    python unreachable.py SECONDS PORT...

A rule sends packets to these ports, whatever their address, by a route to the loopback device, and
there they are dropped: new connections hang, and those that are there hear nothing any more.
Needs CAP_NET_ADMIN.  Takes everything back at SIGTERM, at SIGINT, and when the time is over.

Its text is run in containers whose image may have another version of this package: it needs nothing
but Python.  The numbers are those of linux/rtnetlink.h and linux/fib_rules.h.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

__all__ = ["main"]

_NEW_ROUTE, _DELETE_ROUTE, _NEW_RULE, _DELETE_RULE = 24, 25, 32, 33
_REQUEST, _CREATE = 0x1 | 0x4, 0x200 | 0x400  # asks for an answer; makes a new one
_ERROR = 2
_RULE_PRIORITY, _RULE_PROTOCOL, _RULE_PORTS, _RULE_TO_TABLE = 6, 22, 24, 1
_ROUTE_DEVICE, _TABLE_ATTRIBUTE = 4, 15
_STATIC, _LINK, _UNICAST = 4, 253, 1
# A table of our own; the rule comes behind the one of local addresses, before all others.
_TABLE = _PRIORITY = 7205
_HEADER = struct.Struct("=IHHII")
_BODY = struct.Struct("=8BI")


def main(seconds: float, ports: list[int]) -> None:
    """Does it, says so in a line, and returns when it is taken back.

    Raises:
        OSError: the kernel refused, or this process may not do it.
    """
    ends = {signal.SIGTERM, signal.SIGINT}
    # Held back, they are not lost for a PID 1 that has no handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with ExitStack() as stack:
        for family in _families():
            stack.enter_context(_made(_NEW_ROUTE, _DELETE_ROUTE, _route(family)))
            for port in ports:
                rule = _rule(family, port)
                stack.enter_context(_made(_NEW_RULE, _DELETE_RULE, rule))
        sys.stdout.write("unreachable\n")
        sys.stdout.flush()
        signal.sigtimedwait(ends, seconds)


def _families() -> list[int]:
    """IPv6 only where this namespace has an address of it: elsewhere it may have no routes."""
    file = Path("/proc/net/if_inet6")
    six = file.exists() and file.read_text(encoding="ascii")
    return [socket.AF_INET, *([socket.AF_INET6] if six else [])]


def _rule(family: int, port: int) -> bytes:
    return b"".join((
        _BODY.pack(family, 0, 0, 0, 0, 0, 0, _RULE_TO_TABLE, 0),
        _attribute(_TABLE_ATTRIBUTE, struct.pack("=I", _TABLE)),
        _attribute(_RULE_PRIORITY, struct.pack("=I", _PRIORITY)),
        _attribute(_RULE_PROTOCOL, struct.pack("=B", socket.IPPROTO_TCP)),
        _attribute(_RULE_PORTS, struct.pack("=HH", port, port)),
    ))  # fmt: skip


def _route(family: int) -> bytes:
    return b"".join((
        _BODY.pack(family, 0, 0, 0, 0, _STATIC, _LINK, _UNICAST, 0),
        _attribute(_TABLE_ATTRIBUTE, struct.pack("=I", _TABLE)),
        _attribute(_ROUTE_DEVICE, struct.pack("=I", socket.if_nametoindex("lo"))),
    ))  # fmt: skip


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)


@contextmanager
def _made(make: int, delete: int, what: bytes) -> Iterator[None]:
    _ask(make, _REQUEST | _CREATE, what)
    try:
        yield
    finally:
        _ask(delete, _REQUEST, what)


def _ask(kind: int, flags: int, what: bytes) -> None:
    """One request to the kernel, and its answer."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.send(_HEADER.pack(_HEADER.size + len(what), kind, flags, 1, 0) + what)
        answer = link.recv(4096)
    (told,) = struct.unpack_from("=H", answer, 4)
    (status,) = struct.unpack_from("=i", answer, _HEADER.size)
    if told == _ERROR and status != 0:
        raise OSError(-status, f"request {kind}: {os.strerror(-status)}")


if __name__ == "__main__":
    main(float(sys.argv[1]), [int(port) for port in sys.argv[2:]])
