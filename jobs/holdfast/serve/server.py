"""A whole query server: node, queries, console and metrics behind its HTTP address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from holdfast.config.settings import Settings
from holdfast.serve.cluster.members import Plan
from holdfast.serve.cluster.peer import PeerSettings
from holdfast.serve.console.app import PREFIX, Console
from holdfast.serve.console.jobs import Beside
from holdfast.serve.follow.catalog import Script
from holdfast.serve.http.meter import Meter
from holdfast.serve.http.request import App
from holdfast.serve.http.server import Listen, running
from holdfast.serve.metrics import metrics_app
from holdfast.serve.node import Node, opened
from holdfast.serve.query.engine import QueryEngine
from holdfast.serve.query.streams import Streams
from holdfast.transport.registry import registry_of

__all__ = ["answering"]


@asynccontextmanager
async def answering(
    scripts: Sequence[Script],
    settings: Settings,
    plan: Plan,
    listen: Listen,
    peers: PeerSettings,
    beside: Beside | None = None,
) -> AsyncGenerator[Node, None]:
    """Context of a running server; leaving it ends push queries first and closes the stores last.

    Args:
        beside: what the console shows beside the tables.

    Raises:
        InvalidStatement, InvalidConfig, Refused: see `Node` and `holdfast.serve.http.server`.
    """
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(opened(scripts, settings, plan, peers))
        serving = node.serving
        streams = Streams(settings.client(), schemas=registry_of(settings.registry.client()))
        engine = QueryEngine(serving.catalog, serving.reader, settings.serve, streams)
        stack.push_async_callback(engine.aclose)
        preparing = asyncio.create_task(asyncio.to_thread(engine.prepare))
        stack.push_async_callback(asyncio.wait, [preparing])
        console = await stack.enter_async_context(Console(serving, beside, listen.limits))
        meter = Meter()
        mounts: dict[str, App] = {PREFIX: console, "/metrics": metrics_app(serving.cluster, meter)}
        await stack.enter_async_context(running(serving, engine, listen, mounts, meter))
        yield node
