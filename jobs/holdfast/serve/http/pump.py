"""Carries an answer to its reader, batch by batch: nothing is read ahead of a slow one."""

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
    FAILED = "failed"  # with an error that was written
    LEFT = "left"  # the client went away
    SLOW = "slow"  # it took nothing for too long
    CLOSED = "closed"  # by a request of its own
    STOPPED = "stopped"  # the server stops


class Running:
    """Owns the queries whose answers are under way: by id, whose they are, how to stop each."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stops: dict[str, tuple[str, asyncio.Future[Ended]]] = {}
        self._stopping = False
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self._stops)

    def new_id(self, kind: str) -> str:
        """An id that nobody guesses; lower case, for SQL does not tell cases apart."""
        return f"{kind}_{secrets.token_hex(16)}"

    @contextlib.contextmanager
    def opened(self, query_id: str, owner: str) -> Iterator[asyncio.Future[Ended]]:
        """What is done when the query has to stop.

        Args:
            query_id: see `new_id`.
            owner: name of the client that asked; nobody else may close it.

        Raises:
            Overloaded: too many queries run.
            Retriable: the server stops.
        """
        if self._stopping:
            raise _STOPPING
        if len(self._stops) >= self._limit:
            raise Overloaded(
                f"{self._limit:,} queries run, the most this server answers at a time.",
                action="close some, wait, or ask another server.",
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
        """Whether the client has such a query; it is told to stop."""
        whose, stop = self._stops.get(query_id, ("", None))
        if stop is None or whose != owner:
            return False
        _stop(stop, Ended.CLOSED)
        return True

    async def end(self, timeout_s: float) -> None:
        """The server stops: every query is told to, no other begins; waits until they have."""
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
    """Writes batches until they end, the reader leaves or is too slow, or `stop` is done.

    Returns how it ended, and how many rows were written.

    Args:
        answer: its head is written already.
        form: how its batches are written.
        write: one chunk; it waits until there is room for it.
        gone: returns when the reader has left.
        stop: see `Running`.
        limits: for writing, and between heartbeats.
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
    except Exception as error:  # noqa: BLE001 - whatever it is, the reader is told
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
    """The answer's batches until `stop`; None whenever there was none for `beat_s`."""

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
        """Ends the query; what it still waits for is given up."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait((self._next,))
            if not self._next.cancelled():
                self._next.exception()  # seen: nobody waits for it any more
        await closed(self._batches)


async def _following(batches: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return await anext(batches, None)


async def closed(batches: AsyncIterator[pa.RecordBatch]) -> None:
    """Ends what the batches are read from, if it has not ended."""
    close = getattr(batches, "aclose", None)
    if close is not None:
        await close()
