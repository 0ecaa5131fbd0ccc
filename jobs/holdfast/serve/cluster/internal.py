"""The ASGI application for requests of other query servers, under `/internal/`.

The application that mounts it must let in only other servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any

from holdfast.errors import HoldfastError, Refused
from holdfast.serve.cluster import wire
from holdfast.serve.cluster.members import Members
from holdfast.serve.contract import WindowBounds
from holdfast.serve.follow.local import LocalReader, Terms

__all__ = ["Internal"]

_ALIVE_S = 5.0
_BODY_MAX = 64 << 20
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_Values = AsyncGenerator[dict[str, Any], None]


class Internal:
    """Answers from this server's own stores only; it never forwards a request."""

    def __init__(self, local: LocalReader, members: Members) -> None:
        self._local = local
        self._members = members

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; the paths are `health`, `get`, `scan` and `changes`."""
        path = scope["path"].removeprefix("/internal/")
        if path == "health":
            await _whole(send, wire.pack(wire.from_member(self._members.myself())))
            return
        try:
            asked = wire.unpack(await _body(receive))
            if path == "get":
                await _whole(send, wire.pack([await self._get(each) for each in asked]))
                return
            values = self._values(path, asked)
        except (HoldfastError, ValueError, KeyError, TypeError) as error:
            await _whole(send, str(error).encode(), status=400)
            return
        await _stream(receive, send, values)

    async def _get(self, asked: dict[str, Any]) -> dict[str, Any]:
        within = WindowBounds(**asked["within"])
        try:
            found = await self._local.get(asked["table"], asked["asked"], within, _terms(asked))
        except HoldfastError as error:
            return wire.from_error(error)
        return wire.from_rows(found)

    def _values(self, path: str, asked: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        if path == "scan":
            return self._scan(asked)
        if path == "changes":
            return self._changes(asked)
        raise Refused(f"There is nothing at /internal/{path[:50]}.")

    async def _scan(self, asked: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        start, end = asked["bounds"]
        rows = self._local.scan(
            asked["table"], asked["partition"], (start, end), asked["limit"], _terms(asked)
        )
        async with aclosing(rows):
            async for part in rows:
                yield wire.from_rows(part)

    async def _changes(self, asked: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        changes = self._local.changes(
            asked["table"],
            asked["partition"],
            asked["since"],
            snapshot=asked["snapshot"],
            old=asked.get("old", True),  # older servers do not send it, and expect old rows
        )
        async with aclosing(changes):
            async for change in changes:
                yield wire.from_change(change)


def _terms(asked: dict[str, Any]) -> Terms:
    return Terms(asked["max_lag"], asked["at_least"])


async def _body(receive: Receive) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ValueError("the request ended before its body")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > _BODY_MAX:
            raise ValueError(f"more than {_BODY_MAX} bytes")
        if not message.get("more_body"):
            return b"".join(parts)


async def _whole(send: Send, body: bytes, status: int = 200) -> None:
    await _start(send, status)
    await send({"type": "http.response.body", "body": body})


async def _start(send: Send, status: int = 200) -> None:
    headers = [(b"content-type", b"application/msgpack")]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _stream(receive: Receive, send: Send, values: _Values) -> None:
    """Send values until they end or the peer is gone; empty frames show that the stream lives."""
    await _start(send)
    gone = asyncio.create_task(_gone(receive))
    following = asyncio.create_task(_next(values))
    try:
        while not gone.done():
            await asyncio.wait((following, gone), timeout=_ALIVE_S, return_when="FIRST_COMPLETED")
            data = wire.ALIVE
            if following.done():
                value = following.result()
                if value is None:
                    break
                data = wire.frame(value)
                following = asyncio.create_task(_next(values))
            if not gone.done():
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        for task in (gone, following):
            task.cancel()
        await asyncio.gather(gone, following, return_exceptions=True)
        await values.aclose()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _next(values: _Values) -> dict[str, Any] | None:
    """The next value, or None at the end; an error is the last value."""
    try:
        return await anext(values, None)
    except HoldfastError as error:
        return wire.from_error(error)
