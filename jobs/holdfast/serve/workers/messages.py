"""The messages between a server and its workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.errors import QueryTooLarge

__all__ = ["Answer", "Call", "too_large"]


@dataclass(frozen=True)
class Call:
    """A module's function, its arguments, and the files of users' functions that it may call."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    files: tuple[str, ...]


@dataclass
class Answer:
    """The function's result or error; `last`: the worker ends after it."""

    made: Any = None
    error: Exception | None = None
    last: bool = False


def too_large(memory: int) -> QueryTooLarge:
    """The error of a worker that ran out of memory."""
    return QueryTooLarge(
        f"the query needs more memory than one query may use: {memory} bytes",
        cause="a function that makes large values, or an aggregation over many rows.",
        action="ask for fewer rows or smaller values, keep the result in a table "
        "(CREATE TABLE ... AS), or set serve.query.memory.bytes.",
    )
