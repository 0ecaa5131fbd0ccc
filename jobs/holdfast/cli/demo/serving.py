"""The demo's query server, and clients that read from it all the time."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from holdfast.cli.demo.processes import Child
from holdfast.client import Client, Row
from holdfast.errors import HoldfastError
from holdfast.local.probe import HOST, free_port

__all__ = ["PULL", "PUSH", "Reads", "Served"]

PULL = "SELECT carrier, flights FROM flights_per_carrier WHERE carrier = 'UA';"
PUSH = "SELECT carrier, flights FROM flights_per_carrier EMIT CHANGES LIMIT 3;"
_START_S = 120.0
_POLL_S = 0.2
_READ_EVERY_S = 0.05


@dataclass
class Reads:
    """The results of the look-ups during the kills."""

    asked: int = 0
    failed: int = 0
    went_back: int = 0
    last_error: str = ""
    flights: int = 0
    changes: list[Row] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return self.asked > 0 and not self.failed and not self.went_back


class Served:
    """Owns the clients of one query server, whose process is a child of the demo."""

    def __init__(self, sql: Path, home: Path) -> None:
        port = free_port()
        self.url = f"http://{HOST}:{port}"
        self.arguments = ["serve", str(sql), "--listen", f"{HOST}:{port}", "--home", str(home)]
        self.reads = Reads()
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def console(self) -> str:
        return f"{self.url}/console/"

    def await_ready(self, server: Child) -> None:
        """Wait until every table can be read.

        Raises:
            HoldfastError: the server ended, or took too long.
        """
        deadline = time.monotonic() + _START_S
        while not self._is_ready():
            if not server.running or time.monotonic() > deadline:
                raise HoldfastError(
                    f"The query server at {self.url} is not ready after {_START_S:.0f} s.",
                    action="read serve.log in the demo's folder.",
                )
            time.sleep(_POLL_S)

    def _is_ready(self) -> bool:
        try:
            answer = httpx.get(f"{self.url}/healthcheck", trust_env=False)
            tables = httpx.get(f"{self.url}/v1/tables", trust_env=False).json()["tables"]
        except httpx.TransportError:
            return False
        names = {table["name"] for table in tables}
        return answer.status_code == httpx.codes.OK and "FLIGHTS_PER_CARRIER" in names

    def read(self) -> None:
        """Begin to look up a key repeatedly, and to wait for three changes."""
        for work in (self._look_up, self._listen):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> Reads:
        """Stop the look-ups; returns their results."""
        self._done.set()
        for thread in self._threads:
            thread.join(_START_S)
        return self.reads

    def _look_up(self) -> None:
        reads = self.reads
        with Client(self.url, retry_s=0) as client:
            while not self._done.wait(_READ_EVERY_S):
                reads.asked += 1
                try:
                    rows = list(client.query(PULL))
                except HoldfastError as error:
                    reads.failed, reads.last_error = reads.failed + 1, error.fact
                    continue
                flights = rows[0]["FLIGHTS"] if rows else 0
                reads.went_back += flights < reads.flights
                reads.flights = flights

    def _listen(self) -> None:
        with Client(self.url) as client:
            self.reads.changes = list(client.changes(PUSH))
