"""A real Redis server of its own for a test; skips the test, and says so, where there is none.

with RedisServer(folder) as redis:
    settings = redis.settings()
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.config.settings import RemoteSettings
from holdfast.local.probe import HOST, free_port
from holdfast.state.remote.redis import RedisLink
from tests.support.servers.server_process import ServerProcess

__all__ = ["RedisServer", "needs_redis"]

_START_S = 20.0
_TIMEOUT_MS = 2_000


def needs_redis() -> str:
    """The path of redis-server; without one the test is skipped."""
    found = shutil.which("redis-server")
    if found is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    return found


class RedisServer(ServerProcess):
    """Keeps its data over `kill` and `start`, in its log (AOF).

    The log is synced before each answer: otherwise a server whose disk is busy may put off the
    writing of its log for two seconds, and a kill loses what it has confirmed.

    Args:
        options: further options of redis-server, as on its command line.
    """

    def __init__(self, folder: Path, *options: str, tls: bool = False) -> None:
        super().__init__(folder / "redis.log")
        self._folder = folder
        self._options = options
        self._tls = tls
        self._program = needs_redis()
        self._port = free_port()

    def settings(self, user: str = "", password_file: str = "") -> RemoteSettings:
        return RemoteSettings(self.uri, user, password_file, _TIMEOUT_MS)

    @property
    def uri(self) -> str:
        return f"{'rediss' if self._tls else 'redis'}://{HOST}:{self._port}/0"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        port = ["--port", "0", "--tls-port"] if self._tls else ["--port"]
        before = len(self.log) if self._log_file.exists() else 0
        command = [
            self._program, *port, str(self._port), "--bind", HOST, "--dir", str(self._folder),
            "--save", "", "--appendonly", "yes", "--appendfsync", "always", *self._options,
        ]  # fmt: skip
        ready = "Ready to accept connections"
        self._launch(command, lambda: ready in self.log[before:], _START_S)

    def ask(self, *command: bytes | str | int) -> object:
        """The answer to one command, as the default user without a password."""
        link = RedisLink(self.settings())
        try:
            return link.ask(command)[0]
        finally:
            link.close()
