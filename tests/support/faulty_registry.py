"""A proxy before a real schema registry, which answers as broken servers do when it is told to."""

from __future__ import annotations

import http.client
import threading
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit

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


class FaultyRegistry(ThreadingHTTPServer):
    """Listens on the loopback interface; `fault` may be changed at any time.

    Attributes:
        hits: requests that met the present fault.
    """

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        behind = urlsplit(url)
        self.behind = (behind.hostname or "", behind.port or 0)
        self.url = f"http://127.0.0.1:{self.server_port}{behind.path}"
        self.fault: Fault | None = None
        self.hits = 0
        self.healed = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
        self.shutdown()
        self.server_close()

    def begin(self, fault: Fault) -> None:
        self.healed.clear()
        self.hits, self.fault = 0, fault

    def heal(self) -> None:
        self.fault = None
        self.healed.set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyRegistry

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault
        if fault is None:
            self._forward(asked)
            return
        self.server.hits += 1
        page = b"<html><body>Please sign in</body></html>"
        if fault is Fault.HTML:
            self._send(200, "text/html", page)
        elif fault is Fault.NOT_FOUND:
            self._send(404, "text/html", page)
        elif fault is Fault.ERROR:
            self._send(500, "application/json", b'{"error_code":50001,"message":"disk full"}')
        elif fault is Fault.HALF:
            self._send(200, "application/json", b'{"schema":"{\\"type\\":')
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
        self._send(found.status, found.headers.get_content_type(), body)

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing: the tests read what the job says."""
