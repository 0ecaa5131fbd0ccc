"""A client of another query server over HTTP."""

from __future__ import annotations

import asyncio
import os
import secrets
import ssl
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from holdfast.errors import HoldfastError, NoHolder
from holdfast.serve.cluster import wire
from holdfast.serve.contract import Change, Member, PartitionState, Rows, WindowBounds
from holdfast.serve.follow.local import Terms

__all__ = ["Peer", "PeerSettings", "token_of_folder"]

_CONNECT_S = 1.0
_ANSWER_S = 5.0  # for a look-up; after that another holder is asked
_SILENT_S = 15.0  # for a stream: the peer sends at least an empty frame every few seconds
_TOGETHER_MAX = 500  # look-ups in one request
# An answer of another version raises one of the last three when it is decoded.
_BROKEN = (httpx.HTTPError, httpx.StreamError, OSError, ValueError, KeyError, TypeError)
_SENDING_MAX = 4  # concurrent requests of look-ups


@dataclass(frozen=True)
class PeerSettings:
    """How servers authenticate each other: a shared bearer token, and TLS."""

    token: str = ""
    tls: ssl.SSLContext | None = None


def token_of_folder(folder: Path) -> str:
    """The token of servers that share a folder; the first caller creates it."""
    path = folder / "peer-token"
    folder.mkdir(parents=True, exist_ok=True)
    mine = folder / f"peer-token-{secrets.token_hex(8)}"
    with os.fdopen(os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(32))
    try:
        os.link(mine, path)
    except FileExistsError:
        pass  # another server created it first
    finally:
        mine.unlink()
    return path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class _Question:
    """A pending look-up; `answer` resolves with its result."""

    fields: dict[str, Any]
    answer: asyncio.Future[Rows]


class Peer:
    """Owns the connections to one server.

    Look-ups that arrive while a request is in flight are batched into the next request.  Times in
    its answers are turned to this server's clock: the peer's may differ.
    """

    def __init__(self, server_id: str, address: str, settings: PeerSettings) -> None:
        self.server_id = server_id
        self.address = address
        headers = {"content-type": "application/msgpack"}
        if settings.token:
            headers["authorization"] = f"Bearer {settings.token}"
        self._http = httpx.AsyncClient(
            base_url=address,
            headers=headers,
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
            verify=settings.tls if settings.tls is not None else True,
            trust_env=False,  # servers of one cluster are never behind a proxy
        )
        self._ahead_ms = 0  # by how much the peer's clock was ahead of ours when it last told
        self._waiting: list[_Question] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def health(self) -> Member:
        """The peer's own state.

        Raises:
            NoHolder: it does not answer.
        """
        with self._asking():
            answer = await self._http.get("/internal/health")
            told, now_ms = wire.to_member(self._read(answer)), int(time.time() * 1000)
        self._ahead_ms = told.seen_ms - now_ms
        held = (replace(holding, state=self._here(holding.state)) for holding in told.holdings)
        return replace(told, seen_ms=now_ms, holdings=tuple(held))

    async def get(
        self, table: str, asked: Mapping[int, Sequence[bytes]], within: WindowBounds, terms: Terms
    ) -> Rows:
        """See `LocalReader.get`.

        Raises:
            NoHolder: it does not answer, or does not hold it.
            StoreBehind: its store is too far behind.
        """
        fields = {"table": table, "asked": dict(asked), "within": asdict(within), **asdict(terms)}
        answer: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Question(fields, answer))
        if len(self._sending) < _SENDING_MAX:
            task = asyncio.create_task(self._send())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return await answer

    async def _send(self) -> None:
        while self._waiting:
            questions, self._waiting = self._waiting[:_TOGETHER_MAX], self._waiting[_TOGETHER_MAX:]
            try:
                with self._asking():
                    content = wire.pack([question.fields for question in questions])
                    answer = await self._http.post("/internal/get", content=content)
                    for question, fields in zip(questions, self._read(answer), strict=True):
                        self._settle(question.answer, fields)
            except HoldfastError as error:
                for question in questions:
                    self._settle(question.answer, wire.from_error(error))

    async def scan(
        self,
        table: str,
        partition: int,
        bounds: tuple[bytes, bytes | None],
        limit: int | None,
        terms: Terms,
    ) -> AsyncGenerator[Rows, None]:
        """See `LocalReader.scan`."""
        fields = {"table": table, "partition": partition, "bounds": bounds, "limit": limit}
        async with self._stream("/internal/scan", {**fields, **asdict(terms)}) as values:
            async for value in values:
                yield self._rows(value)

    async def changes(
        self, table: str, partition: int, since: int | None, *, snapshot: bool, old: bool = False
    ) -> AsyncGenerator[Change, None]:
        """See `LocalReader.changes`."""
        fields = {"table": table, "partition": partition, "since": since}
        fields |= {"snapshot": snapshot, "old": old}
        async with self._stream("/internal/changes", fields) as values:
            async for value in values:
                yield wire.to_change(value)

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    def _rows(self, fields: Any) -> Rows:
        rows = wire.to_rows(fields)
        return replace(rows, states={p: self._here(state) for p, state in rows.states.items()})

    def _here(self, state: PartitionState) -> PartitionState:
        known = state.checked_ms > 0
        return replace(state, checked_ms=state.checked_ms - self._ahead_ms) if known else state

    def _settle(self, answer: asyncio.Future[Rows], fields: Any) -> None:
        if answer.done():  # the caller no longer waits
            return
        error = wire.error_of(fields)
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(self._rows(fields))

    @asynccontextmanager
    async def _stream(
        self, path: str, fields: dict[str, Any]
    ) -> AsyncGenerator[AsyncGenerator[Any, None], None]:
        """The values of a streamed answer; raises an error that is among them."""
        silent = httpx.Timeout(_SILENT_S, connect=_CONNECT_S)
        with self._asking():
            async with self._http.stream(
                "POST", path, content=wire.pack(fields), timeout=silent
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    await answer.aread()
                    self._read(answer)
                async with aclosing(_values(answer)) as values:
                    yield values

    def _read(self, answer: httpx.Response) -> Any:
        if answer.status_code != httpx.codes.OK:
            raise self._silent(f"it answers with HTTP status {answer.status_code}")
        return wire.unpack(answer.content)

    @contextmanager
    def _asking(self) -> Generator[None, None, None]:
        try:
            yield
        except _BROKEN as error:
            raise self._silent(str(error) or type(error).__name__) from error

    def _silent(self, why: str) -> NoHolder:
        return NoHolder(
            f"Server {self.server_id} at {self.address} does not answer as it should: {why}.",
            cause="it is starting, stopping or cut off, or has another token or certificate.",
            action="nothing, if it comes back; else look at its log.",
        )


async def _values(answer: httpx.Response) -> AsyncGenerator[Any, None]:
    async with aclosing(wire.frames(answer.aiter_raw())) as values:
        async for value in values:
            error = wire.error_of(value)
            if error is not None:
                raise error
            yield value
