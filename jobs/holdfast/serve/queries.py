"""The interface of the query layer to the HTTP layer: one statement in, one answer out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, TypeVarTuple

import orjson
import pyarrow as pa

from holdfast.serve.contract import Result

__all__ = ["GONE", "LIMIT_REACHED", "QUERY_COMPLETED", "Answer", "Ask", "Queries", "gone_rows"]

LIMIT_REACHED, QUERY_COMPLETED = "Limit Reached", "Query Completed"
T = TypeVar("T")
Args = TypeVarTuple("Args")
# Key in the metadata of a batch's schema: a JSON list of the places of rows that are gone.
GONE = b"gone"


def _anyone(table: str) -> bool:
    return bool(table)


@dataclass(frozen=True)
class Ask:
    """One SELECT as a caller sent it, and its limits.

    Attributes:
        sql: the statement, with or without its semicolon.
        properties: ksqlDB's, such as `auto.offset.reset`, `ksql.query.pull.table.scan.enabled`
            and `max.allowed.offset.lag`; unknown ones are refused or ignored as ksqlDB does.
        positions: wait until the answering stores reach these (partition -> changelog offset).
        wait_s: how long to wait for `positions`.
        timeout_s: a pull query that takes longer fails.
        token: resume a push query after this `token` of an earlier answer.
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
    """A query's result with its metadata.

    Attributes:
        push: whether it is a push query, which ends at its LIMIT or when it is closed.
        tables: resolved names of the relations that are read, for the audit log.
        rows: all rows of a small result (a look-up by key), with values as from
            `RecordBatch.to_pylist`, in the order of `columns`; `batches` is then empty and `states`
            complete.
        committed_ms: for a push query, the broker time of the last change read; 0 for contents.
        keys: names of the key columns in a pull query over a table; as in ksqlDB, streams and push
            queries have none.
        final_message: ksqlDB's message after the rows in /query; empty for tables.

    A push query also returns rows that have left its result, because they were removed or no longer
        pass WHERE.  Only their key columns and window bounds are set, all other columns are null;
        `gone_rows` finds them in a batch.
    """

    push: bool = False
    tables: tuple[str, ...] = ()
    rows: Sequence[Sequence[Any]] | None = None
    committed_ms: int = 0
    keys: frozenset[str] = frozenset()
    final_message: str = ""


def gone_rows(batch: pa.RecordBatch) -> list[int]:
    """The places, from 0, of a batch's rows that have left the result of its push query."""
    told = (batch.schema.metadata or {}).get(GONE)
    gone: list[int] = orjson.loads(told) if told else []
    return gone


class Queries(Protocol):
    """Pull and push queries over the served tables."""

    async def ask(self, ask: Ask) -> Answer:
        """Plans and starts a query; close `answer.batches` (aclose) to end it early.

        `answer.token` and `answer.states` describe the position after the batches read so far.

        Raises:
            InvalidStatement: the statement is wrong, or not a SELECT.
            NotAllowed: `may_read` returned False.
            Refused: the query exceeds a limit.
            Retriable: there is no holder, or it is too far behind; a retry may succeed.
        """

    async def work(self, text: str, function: Callable[[*Args], T], *args: *Args) -> T:
        """The result of a module's function for a client's text, from a process that can be killed.

        Raises:
            QueryTimedOut, QueryTooLarge: it takes too long, or too much memory.
            Exception: what the function raises.
        """
