"""Limits the bytes that a connection sends, by the kernel's count, and cuts it beyond the limit.

The WebSocket transport buffers the parts of an unfinished message, up to 64 MiB, and offers no way
to see or limit them.  Only the kernel's count of a connection can be limited in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from holdfast.serve.http.request import Scope

__all__ = ["limited_inflow"]

_BUSY_S = 0.002  # between checks of a connection that keeps sending
_IDLE_S = 1.0  # between checks of any connection
_SOCKETS = Path("/dev/fd")
_AT_ONCE = struct.pack("ii", 1, 0)
_RECEIVED = struct.Struct("=Q")
_RECEIVED_AT = 128  # tcpi_bytes_received in Linux's struct tcp_info


@contextlib.asynccontextmanager
async def limited_inflow(scope: Scope, limit: int) -> AsyncIterator[None]:
    """Context that cuts the request's connection once it has sent more than `limit` bytes.

    Counts nothing on systems other than Linux.
    """
    connection = await asyncio.to_thread(_connection, scope)
    if connection is None:
        yield
        return
    watch = _Watch(connection, limit)
    watch.begin()
    try:
        yield
    finally:
        watch.end()


class _Watch:
    """Owns a second descriptor of a connection, and checks its count when bytes arrive.

    Bytes may be read before this is notified of them, so it also checks periodically.
    """

    def __init__(self, connection: socket.socket, limit: int) -> None:
        self._connection = connection
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Begin to watch the connection."""
        self._loop.add_reader(self._connection, self._look, _BUSY_S)
        self._next = self._loop.call_later(_IDLE_S, self._look, 0.0)

    def _look(self, pause_s: float) -> None:
        self._wait_no_more()
        if _received(self._connection) > self._limit:
            with contextlib.suppress(OSError):  # it is closed
                # The rest of what the client sends is discarded, too.
                self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                self._connection.shutdown(socket.SHUT_RDWR)
        elif pause_s:
            self._next = self._loop.call_later(pause_s, self.begin)
        else:
            self.begin()

    def _wait_no_more(self) -> None:
        self._loop.remove_reader(self._connection)
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def end(self) -> None:
        """Close the descriptor."""
        self._wait_no_more()
        self._connection.close()


def _ends(scope: Scope) -> tuple[tuple[str, int], int] | None:
    """The client's address, and this server's port."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server:
        return None
    return (str(client[0]), int(client[1])), int(server[1])


def _connection(scope: Scope) -> socket.socket | None:
    """A duplicate of this process's descriptor of a request's connection."""
    ends = _ends(scope)
    if ends is None or not sys.platform.startswith("linux"):
        return None
    for path in _SOCKETS.iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            if stat.S_ISSOCK(os.fstat(int(path.name)).st_mode):
                found = socket.socket(fileno=os.dup(int(path.name)))
                if _joins(found) == ends:
                    return found
                found.close()
    return None


def _joins(connection: socket.socket) -> tuple[tuple[str, int], int] | None:
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        return connection.getpeername()[:2], connection.getsockname()[1]
    except OSError:  # it is a listening socket, or closed
        return None


def _received(connection: socket.socket) -> int:
    """Bytes received over the connection, including unread ones."""
    with contextlib.suppress(OSError, struct.error):
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return int(_RECEIVED.unpack_from(told, _RECEIVED_AT)[0])
    return 0
