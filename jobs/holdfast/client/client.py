"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from holdfast.client import json_text
from holdfast.client.protocol import (
    ARROW,
    JSON,
    NDJSON,
    UNLIMITED,
    Changes,
    Options,
    Tries,
    arrow_of,
    body_of,
    error_of,
    options_of,
    result_of,
)
from holdfast.client.results import Result, Row
from holdfast.errors import Retriable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Client"]

T = TypeVar("T")


class Client:
    """A client of query servers; thread-safe.

    Args:
        servers: addresses, `http(s)://host:port`; any server answers for every key.
        token: bearer token.
        verify: True, or a TLS context with CA certificates and a client certificate.
        timeout_s: limit until a server begins to answer, and between parts of an answer.
        retry_s: how long other servers are tried before a query fails.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        token: str = "",
        verify: SSLContext | bool = True,
        timeout_s: float = 30.0,
        retry_s: float = 30.0,
    ) -> None:
        self._options: Options = options_of(servers, token, timeout_s, retry_s)
        self._line = list(self._options.servers)
        self._http = httpx.Client(
            verify=verify,
            timeout=timeout_s,
            headers=self._options.headers(),
            limits=UNLIMITED,
            trust_env=False,  # query servers do not redirect
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def query(
        self, sql: str, *, after: Result | None = None, properties: Mapping[str, Any] | None = None
    ) -> Result:
        """A pull query's rows.

        Args:
            sql: one SELECT.
            after: an earlier result; this query sees at least as much of each state partition.
            properties: ksqlDB's, such as `ksql.query.pull.table.scan.enabled`.

        Raises:
            InvalidStatement: the statement is wrong.
            NotAllowed: the token may not read this table.
            Retriable: no server answered within `retry_s`.
        """
        return self._asked(body_of(sql, after=after, properties=properties), JSON, result_of)

    def arrow(
        self, sql: str, *, after: Result | None = None, properties: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """A pull query's result as an Arrow table.  Raises as `query`."""
        return self._asked(body_of(sql, after=after, properties=properties), ARROW, arrow_of)

    def changes(
        self,
        sql: str,
        *,
        resume: str = "",
        properties: Mapping[str, Any] | None = None,
        state: Changes | None = None,
    ) -> Iterator[Row]:
        """A push query's rows, until its LIMIT or without end; resumes after lost connections.

        Args:
            sql: one SELECT with EMIT CHANGES.
            resume: resume after this token of an earlier iteration.
            properties: such as `auto.offset.reset`: `earliest` gives the table's contents first,
                one state partition at a time (buffered in memory until it is complete).
            state: its `token` resumes after the rows given so far; within a batch of rows that
                changed together, after the previous batch.

        Raises:
            PositionLost: the changes after the token are no longer available.
            HoldfastError: as `query`.
        """
        found = Changes() if state is None else state
        found.token = resume or found.token
        tries = Tries(self._line, self._options.retry_s)
        while not found.ended:
            try:
                yield from self._lines(sql, properties, found, tries)
            except (Retriable, httpx.TransportError) as error:
                time.sleep(tries.failed(error))

    def _lines(
        self, sql: str, properties: Mapping[str, Any] | None, found: Changes, tries: Tries
    ) -> Iterator[Row]:
        found.connected()
        body = body_of(sql, properties=properties, resume=found.token)
        with self._http.stream(
            "POST", f"{tries.server}/v1/query", content=body, headers={"accept": NDJSON}
        ) as response:
            if response.status_code != 200:
                raise error_of(response.status_code, response.read())
            tries.went_well()
            for line in response.iter_lines():
                yield from found.line(line)
        found.check_end()

    def tables(self) -> list[dict[str, Any]]:
        """The tables that may be read: name, key, columns, partitions.  Raises as `query`."""
        return self._asked(None, JSON, lambda data: list(json_text.loads(data)["tables"]))

    def _asked(self, body: bytes | None, accept: str, read: Callable[[bytes], T]) -> T:
        tries = Tries(self._line, self._options.retry_s)
        method, path = ("GET", "/v1/tables") if body is None else ("POST", "/v1/query")
        while True:
            try:
                response = self._http.request(
                    method, tries.server + path, content=body, headers={"accept": accept}
                )
                if response.status_code != 200:
                    raise error_of(response.status_code, response.content)
                return read(response.content)
            except (Retriable, httpx.TransportError) as error:
                time.sleep(tries.failed(error))
