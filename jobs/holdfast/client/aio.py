"""The client for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
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

__all__ = ["AsyncClient"]

T = TypeVar("T")


class AsyncClient:
    """A client of query servers for one event loop.

    It has the arguments and methods of `Client`.
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
        self._http = httpx.AsyncClient(
            verify=verify,
            timeout=timeout_s,
            headers=self._options.headers(),
            limits=UNLIMITED,
            trust_env=False,  # query servers do not redirect
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def query(
        self, sql: str, *, after: Result | None = None, properties: Mapping[str, Any] | None = None
    ) -> Result:
        """See `Client.query`."""
        return await self._asked(body_of(sql, after=after, properties=properties), JSON, result_of)

    async def arrow(
        self, sql: str, *, after: Result | None = None, properties: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """See `Client.arrow`."""
        return await self._asked(body_of(sql, after=after, properties=properties), ARROW, arrow_of)

    async def changes(
        self,
        sql: str,
        *,
        resume: str = "",
        properties: Mapping[str, Any] | None = None,
        state: Changes | None = None,
    ) -> AsyncGenerator[Row, None]:
        """See `Client.changes`."""
        found = Changes() if state is None else state
        found.token = resume or found.token
        tries = Tries(self._line, self._options.retry_s)
        while not found.ended:
            try:
                async with contextlib.aclosing(self._lines(sql, properties, found, tries)) as rows:
                    async for row in rows:
                        yield row
            except (Retriable, httpx.TransportError) as error:
                await asyncio.sleep(tries.failed(error))

    async def _lines(
        self, sql: str, properties: Mapping[str, Any] | None, found: Changes, tries: Tries
    ) -> AsyncGenerator[Row, None]:
        found.connected()
        body = body_of(sql, properties=properties, resume=found.token)
        async with self._http.stream(
            "POST", f"{tries.server}/v1/query", content=body, headers={"accept": NDJSON}
        ) as response:
            if response.status_code != 200:
                raise error_of(response.status_code, await response.aread())
            tries.went_well()
            async for line in response.aiter_lines():
                for row in found.line(line):
                    yield row
        found.check_end()

    async def tables(self) -> list[dict[str, Any]]:
        """See `Client.tables`."""
        return await self._asked(None, JSON, lambda data: list(json_text.loads(data)["tables"]))

    async def _asked(self, body: bytes | None, accept: str, read: Callable[[bytes], T]) -> T:
        tries = Tries(self._line, self._options.retry_s)
        method, path = ("GET", "/v1/tables") if body is None else ("POST", "/v1/query")
        while True:
            try:
                response = await self._http.request(
                    method, tries.server + path, content=body, headers={"accept": accept}
                )
                if response.status_code != 200:
                    raise error_of(response.status_code, response.content)
                return read(response.content)
            except (Retriable, httpx.TransportError) as error:
                await asyncio.sleep(tries.failed(error))
