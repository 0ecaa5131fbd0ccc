"""Work in a thread that ends at a deadline or when its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from holdfast.errors import QueryTimedOut
from holdfast.serve.workers.pool import Interrupt

__all__ = ["interruptible", "timed_out"]

T = TypeVar("T")


async def interruptible(pool: Executor, work: Callable[[Interrupt], T], deadline: float) -> T:
    """The result of the work; `deadline` is by the loop's clock.

    Raises:
        QueryTimedOut: the work was not done by then.
    """
    interrupt = Interrupt()
    loop = asyncio.get_running_loop()
    done = loop.run_in_executor(pool, work, interrupt)
    try:
        async with asyncio.timeout_at(deadline):
            return await asyncio.shield(done)
    except TimeoutError:
        _end(done, interrupt)
        raise timed_out() from None
    except asyncio.CancelledError:
        _end(done, interrupt)
        raise


def _end(done: asyncio.Future[T], interrupt: Interrupt) -> None:
    interrupt.ask()
    done.add_done_callback(_forget)
    done.cancel()  # cancels work that has not begun


def _forget(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()


def timed_out() -> QueryTimedOut:
    """The error of a query that took too long."""
    return QueryTimedOut(
        "the query did not end within the time allowed",
        action="ask for fewer rows (by key, with LIMIT), or allow more time (the request's "
        "timeout_ms, the server's serve.query.timeout.ms).",
    )
