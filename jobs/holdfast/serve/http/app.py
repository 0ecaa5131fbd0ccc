"""The query server's ASGI application: authenticates requests and routes them to handlers.

The paths of look-ups are found in one dictionary, before anything slower.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping

from holdfast.errors import BadRequest, HoldfastError
from holdfast.serve.http.context import Context
from holdfast.serve.http.guard.access import ANYONE, Client
from holdfast.serve.http.guard.origin import Origins
from holdfast.serve.http.ksql.about import KsqlAbout
from holdfast.serve.http.ksql.queries import KsqlQueries
from holdfast.serve.http.ksql.statements import KsqlStatements
from holdfast.serve.http.request import App, Receive, Request, Scope, Send
from holdfast.serve.http.sockets import Sockets
from holdfast.serve.http.v1 import V1

__all__ = ["AUDIT", "CLIENT", "RUNNING", "HttpApp"]

_log = logging.getLogger(__name__)

# Keys under which mounted applications find the `Client`, `Audit` and `Running` in their scope.
CLIENT, AUDIT, RUNNING = "holdfast.client", "holdfast.audit", "holdfast.running"
_INTERNAL = "/internal/"
_OPEN = re.compile(r"/console(/(static/[\w./-]*)?)?")  # the page and its files hold no data

_Handler = Callable[[Request, Client], Awaitable[None]]


class HttpApp:
    """Owns the routes.  `mounts`: further applications by their path prefix."""

    def __init__(
        self, context: Context, mounts: Mapping[str, App] | None = None, *, local_only: bool = False
    ) -> None:
        self._context = context
        self._mounts = dict(mounts or {})
        self._origins = Origins(local_only=local_only)
        self._has_peers = len(context.serving.cluster.members()) > 1
        self._sockets = Sockets(context)
        self._public: dict[tuple[str, str], _Handler] = {}
        self._routes: dict[tuple[str, str], _Handler] = {}
        self._trees: list[tuple[str, str, str, _Handler]] = []  # method, start, end, handler
        self._add_routes()

    def _add_routes(self) -> None:
        queries, statements = KsqlQueries(self._context), KsqlStatements(self._context)
        about, ours = KsqlAbout(self._context), V1(self._context)
        self._public = {
            ("GET", "/healthcheck"): about.health,
            ("GET", "/openapi.json"): about.openapi,
            ("GET", "/"): self._root,
        }
        self._routes = {
            ("POST", "/query-stream"): queries.query_stream,
            ("POST", "/query"): queries.query,
            ("POST", "/v1/query"): ours.query,
            ("GET", "/v1/query"): ours.query_events,
            ("POST", "/close-query"): queries.close_query,
            ("POST", "/ksql"): statements.statements,
            ("POST", "/inserts-stream"): statements.insert,
            ("GET", "/info"): about.info,
            ("GET", "/clusterStatus"): about.cluster,
            ("GET", "/status"): about.status,
            ("GET", "/v1/metadata"): about.metadata,
            ("GET", "/v1/metadata/id"): about.metadata,
            ("GET", "/v1/tables"): ours.tables,
            ("GET", "/v1/servers"): ours.servers,
            ("POST", "/v1/session"): ours.sign_in,
            ("DELETE", "/v1/session"): ours.sign_out,
        }
        self._trees = [
            ("GET", "/v1/tables/", "/positions", ours.positions),
            ("GET", "/v1/tables/", "", ours.table),
            ("GET", "/status/", "", about.status),
            ("GET", "/is_valid_property/", "", about.valid_property),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send, self._context.limits)
        try:
            self._origins.check(request)
            if scope["type"] == "websocket":
                await self._sockets.serve(request)
            elif scope["type"] == "http":
                await self._http(request)
        except Exception as error:  # noqa: BLE001 - a failed request must not affect others
            if not isinstance(error, HoldfastError):
                _log.exception("a request failed", extra={"path": scope.get("path")})
            with contextlib.suppress(BadRequest):  # the client went away
                await request.fail(error)

    async def _http(self, request: Request) -> None:
        scope = request.scope
        route = _route(scope)
        handler = self._routes.get(route)
        if handler is None and route in self._public:
            await self._public[route](request, ANYONE)
            return
        if scope["path"].startswith(_INTERNAL):
            await self._internal(request)
            return
        mount = self._mounted(scope["path"]) if handler is None else None
        if mount is not None:
            await self._mount(request, mount)
            return
        client = self._client(request)
        handler = handler or self._in_trees(*route)
        await handler(request, client)

    def _client(self, request: Request) -> Client:
        return self._context.client(request, request.scope["headers"])

    def _in_trees(self, method: str, path: str) -> _Handler:
        for wanted, start, end, handler in self._trees:
            if method == wanted and path.startswith(start) and path.endswith(end):
                return handler
        known = {m for m, p in (*self._routes, *self._public) if p == path}
        if known:
            raise BadRequest(
                f"{path} takes {' or '.join(sorted(known))}, not {method[:20]}.", status=405
            )
        raise _nothing_at(path)

    def _mounted(self, path: str) -> App | None:
        return next(
            (a for p, a in self._mounts.items() if path == p or path.startswith(f"{p}/")), None
        )

    async def _mount(self, request: Request, mount: App) -> None:
        """Call a mounted application; everything but its page needs a token where tokens are
        used.
        """
        scope = request.scope
        scope[CLIENT] = ANYONE if _OPEN.fullmatch(scope["path"]) else self._client(request)
        scope[AUDIT], scope[RUNNING] = self._context.audit, self._context.running
        await mount(scope, request.receive, request.send)

    async def _internal(self, request: Request) -> None:
        """Requests of other servers; for all other clients the path does not exist."""
        if not (self._has_peers and self._context.access.peer(request.scope["headers"])):
            raise _nothing_at(request.scope["path"])
        await self._context.serving.internal(request.scope, request.receive, request.send)

    async def _root(self, request: Request, client: Client) -> None:
        """GET /: redirects to the console, if it is mounted."""
        if "/console" in self._mounts:
            await request.respond(b"", status=307, headers={"location": "/console/"})
            return
        await request.json({"server": "holdfast", "openapi": "/openapi.json"})


def _route(scope: Scope) -> tuple[str, str]:
    """Method and path; HEAD is GET (the server drops the body), a trailing slash is ignored."""
    method, path = scope["method"], scope["path"]
    if len(path) > 1 and path[-1] == "/":
        path = path.rstrip("/") or "/"
    return "GET" if method == "HEAD" else method, path


def _nothing_at(path: str) -> BadRequest:
    return BadRequest(
        f"there is nothing at {path[:200]}.", status=404,
        action="GET /openapi.json tells of every path.",
    )  # fmt: skip
