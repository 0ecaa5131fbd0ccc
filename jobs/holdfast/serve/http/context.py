"""Shared by the request handlers: the server's parts, and running a query."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from holdfast.errors import BadRequest
from holdfast.serve.contract import Serving
from holdfast.serve.http.forms import Form
from holdfast.serve.http.guard.access import ANYONE, Access, Client
from holdfast.serve.http.guard.audit import Audit
from holdfast.serve.http.guard.rates import Rates
from holdfast.serve.http.meter import Meter
from holdfast.serve.http.pump import Ended, Running, closed, pump
from holdfast.serve.http.request import Limits, Request
from holdfast.serve.queries import Answer, Ask, Queries

__all__ = ["Context", "Noted"]

_QUICK_S = 0.1  # after this time the handler watches for the client's disconnect


@dataclass
class Noted:
    """The outcome of a query, for the audit log and the meter."""

    ended: Ended = Ended.FAILED
    rows: int = 0
    answer: Answer | None = None


@dataclass(frozen=True)
class Context:
    """One server's parts, as its handlers see them."""

    serving: Serving
    queries: Queries
    access: Access
    rates: Rates
    audit: Audit
    meter: Meter
    limits: Limits
    running: Running

    def client(self, request: Request, headers: Iterable[tuple[bytes, bytes]]) -> Client:
        """The client of a request, which counts against its rate limit.

        Raises:
            BadRequest: no token, or an unknown one.
            Overloaded: too many requests.
        """
        try:
            client = self.access.client(headers)
        except BadRequest as error:
            path, place = request.scope["path"], request.address
            self.audit.refused(request.started_s, path, place, error.fact)
            raise
        self.rates.take(client.name if client is not ANYONE else request.address)
        return client

    @contextlib.asynccontextmanager
    async def noted(self, request: Request, client: Client, sql: str) -> AsyncIterator[Noted]:
        """Log a query whatever its outcome, and close its answer."""
        found, error = Noted(), ""
        try:
            yield found
        except asyncio.CancelledError:
            found.ended = Ended.LEFT
            raise
        except Exception as caught:
            error = type(caught).__name__
            raise
        finally:
            answer = found.answer
            self.audit.note(
                request.started_s, who=client.name, **{"from": request.address}, statement=sql,
                tables=answer.tables if answer else (), rows=found.rows, ended=found.ended,
                **({"error": error} if error else {}),
            )  # fmt: skip
            kind = "push" if answer and answer.push else "pull"
            seconds = time.monotonic() - request.started_s
            self.meter.ended(kind, error or found.ended, found.rows, seconds)
            if answer and answer.rows is None:
                await closed(answer.batches)

    async def answer(self, request: Request, client: Client, ask: Ask, form: Form) -> None:
        """Run a query and write its answer in a form.

        Raises:
            HoldfastError: the query is refused, or fails before its first row.
        """
        async with self.noted(request, client, ask.sql) as noted:
            answer = await self.asked(request, client, ask, noted)
            if answer is None:  # the client may have closed only its sending side
                left = "the client went away before it was answered."
                await request.fail(BadRequest(left, status=499))
                return
            if answer.rows is not None:
                noted.rows = len(answer.rows)
                await _at_once(request, answer, form)
                noted.ended = Ended.DONE
            else:
                noted.ended, noted.rows = await self._streamed(request, client, answer, form)

    async def asked(
        self, request: Request, client: Client, ask: Ask, noted: Noted
    ) -> Answer | None:
        """The answer to a query, None if the client disconnects first; both are recorded in
        `noted`.

        Raises:
            HoldfastError: the query is refused, or fails at once.
        """
        with _leaving(request) as left:
            try:
                noted.answer = await self._asked(client, ask)
            except asyncio.CancelledError:
                if not left.is_set():
                    raise
                noted.ended = Ended.LEFT
        return noted.answer

    async def _asked(self, client: Client, ask: Ask) -> Answer:
        """The answer to a query, with an id; for a pull query the first batch is ready.

        Raises:
            HoldfastError: the query is refused, or fails at once.
        """
        answer = await self.queries.ask(replace(ask, may_read=client.may_read))
        if not answer.query_id:
            answer.query_id = self.running.new_id("push" if answer.push else "pull")
        if not answer.push and answer.rows is None:
            answer.batches = await _begun(answer.batches)
        return answer

    async def _streamed(
        self, request: Request, client: Client, answer: Answer, form: Form
    ) -> tuple[Ended, int]:
        async def write(chunk: bytes) -> None:
            await request.send({"type": "http.response.body", "body": chunk, "more_body": True})

        async def gone() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        with self.running.opened(answer.query_id, client.name) as stop:
            await request.start(200, form.kind)
            await write(form.head(answer))
            how, rows = await pump(answer, form, write, gone, stop, self.limits)
        if how not in (Ended.LEFT, Ended.SLOW):
            await request.send({"type": "http.response.body", "body": b""})
        return how, rows


@contextlib.contextmanager
def _leaving(request: Request) -> Iterator[asyncio.Event]:
    """Cancel the task inside when the client disconnects; short ones are not watched."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    left, watches = asyncio.Event(), list[asyncio.Task[None]]()

    async def watch() -> None:
        while (await request.receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
            pass
        left.set()
        if task is not None:
            task.cancel()

    later = loop.call_later(_QUICK_S, lambda: watches.append(loop.create_task(watch())))
    try:
        yield left
    finally:
        later.cancel()
        for watching in watches:
            watching.cancel()


async def _at_once(request: Request, answer: Answer, form: Form) -> None:
    head = form.head(answer)
    chunks = [head, *form.batch(answer, None), form.end(answer)]
    if len(chunks) <= 3 and not form.separate:
        await request.respond(b"".join(chunks), kind=form.kind)
        return
    await request.start(200, form.kind)
    for chunk in filter(None, chunks):
        await request.send({"type": "http.response.body", "body": chunk, "more_body": True})
    await request.send({"type": "http.response.body", "body": b""})


async def _begun(batches: AsyncIterator[pa.RecordBatch]) -> AsyncGenerator[pa.RecordBatch, None]:
    """The same batches with the first one ready, so that immediate errors are raised here."""
    first = await anext(batches, None)
    return _all_of(first, batches)


async def _all_of(
    first: pa.RecordBatch | None, rest: AsyncIterator[pa.RecordBatch]
) -> AsyncGenerator[pa.RecordBatch, None]:
    try:
        if first is not None:
            yield first
            async for batch in rest:
                yield batch
    finally:
        await closed(rest)
