"""A proxy before a real schema registry, which answers as broken servers do when it is told to."""

from __future__ import annotations

import gzip
import http.client
import threading
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from urllib.parse import urlsplit

from tests.support.servers.loopback_server import Handler, LoopbackServer

__all__ = ["Fault", "FaultyRegistry"]

_HANG_S = 30.0  # longer than any client of the tests waits
_CHUNK = b"[" + b" " * 65_535
_CHUNKS_MAX = 1_000  # 63 MiB, so that a test of a client without a limit ends
_INFLATED = gzip.compress(_CHUNK * 1_000)
_SLOW_S = 0.05


class Fault(StrEnum):
    """Answers of the proxy instead of the registry's."""

    HTML = "answers 200 with a page"
    NOT_FOUND = "answers 404 with a page, as a web server that is no registry"
    ERROR = "answers 500"
    HALF = "ends its answer in the middle"
    RESET = "closes the connection"
    HANG = "does not answer"
    ENDLESS = "answers without an end"
    SLOW = "answers a byte at a time"
    NESTED = "answers with lists in lists"
    INFLATED = "answers with little that is much once it is inflated"


class FaultyRegistry(LoopbackServer):
    """Forwards; `begin` and `heal` change what it answers at any time.

    Attributes:
        hits: requests that met the present fault.
        streamed: bytes of the longest answer without an end.
    """

    def __init__(self, url: str) -> None:
        super().__init__(_Handler)
        behind = urlsplit(url)
        self.behind = (behind.hostname or "", behind.port or 0)
        self.url += behind.path
        self.fault: Fault | None = None
        self.hits = self.streamed = 0
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
        elif fault is Fault.ENDLESS:
            self._stream(_CHUNK, 0)
        elif fault is Fault.SLOW:
            self._stream(b" ", _SLOW_S)
        elif fault is Fault.NESTED:
            self.answer(200, b"[" * 1_000_000)
        elif fault is Fault.INFLATED:
            self._begin({"Content-Encoding": "gzip", "Content-Length": str(len(_INFLATED))})
            self.wfile.write(_INFLATED)
        else:
            if fault is Fault.HANG:
                self.server.healed.wait(_HANG_S)
            self.close_connection = True

    def _begin(self, headers: Mapping[str, str]) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, chunk: bytes, wait_s: float) -> None:
        """Sends until the client has enough of it, or the fault ends."""
        self._begin({"Transfer-Encoding": "chunked"})
        self.close_connection = True
        with suppress(OSError):
            for number in range(_CHUNKS_MAX):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                self.server.streamed = max(self.server.streamed, number * len(chunk))
                if wait_s and self.server.healed.wait(wait_s):
                    return

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
