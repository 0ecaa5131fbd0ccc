"""What a server and its workers tell each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.errors import QueryTooLarge

__all__ = ["Answer", "Call", "too_large"]


@dataclass(frozen=True)
class Call:
    """A function of a module, its arguments, and the files of users' functions it may call."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    files: tuple[str, ...]


@dataclass
class Answer:
    """What the function gave, or raised; `last`: the worker ends after it."""

    made: Any = None
    error: Exception | None = None
    last: bool = False


def too_large(memory: int) -> QueryTooLarge:
    """A worker's memory was not enough."""
    return QueryTooLarge(
        f"the query needs more memory than one may have: {memory} bytes",
        cause="a function that makes large values, or an aggregation over many rows.",
        action="ask for fewer rows or smaller values, keep the result in a table "
        "(CREATE TABLE ... AS), or set serve.query.memory.bytes.",
    )
