"""One HTTP request: its headers, its size-limited body, and its response."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.config.settings import ServeSettings
from holdfast.errors import BadRequest
from holdfast.serve.http.problems import problem

__all__ = ["App", "Limits", "Receive", "Request", "Scope", "Send", "plain_object"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_JSON = "application/json"
_SERVE = ServeSettings()


@dataclass(frozen=True)
class Limits:
    """The limits of a client's requests.

    Attributes:
        request_bytes: size of a request's body.
        request_s: time for the body to arrive.
        send_s: time for a client to read what was sent; a slower one is disconnected.
        timeout_s: duration of a pull query; a request may ask for less.
        heartbeat_s: time without a row after which a push query sends a heartbeat.
        open_queries: concurrent queries of all clients together.
        sockets: concurrent WebSockets of one client; all clients without a token count as one.
        socket_bytes: bytes that a WebSocket may send in its lifetime, pings included.
        rate_per_s: requests of one client, on average; 0: no limit.
        burst: requests at once after a pause.
    """

    request_bytes: int = _SERVE.request_bytes
    request_s: float = 30.0
    send_s: float = _SERVE.send_ms / 1000
    timeout_s: float = _SERVE.timeout_ms / 1000
    heartbeat_s: float = _SERVE.heartbeat_ms / 1000
    open_queries: int = _SERVE.open_queries
    sockets: int = 100
    socket_bytes: int = 2 * _SERVE.request_bytes
    rate_per_s: float = 0.0
    burst: int = 100

    @staticmethod
    def of(settings: ServeSettings, rate_per_s: float) -> Limits:
        """The limits of a server with these settings."""
        return Limits(
            request_bytes=settings.request_bytes,
            send_s=settings.send_ms / 1000,
            timeout_s=settings.timeout_ms / 1000,
            heartbeat_s=settings.heartbeat_ms / 1000,
            open_queries=settings.open_queries,
            socket_bytes=2 * settings.request_bytes,
            rate_per_s=rate_per_s,
        )


class Request:
    """A request and its response; `status` is 0 until the response starts.

    A WebSocket is a request as well: a response before it is accepted refuses it.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits) -> None:
        self.scope = scope
        self._send = send
        self.receive = receive
        self.limits = limits
        self.status = 0
        refusal = scope["type"] == "websocket"
        self._answer = "websocket.http.response" if refusal else "http.response"
        self.started_s = time.monotonic()

    def header(self, name: bytes) -> str:
        """The first header of that name (lower case); empty when there is none."""
        for key, value in self.scope["headers"]:
            if key == name:
                return bytes(value).decode("latin-1")
        return ""

    def headers(self, name: bytes) -> list[str]:
        """All headers of that name (lower case)."""
        return [bytes(v).decode("latin-1") for k, v in self.scope["headers"] if k == name]

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send an ASGI message.

        Raises:
            BadRequest: the client disconnected, which needs no investigation.
        """
        try:
            await self._send(message)
        except RuntimeError as error:  # raised by the transport on a disconnect
            raise BadRequest("the client went away.", status=499) from error

    @property
    def address(self) -> str:
        """The client's address; empty if unknown."""
        return str((self.scope.get("client") or [""])[0])

    @property
    def http2(self) -> bool:
        return str(self.scope.get("http_version", "")).startswith("2")

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            BadRequest: it is too large or too slow, or the client disconnected.
        """
        length = self.header(b"content-length")
        if length.isascii() and length.isdigit() and self._is_too_long(length):
            raise self._too_large()
        try:
            async with asyncio.timeout(self.limits.request_s):
                return await self._whole_body()
        except TimeoutError:
            raise BadRequest(
                f"the request's body did not arrive within {self.limits.request_s:g} s.", status=408
            ) from None

    def _is_too_long(self, length: str) -> bool:
        return len(length) > 18 or int(length) > self.limits.request_bytes

    async def _whole_body(self) -> bytes:
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise BadRequest(
                    "the client went away before its request was complete.", status=499
                )
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), bool(message.get("more_body"))
            if size > self.limits.request_bytes:
                raise self._too_large()
        return b"".join(parts)

    def _too_large(self) -> BadRequest:
        return BadRequest(
            f"the request is larger than {self.limits.request_bytes:,} bytes.",
            status=413,
            action="ask for less at a time.",
        )

    async def json_object(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            BadRequest: it is not one.
        """
        return plain_object(await self.body())

    async def respond(
        self,
        body: bytes,
        *,
        status: int = 200,
        kind: str = _JSON,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a complete response."""
        await self.start(status, kind, {"content-length": str(len(body)), **(headers or {})})
        await self.send({"type": f"{self._answer}.body", "body": body})

    async def start(self, status: int, kind: str, headers: dict[str, str] | None = None) -> None:
        """Begin a response whose body follows."""
        self.status = status
        given = {"content-type": kind, "cache-control": "no-store",
                 "x-content-type-options": "nosniff", **(headers or {})}  # fmt: skip
        sent = [(k.encode(), v.encode("latin-1")) for k, v in given.items()]
        await self.send({"type": f"{self._answer}.start", "status": status, "headers": sent})

    async def json(self, value: Any, *, status: int = 200) -> None:
        """Send a JSON response."""
        await self.respond(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS), status=status)

    async def fail(self, error: BaseException, statement: str = "", code: int = 0) -> None:
        """Send an error response, unless a response has begun."""
        if self.status:
            return
        status, body = problem(error, statement, code)
        headers = {401: {"www-authenticate": 'Bearer realm="holdfast"'}, 429: {"retry-after": "1"}}
        await self.respond(orjson.dumps(body), status=status, headers=headers.get(status))


def plain_object(data: bytes | str) -> dict[str, Any]:
    """JSON text that must be an object.

    Raises:
        BadRequest: it is not.
    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the request is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise BadRequest("the request is JSON, but not an object.")
    return found
