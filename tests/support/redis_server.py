"""A real Redis server of its own for a test; skips the test, and says so, where there is none.

with RedisServer(folder) as redis:
    settings = redis.settings()
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest

from holdfast.config.settings import RemoteSettings
from holdfast.local.probe import HOST, free_port
from holdfast.state.remote.redis import RedisLink

__all__ = ["RedisServer", "needs_redis"]

_START_S = 20.0
_POLL_S = 0.05
_TIMEOUT_MS = 2_000


def needs_redis() -> str:
    """The path of redis-server; without one the test is skipped."""
    found = shutil.which("redis-server")
    if found is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    return found


class RedisServer:
    """Owns the process from `with` until its end; `stop` and `start` keep the data (its AOF).

    Args:
        options: further options of redis-server, as on its command line.
    """

    def __init__(self, folder: Path, *options: str, tls: bool = False) -> None:
        self._folder = folder
        self._options = options
        self._tls = tls
        self._program = needs_redis()
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def settings(self, user: str = "", password_file: str = "") -> RemoteSettings:
        return RemoteSettings(self.uri, user, password_file, _TIMEOUT_MS)

    @property
    def uri(self) -> str:
        return f"{'rediss' if self._tls else 'redis'}://{HOST}:{self._port}/0"

    @property
    def log(self) -> str:
        return (self._folder / "redis.log").read_text()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        port = ["--port", "0", "--tls-port"] if self._tls else ["--port"]
        with (self._folder / "redis.log").open("ab") as log:
            before = log.tell()
            self._process = subprocess.Popen(
                [
                    self._program, *port, str(self._port), "--bind", HOST, "--dir",
                    str(self._folder), "--save", "", "--appendonly", "yes", *self._options,
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while "Ready to accept connections" not in self.log[before:]:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """SIGKILL: its memory is gone, its log stays."""
        assert self._process is not None, "it runs"
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """It hangs, until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "it runs"
        self._process.send_signal(number)

    def ask(self, *command: bytes | str | int) -> object:
        """The answer to one command, as the default user without a password."""
        link = RedisLink(self.settings())
        try:
            return link.ask(command)[0]
        finally:
            link.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
