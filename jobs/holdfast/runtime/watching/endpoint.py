"""The driver's HTTP endpoint: /metrics, /status, /live and /ready on one port.

`/live` and `/ready` answer 200 or 503 with the reason in one line; `/status` returns the status
file with readiness and lags, as JSON.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

import orjson

from holdfast.errors import InvalidConfig
from holdfast.runtime.watching.health import Health
from holdfast.types.status import QueryState

__all__ = ["Page", "health_pages", "serve", "status_body"]

Page = Callable[[], tuple[HTTPStatus, str, bytes]]
"""Returns an answer: status, content type, body."""

_Application = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]
_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # The HTTP server's own method asks DNS for the machine's name, which may take long.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Logs nothing: probes come every few seconds."""


def serve(port: int, address: str, metrics: _Application, pages: Mapping[str, Page]) -> str:
    """Starts the endpoint on `address` (empty: all) and `port` (0: any free one).

    Args:
        metrics: answers /metrics.
        pages: the other paths.

    Returns its base URL.

    Raises:
        InvalidConfig: the port is taken.
    """
    everywhere = "0.0.0.0"  # noqa: S104 - on a cluster other pods connect
    try:
        server = _Server((address or everywhere, port), _Handler)
    except OSError as error:
        raise InvalidConfig(
            f"The metrics endpoint cannot listen on port {port}: {error}.",
            cause="another job uses the port",
            action="set metrics.port=0 for a free one",
        ) from error
    server.set_app(_dispatcher(metrics, pages))
    threading.Thread(target=server.serve_forever, name="endpoint", daemon=True).start()
    return f"http://localhost:{server.server_port}"


def _dispatcher(metrics: _Application, pages: Mapping[str, Page]) -> _Application:
    def dispatch(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return metrics(environ, start_response)
        page = pages.get(path)
        status, kind, body = page() if page else _text(HTTPStatus.NOT_FOUND, _known(pages))
        headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
        start_response(f"{status.value} {status.phrase}", headers)
        return [body]

    return dispatch


def health_pages(health: Health, status: Callable[[], dict[str, Any]]) -> dict[str, Page]:
    """/live, /ready and /status; `status` gives the job's status as JSON values."""

    def probe(good: str, why_not: Callable[[], str]) -> Page:
        def page() -> tuple[HTTPStatus, str, bytes]:
            reason = why_not()
            kind = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
            return _text(kind, reason or good)

        return page

    return {
        "/live": probe("the queries advance", health.why_not_live),
        "/ready": probe("stores restored, streams started", health.why_not_ready),
        "/status": lambda: (HTTPStatus.OK, _JSON, orjson.dumps(status_body(status(), health))),
    }


def status_body(status: dict[str, Any], health: Health) -> dict[str, Any]:
    """A job's status with `ready`, `reason` (empty when ready), `lag` and `caught_up`.

    Lags are source offsets, null until they are known, and while Kafka is silent; each query has
    its own as well.  They are those of running queries: a paused or terminated one is behind on
    purpose.
    """
    reason = health.why_not_ready()
    levels = {name: health.level(name) for name in status["queries"]}
    queries = {
        name: {
            **query,
            "lag": level.lag if (level := levels[name]) else None,
            "caught_up": level is not None and level.caught_up,
        }
        for name, query in status["queries"].items()
    }
    running = [name for name, query in queries.items() if query["state"] == QueryState.RUNNING]
    known = [level for name in running if (level := levels[name]) is not None]
    all_known = len(known) == len(running)
    return {
        **status,
        "queries": queries,
        "ready": not reason,
        "reason": reason or health.why_not_live() or health.why_unknown(),
        "lag": sum(level.lag for level in known) if all_known else None,
        "caught_up": not reason and all_known and all(level.caught_up for level in known),
    }


def _text(status: HTTPStatus, line: str) -> tuple[HTTPStatus, str, bytes]:
    return status, _TEXT, f"{line}\n".encode()


def _known(pages: Mapping[str, Page]) -> str:
    return f"there are: {', '.join(sorted([*pages, '/metrics']))}"
