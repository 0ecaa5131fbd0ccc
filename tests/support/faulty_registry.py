"""A proxy before a real schema registry, which answers as broken servers do when it is told to."""

from __future__ import annotations

import http.client
import threading
from enum import StrEnum
from urllib.parse import urlsplit

from tests.support.loopback_server import Handler, LoopbackServer

__all__ = ["Fault", "FaultyRegistry"]

_HANG_S = 30.0  # longer than any client of the tests waits


class Fault(StrEnum):
    """Answers of the proxy instead of the registry's."""

    HTML = "answers 200 with a page"
    NOT_FOUND = "answers 404 with a page, as a web server that is no registry"
    ERROR = "answers 500"
    HALF = "ends its answer in the middle"
    RESET = "closes the connection"
    HANG = "does not answer"


class FaultyRegistry(LoopbackServer):
    """Forwards; `begin` and `heal` change what it answers at any time.

    Attributes:
        hits: requests that met the present fault.
    """

    def __init__(self, url: str) -> None:
        super().__init__(_Handler)
        behind = urlsplit(url)
        self.behind = (behind.hostname or "", behind.port or 0)
        self.url += behind.path
        self.fault: Fault | None = None
        self.hits = 0
        self.healed = threading.Event()

    def __exit__(self, *_: object) -> None:
        self.heal()
        super().__exit__()

    def begin(self, fault: Fault) -> None:
        self.healed.clear()
        self.hits, self.fault = 0, fault

    def heal(self) -> None:
        self.fault = None
        self.healed.set()


class _Handler(Handler):
    protocol_version = "HTTP/1.1"
    server: FaultyRegistry

    def respond(self, body: bytes) -> None:
        fault = self.server.fault
        if fault is None:
            self._forward(body)
            return
        self.server.hits += 1
        page = b"<html><body>Please sign in</body></html>"
        if fault is Fault.HTML:
            self.answer(200, page, "text/html")
        elif fault is Fault.NOT_FOUND:
            self.answer(404, page, "text/html")
        elif fault is Fault.ERROR:
            self.answer(500, b'{"error_code":50001,"message":"disk full"}')
        elif fault is Fault.HALF:
            self.answer(200, b'{"schema":"{\\"type\\":')
        else:
            if fault is Fault.HANG:
                self.server.healed.wait(_HANG_S)
            self.close_connection = True

    def _forward(self, asked: bytes) -> None:
        behind = http.client.HTTPConnection(*self.server.behind, timeout=60)
        kept = {k: v for k, v in self.headers.items() if k.lower() in ("accept", "content-type")}
        try:
            behind.request(self.command, self.path, asked or None, kept)
            found = behind.getresponse()
            body = found.read()
        finally:
            behind.close()
        self.answer(found.status, body, found.headers.get_content_type())
