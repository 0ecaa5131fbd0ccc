"""What the HTTP layer asks of the query layer: one statement in, one answer out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import orjson
import pyarrow as pa

from holdfast.serve.contract import Result

__all__ = ["GONE", "LIMIT_REACHED", "QUERY_COMPLETED", "Answer", "Ask", "Queries", "gone_rows"]

LIMIT_REACHED, QUERY_COMPLETED = "Limit Reached", "Query Completed"
T = TypeVar("T")
GONE = b"gone"  # in the metadata of a batch's schema: the places of rows that are gone, in JSON


def _anyone(table: str) -> bool:
    return bool(table)


@dataclass(frozen=True)
class Ask:
    """One SELECT as a caller sent it, and what it may cost.

    Attributes:
        sql: the statement, with or without its semicolon.
        properties: ksqlDB's, such as `auto.offset.reset`, `ksql.query.pull.table.scan.enabled`
            and `max.allowed.offset.lag`; unknown ones are refused or ignored as ksqlDB does.
        positions: wait until the stores that answer are there (partition -> changelog offset).
        wait_s: how long to wait for `positions`.
        timeout_s: a pull query that takes longer is ended with an error.
        token: resume a push query from here (an earlier answer's `token`).
        may_read: whether the caller may read the table of this resolved name; a query of
            another table raises `NotAllowed` before anything is read.
    """

    sql: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    positions: Mapping[int, int] | None = None
    wait_s: float = 10.0
    timeout_s: float = 30.0
    token: str = ""
    may_read: Callable[[str], bool] = _anyone


@dataclass
class Answer(Result):
    """A result that says what it is.

    Attributes:
        push: it goes on until its LIMIT or until it is closed.
        tables: resolved names of what is read, for the audit log.
        rows: all of them when they are few (a look-up by key), as `RecordBatch.to_pylist` has
            values, in the order of `columns`; `batches` is then empty and `states` complete.
        committed_ms: of a push query, when the broker had what was read last; 0 of contents.
        keys: names of columns that are keys, of a pull query over a table; ksqlDB has none in
            answers of streams and of push queries.
        final_message: what ksqlDB says in /query behind the rows; empty of a table's.

    A push query also tells of rows that have left its result: those that were removed, or do not
    pass WHERE any more.  They have their key columns and window bounds, all else is null;
    `gone_rows` says which of a batch they are.
    """

    push: bool = False
    tables: tuple[str, ...] = ()
    rows: Sequence[Sequence[Any]] | None = None
    committed_ms: int = 0
    keys: frozenset[str] = frozenset()
    final_message: str = ""


def gone_rows(batch: pa.RecordBatch) -> list[int]:
    """Which rows of a batch have left the result of its push query, by their place from 0."""
    told = (batch.schema.metadata or {}).get(GONE)
    gone: list[int] = orjson.loads(told) if told else []
    return gone


class Queries(Protocol):
    """Pull and push queries over the served tables."""

    async def ask(self, ask: Ask) -> Answer:
        """Plans and starts a query; close `answer.batches` (aclose) to end it early.

        `answer.token` and `answer.states` are those after the batches read so far.

        Raises:
            InvalidStatement: the statement is wrong, or is no SELECT.
            NotAllowed: `may_read` says no.
            Refused: it asks for more than is allowed.
            Retriable: no holder, or one too far behind; soon it may work.
        """

    async def work(self, text: str, function: Callable[..., T], *args: object) -> T:
        """What a function of a module makes of a client's text, in a process that can be killed.

        Raises:
            QueryTimedOut, QueryTooLarge: it takes too long, or too much memory.
            Exception: what the function raises.
        """
