"""Server-sent events of the console."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import orjson

from holdfast.serve.http.pump import Ended
from holdfast.serve.http.request import Request

__all__ = ["send_events"]

_LOG = logging.getLogger(__name__)


async def send_events(
    request: Request,
    values: AsyncGenerator[Mapping[str, Any], None],
    stop: asyncio.Future[Ended],
) -> None:
    """Send events until they end, fail, the client disconnects, or `stop` is done."""
    await request.start(200, "text/event-stream", {"x-accel-buffering": "no"})
    sending = asyncio.create_task(_send_all(request, values))
    leaving = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait((sending, leaving, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _send_all(request: Request, values: AsyncGenerator[Mapping[str, Any], None]) -> None:
    async with aclosing(values):
        try:
            async for value in values:
                await _send_event(request, value)
        except TimeoutError:
            return  # a client that reads nothing is disconnected
        except Exception as error:  # noqa: BLE001 - the answer has begun, so it ends with the error
            _LOG.info("live changes ended", exc_info=True)
            await _send_event(request, {"error": {"message": str(error)}})
    await request.send({"type": "http.response.body", "body": b""})


async def _send_event(request: Request, value: Mapping[str, Any]) -> None:
    body = b"data: " + orjson.dumps(value) + b"\n\n"
    async with asyncio.timeout(request.limits.send_s):
        await request.send({"type": "http.response.body", "body": body, "more_body": True})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
