"""/v1/ws: a query over a WebSocket.

The client is authenticated before the socket is accepted, by the same headers or cookie as any
request.  The first message is the query, like the body of POST /v1/query.  Events are sent as
messages; closing the socket ends the query.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator

import orjson

from holdfast.errors import BadRequest, HoldfastError, Overloaded
from holdfast.serve.http.context import Context
from holdfast.serve.http.forms import EventsForm
from holdfast.serve.http.guard.access import Client
from holdfast.serve.http.guard.inflow import limited_inflow
from holdfast.serve.http.problems import problem
from holdfast.serve.http.pump import Ended, pump
from holdfast.serve.http.request import Request, plain_object
from holdfast.serve.http.v1 import ask_of
from holdfast.serve.queries import Answer, Ask

__all__ = ["Sockets"]

_log = logging.getLogger(__name__)

_PATH = "/v1/ws"
_NORMAL, _FAILED = 1000, 1011


class Sockets:
    """Owns the number of sockets of each client."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open: Counter[str] = Counter()

    async def serve(self, request: Request) -> None:
        """Serve a WebSocket from the handshake to the close.

        Raises:
            HoldfastError: the handshake is refused; no response has begun.
        """
        if request.scope["path"] != _PATH:
            raise BadRequest(f"WebSockets are accepted at {_PATH} only.", status=404)
        client = self._context.client(request, request.scope["headers"])
        with self._counted(client):
            if (await request.receive())["type"] != "websocket.connect":
                return
            async with limited_inflow(request.scope, self._context.limits.socket_bytes):
                await request.send({"type": "websocket.accept"})
                request.status = 101  # from here on errors are sent as messages
                await self._accepted(request, client)

    @contextlib.contextmanager
    def _counted(self, client: Client) -> Iterator[None]:
        limit = self._context.limits.sockets
        if self._open[client.name] >= limit:
            raise Overloaded(
                f"{client.name} has {limit:,} WebSockets open, the most that one client may have.",
                action="close some, or ask over HTTP.",
            )
        self._open[client.name] += 1
        try:
            yield
        finally:
            self._open[client.name] -= 1
            if not self._open[client.name]:
                del self._open[client.name]

    async def _accepted(self, request: Request, client: Client) -> None:
        try:
            await self._answer(request, client, await self._asked(request))
        except _Left:
            return
        except Exception as error:  # noqa: BLE001 - every error is sent to the client
            if not isinstance(error, HoldfastError):
                _log.exception("a socket's query failed")
            with contextlib.suppress(Exception):  # the socket may be closed
                await self._tell(request, orjson.dumps({"error": problem(error)[1]}))
                await self._close(request, _FAILED)

    async def _asked(self, request: Request) -> Ask:
        try:
            async with asyncio.timeout(self._context.limits.request_s):
                message = await request.receive()
        except TimeoutError:
            raise BadRequest("no query came over the socket in time.", status=408) from None
        if message["type"] == "websocket.disconnect":
            raise _Left
        data: str | bytes = message.get("text") or message.get("bytes") or b""
        if len(data) > self._context.limits.request_bytes:
            raise BadRequest("the message is too large.", status=413)
        body, limits = plain_object(data), self._context.limits
        return await ask_of(self._context.queries, body, limits.timeout_s)

    async def _answer(self, request: Request, client: Client, ask: Ask) -> None:
        async with self._context.noted(request, client, ask.sql) as noted:
            answer = await self._context.asked(request, client, ask, noted)
            if answer is None:
                return
            noted.ended, noted.rows = await self._carried(request, client, answer)
        if noted.ended not in (Ended.LEFT, Ended.SLOW):
            await self._close(request, _FAILED if noted.ended is Ended.FAILED else _NORMAL)

    async def _carried(self, request: Request, client: Client, answer: Answer) -> tuple[Ended, int]:
        form = EventsForm(messages=True)

        async def write(chunk: bytes) -> None:
            await self._tell(request, chunk)

        async def gone() -> None:
            while (await request.receive())["type"] != "websocket.disconnect":
                pass

        await write(form.head(answer))
        if answer.rows is not None:
            for chunk in (*form.batch(answer, None), form.end(answer)):
                await write(chunk)
            return Ended.DONE, len(answer.rows)
        with self._context.running.opened(answer.query_id, client.name) as stop:
            return await pump(answer, form, write, gone, stop, self._context.limits)

    @staticmethod
    async def _tell(request: Request, message: bytes) -> None:
        await request.send({"type": "websocket.send", "text": message.decode()})

    @staticmethod
    async def _close(request: Request, code: int) -> None:
        await request.send({"type": "websocket.close", "code": code})


class _Left(Exception):
    """The socket was closed before it sent a query."""
