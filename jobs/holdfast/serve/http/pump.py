"""Sends an answer batch by batch, and reads nothing ahead of a slow client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from enum import StrEnum

import pyarrow as pa

from holdfast.errors import HoldfastError, Overloaded, Retriable
from holdfast.serve.http.forms import Form
from holdfast.serve.http.problems import problem
from holdfast.serve.http.request import Limits
from holdfast.serve.queries import Answer

__all__ = ["Ended", "Running", "closed", "pump"]

_log = logging.getLogger(__name__)

_STOPPING = Retriable("the server stops.", action="resume at another server, or here in a moment.")


class Ended(StrEnum):
    """How an answer ended, for the audit log."""

    DONE = "done"
    FAILED = "failed"  # with an error in the answer
    LEFT = "left"  # the client disconnected
    SLOW = "slow"  # the client read nothing for too long
    CLOSED = "closed"  # by a request to close it
    STOPPED = "stopped"  # the server is stopping


class Running:
    """Owns the running queries: by id, their owner and how to stop them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stops: dict[str, tuple[str, asyncio.Future[Ended]]] = {}
        self._stopping = False
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self._stops)

    def new_id(self, kind: str) -> str:
        """An unguessable id, in lower case because SQL ignores case."""
        return f"{kind}_{secrets.token_hex(16)}"

    @contextlib.contextmanager
    def opened(self, query_id: str, owner: str) -> Iterator[asyncio.Future[Ended]]:
        """Register a query; the future is done when the query has to stop.

        Args:
            query_id: see `new_id`.
            owner: name of the query's client; no other client may close the query.

        Raises:
            Overloaded: too many queries are running.
            Retriable: the server is stopping.
        """
        if self._stopping:
            raise _STOPPING
        if len(self._stops) >= self._limit:
            raise Overloaded(
                f"{self._limit:,} queries are running, the most that this server allows at a time.",
                action="close some, wait, or use another server.",
            )
        stop = asyncio.get_running_loop().create_future()
        self._stops[query_id] = owner, stop
        self._none.clear()
        try:
            yield stop
        finally:
            self._stops.pop(query_id, None)
            if not self._stops:
                self._none.set()

    def close(self, query_id: str, owner: str) -> bool:
        """Stop a client's query; returns whether the client has such a query."""
        whose, stop = self._stops.get(query_id, ("", None))
        if stop is None or whose != owner:
            return False
        _stop(stop, Ended.CLOSED)
        return True

    async def end(self, timeout_s: float) -> None:
        """Stop all queries and refuse new ones, then wait until they have ended."""
        self._stopping = True
        for _, stop in self._stops.values():
            _stop(stop, Ended.STOPPED)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._none.wait(), timeout_s)


def _stop(stop: asyncio.Future[Ended], how: Ended) -> None:
    if not stop.done():
        stop.set_result(how)


async def pump(
    answer: Answer,
    form: Form,
    write: Callable[[bytes], Awaitable[None]],
    gone: Callable[[], Awaitable[None]],
    stop: asyncio.Future[Ended],
    limits: Limits,
) -> tuple[Ended, int]:
    """Write batches until they end, the client disconnects or is too slow, or `stop` is done.

    Returns how it ended, and the number of rows written.

    Args:
        answer: the answer; its head has been written.
        form: serialises the batches.
        write: writes one chunk; waits until there is room for it.
        gone: returns when the client has disconnected.
        stop: see `Running`.
        limits: time limits for writing and between heartbeats.
    """
    watch = asyncio.create_task(_watch(gone, stop))
    rows = 0
    try:
        async with contextlib.aclosing(_Batches(answer, stop, limits.heartbeat_s)) as batches:
            async for batch in batches:
                for chunk in [form.beat()] if batch is None else form.batch(answer, batch):
                    await _written(write, chunk, limits.send_s)
                rows += batch.num_rows if batch is not None else 0
        how = stop.result() if stop.done() else Ended.DONE
        if how in (Ended.DONE, Ended.CLOSED):
            await _written(write, form.end(answer), limits.send_s)
        elif how is Ended.STOPPED:
            await _written(write, form.failed(problem(_STOPPING)[1]), limits.send_s)
    except TimeoutError:
        return Ended.SLOW, rows
    except Exception as error:  # noqa: BLE001 - every error is sent to the client
        if not isinstance(error, HoldfastError):
            _log.exception("a query failed")
        await _written(write, form.failed(problem(error)[1]), limits.send_s)
        return Ended.FAILED, rows
    else:
        return how, rows
    finally:
        watch.cancel()


async def _watch(gone: Callable[[], Awaitable[None]], stop: asyncio.Future[Ended]) -> None:
    await gone()
    _stop(stop, Ended.LEFT)


async def _written(
    write: Callable[[bytes], Awaitable[None]], chunk: bytes, timeout_s: float
) -> None:
    if chunk:
        async with asyncio.timeout(timeout_s):
            await write(chunk)


class _Batches:
    """The answer's batches until `stop`; yields None after each `beat_s` without a batch."""

    def __init__(self, answer: Answer, stop: asyncio.Future[Ended], beat_s: float) -> None:
        self._batches = answer.batches
        self._stop = stop
        self._beat_s = beat_s
        self._next: asyncio.Task[pa.RecordBatch | None] | None = None

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch | None]:
        return self

    async def __anext__(self) -> pa.RecordBatch | None:
        if self._stop.done():
            raise StopAsyncIteration
        if self._next is None:
            self._next = asyncio.create_task(_following(self._batches))
        done, _ = await asyncio.wait(
            (self._next, self._stop), timeout=self._beat_s, return_when=asyncio.FIRST_COMPLETED
        )
        if self._next in done:
            batch, self._next = self._next.result(), None
            if batch is None:
                raise StopAsyncIteration
            return batch
        if done:
            raise StopAsyncIteration
        return None

    async def aclose(self) -> None:
        """End the query and cancel what it is waiting for."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait((self._next,))
            if not self._next.cancelled():
                self._next.exception()  # retrieve the error: nothing awaits the task any more
        await closed(self._batches)


async def _following(batches: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return await anext(batches, None)


async def closed(batches: AsyncIterator[pa.RecordBatch]) -> None:
    """Close the batches' source, if it is still open."""
    close = getattr(batches, "aclose", None)
    if close is not None:
        await close()
