"""HTTP servers on the loopback interface that stand for those of other systems.

Needs the standard library only: Airflow's environment has no more of it.
"""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

__all__ = ["Handler", "LoopbackServer"]

_LOOK_EVERY_S = 0.05  # how soon it sees that it is to stop


class LoopbackServer(ThreadingHTTPServer):
    """Answers from its `with` on until that ends, at a free port.

    Attributes:
        url: its address, without a slash at the end.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=(_LOOK_EVERY_S,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """Reads and writes whole bodies; `server` is the one that it answers for."""

    def do_GET(self) -> None:
        self.respond(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def do_POST(self) -> None:
        self.do_GET()

    def do_PATCH(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def respond(self, body: bytes) -> None:
        """Calls `answer` for the request of `self.command` and `self.path`."""
        raise NotImplementedError

    def answer(self, status: int, body: bytes = b"", kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing: the tests say all that there is to say."""
