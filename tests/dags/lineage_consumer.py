"""A consumer of OpenLineage events: the server that Airflow's provider sends them to."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

__all__ = ["Consumer"]


class Consumer(AbstractContextManager["Consumer"]):
    """Keeps what it is sent, as a catalogue would.

    Attributes:
        events: all events, as they came.
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        handler = type("Handler", (_Handler,), {"events": self.events})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """Airflow's own settings that make its provider send its events here."""
        transport = {
            "type": "http",
            "url": f"http://127.0.0.1:{self._server.server_port}",
            "endpoint": "api/v1/lineage",
        }
        return {
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "AIRFLOW__OPENLINEAGE__NAMESPACE": "tried",
        }

    def of_task(self, name: str) -> dict[str, dict[str, Any]]:
        """The last event of each type of the job `name` (DAG, dot, task)."""
        found = [event for event in self.events if event["job"]["name"] == name]
        return {event["eventType"]: event for event in found}


class _Handler(BaseHTTPRequestHandler):
    events: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/api/v1/lineage"
        self.events.append(json.loads(body))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the tests say what there is to say."""
