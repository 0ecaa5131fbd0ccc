"""A query server in a process of its own, over the console's world: SQL, console and metrics.

Two clients: `city` may read PER_CITY, `all` everything.  PER_CUSTOMER has rows with MARKER in them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.serve.console.app import Console
from holdfast.serve.http.meter import Meter
from holdfast.serve.http.request import App, Limits
from holdfast.serve.metrics import metrics_app
from holdfast.serve.query import QueryEngine
from tests.support.console.world import World
from tests.support.serve.http_world import served
from tests.support.serve.tokens import tokens_file

__all__ = ["MARKER", "ServerProcess", "server_process"]

MARKER = "row-of-another-client"


@dataclass(frozen=True)
class ServerProcess:
    """Where it answers, and what it writes."""

    port: int
    pid: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def memory_peak_bytes(self) -> int:
        """The most that it ever had in memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = [one for one in status.splitlines() if one.startswith("VmHWM:")]
        return int(line.split()[1]) << 10

    def complaints(self) -> list[str]:
        """What only bugs write into the log."""
        signs = ("Traceback", "a request failed", "panicked", "ASGI")
        return [one for one in self.log.read_text().splitlines() if any(s in one for s in signs)]


@contextmanager
def server_process(home: Path) -> Iterator[ServerProcess]:
    """It ends when this process lets go of its input."""
    log = home / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.security.server_process", str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
        )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told, log.read_text()
        yield ServerProcess(int(told), process.pid, log)
        alive = process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 0, log.read_text()
        assert alive, log.read_text()


def _main(home: Path) -> None:
    world = World()
    for number in range(20):
        world.put("PER_CITY", [f"city {number}"], [number, number])
        world.put("PER_CUSTOMER", [f"{MARKER} {number}"], [number, number])
    serving = world.serving(home)
    mounts: dict[str, App] = {"/console": Console(serving), "/metrics": metrics_app(world, Meter())}
    with served(
        home,
        mounts=mounts,
        queries=lambda s: QueryEngine(s.catalog, s.reader),
        world=world,
        tokens=tokens_file(home, city=["PER_CITY"], all=["*"]),
        peer_token="t-peer",
        audit=home / "audit.log",
        # Nothing is cut for being late before the tests give up.
        limits=Limits(timeout_s=20.0, request_s=300.0),
    ) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
    os._exit(0)  # threads of the transport may outlive the interpreter, and abort it
