"""Pull and push queries over served tables: what the HTTP layer asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from holdfast.serve.contract import Catalog, Reader
from holdfast.serve.queries import Answer, Ask
from holdfast.serve.query.limits import Limits, options_of
from holdfast.serve.query.plans import Plans
from holdfast.serve.query.pull import Pull
from holdfast.serve.query.push import Push

__all__ = ["QueryEngine"]


class QueryEngine:
    """Plans and runs the queries of a server; `holdfast.serve.queries.Queries`.

    Args:
        catalog: the tables, asked anew for each query.
        reader: their rows.
        limits: what one query may cost.
    """

    def __init__(self, catalog: Catalog, reader: Reader, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="query")
        self._plans = Plans(catalog, limits)
        self._pull = Pull(reader, self._pool, limits)
        self._push = Push(reader, self._pool, limits)

    async def ask(self, ask: Ask) -> Answer:
        """See `Queries.ask`."""
        options = options_of(ask.properties)
        plan, access = self._plans.find(ask.sql, options, ask.may_read)
        if access is None:
            return await self._push.start(plan, ask, options)
        return await self._pull.run(plan, access, ask, options)

    async def aclose(self) -> None:
        """Stops what push queries share, and the threads.  Running queries end with an error."""
        await self._push.aclose()
        self._pool.shutdown(wait=False, cancel_futures=True)
