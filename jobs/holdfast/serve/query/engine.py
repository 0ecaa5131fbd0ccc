"""Pull and push queries over served tables, for the HTTP layer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from holdfast.config.settings import ServeSettings
from holdfast.serve.contract import Catalog, Reader, ServedTable
from holdfast.serve.queries import Answer, Ask
from holdfast.serve.query.access import Access
from holdfast.serve.query.interruptible import interruptible
from holdfast.serve.query.options import Options, options_of
from holdfast.serve.query.plans import TEXT_MAX, NotOpenError, Plan, Plans
from holdfast.serve.query.pull import Pull
from holdfast.serve.query.push import Push
from holdfast.serve.query.streams import Streams
from holdfast.serve.workers.pool import Workers

__all__ = ["QueryEngine"]

T = TypeVar("T")
Args = TypeVarTuple("Args")


class QueryEngine:
    """Plans and runs the queries of a server; implements `holdfast.serve.queries.Queries`.

    Args:
        catalog: the tables, read anew for each query.
        reader: reads their rows.
        limits: limits of one query.
        streams: reads streams from their topics; without it only tables can be read.
    """

    def __init__(
        self,
        catalog: Catalog,
        reader: Reader,
        limits: ServeSettings | None = None,
        streams: Streams | None = None,
    ) -> None:
        self._limits = limits = limits or ServeSettings()
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="query")
        # Long statements have a thread of their own, so that short ones do not wait for them.
        self._planning = ThreadPoolExecutor(limits.threads, thread_name_prefix="plan")
        self._planning_long = ThreadPoolExecutor(1, thread_name_prefix="plan-long")
        self._workers = Workers(limits.threads + 1, limits.memory_bytes, limits.timeout_ms / 1_000)
        self._catalog = catalog
        self._streams = streams
        self._plans = Plans(catalog, limits, self._workers, streams)
        self._pull = Pull(reader, self._pool, limits)
        self._push = Push(reader, self._pool, limits, self._partitions)
        self._of_streams = None
        if streams is not None:
            push = Push(streams, self._pool, limits, streams.partitions)
            self._of_streams = Pull(streams, self._pool, limits), push

    async def ask(self, ask: Ask) -> Answer:
        """See `Queries.ask`."""
        options = options_of(ask.properties)
        try:
            plan, access = await self._find(ask, options)
        except NotOpenError as unknown:
            assert self._streams is not None
            await self._streams.open(unknown.source)
            plan, access = await self._find(ask, options)
        pull, push = self._pull, self._push
        if plan.stream and self._of_streams is not None:
            pull, push = self._of_streams
        if access is None:
            return await push.start(plan, ask, options)
        return await pull.run(plan, access, ask, options)

    async def _partitions(self, table: ServedTable) -> int:
        return self._catalog.tables().get(table.name, table).partitions

    async def _find(self, ask: Ask, options: Options) -> tuple[Plan, Access | None]:
        kept = self._plans.kept(ask.sql, options, ask.may_read)
        if kept is not None:
            return kept
        return await interruptible(
            self._lane(ask.sql),
            lambda interrupt: self._plans.made(ask.sql, options, ask.may_read, interrupt),
            asyncio.get_running_loop().time() + ask.timeout_s,
        )

    async def work(self, text: str, function: Callable[[*Args], T], *args: *Args) -> T:
        """See `Queries.work`."""
        seconds = self._limits.planning_ms / 1_000
        return await interruptible(
            self._lane(text),
            lambda i: self._workers.call(function, *args, interrupt=i, timeout_s=seconds),
            asyncio.get_running_loop().time() + self._limits.timeout_ms / 1_000,
        )

    def _lane(self, text: str) -> ThreadPoolExecutor:
        return self._planning if len(text) <= TEXT_MAX else self._planning_long

    def prepare(self) -> None:
        """Start workers, which takes a second, so that no query has to wait for one."""
        self._workers.prepare()

    async def aclose(self) -> None:
        """Stop tails and threads.  Running queries fail."""
        await self._push.aclose()
        if self._of_streams is not None:
            await self._of_streams[1].aclose()
        for pool in (self._pool, self._planning, self._planning_long):
            pool.shutdown(wait=False, cancel_futures=True)
        self._workers.close()
