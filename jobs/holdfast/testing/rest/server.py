"""A query server over the tables of one case: the server's own parts, except its readers.

Statements, queries, readers, forms and HTTP are those of `holdfast serve`; its stores are in memory
and hold the results of the case's statements.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from holdfast.config.settings import Settings
from holdfast.errors import InvalidTestCase
from holdfast.serve.cluster.internal import Internal
from holdfast.serve.cluster.members import Members, Plan
from holdfast.serve.cluster.peer import PeerSettings
from holdfast.serve.cluster.reader import ClusterReader
from holdfast.serve.contract import Serving
from holdfast.serve.follow.catalog import Script, ScriptCatalog
from holdfast.serve.follow.local import LocalReader
from holdfast.serve.follow.log import Log
from holdfast.serve.http.server import Listen, running
from holdfast.serve.query.engine import QueryEngine
from holdfast.serve.query.streams import Streams
from holdfast.testing.json_text import loads
from holdfast.testing.phases import Life
from holdfast.testing.rest.matching import Answered
from holdfast.testing.rest.stores import SERVER, MemoryTopics, standby_of
from holdfast.testing.topics import Topics
from holdfast.types.statements.topology import Topology

__all__ = ["AskedServer", "asked_server"]

_HOST = "127.0.0.1"
_TIMEOUT_S = 10.0  # a push query that has read everything would wait for ever
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # httpx would read certificates, slowly
_STARTING = threading.Lock()  # cases run concurrently, and two servers must not take one port
_SETTINGS = Settings("holdfast-test", bootstrap_servers="none:9")  # no client connects to it


class AskedServer:
    """A running server and its client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def query(self, sql: str, properties: Mapping[str, Any]) -> Answered:
        """POST /query; the whole answer."""
        return await self._post("query", "/query", sql, properties)

    async def statement(self, text: str) -> Answered:
        """POST /ksql with one statement."""
        found = await self._post("admin", "/ksql", text, {})
        return found if found.kind == "error" else Answered("admin", found.body[0])

    async def _post(
        self, kind: str, path: str, text: str, properties: Mapping[str, Any]
    ) -> Answered:
        body = {"ksql": text, "streamsProperties": dict(properties)}
        try:
            response = await self._client.post(path, json=body)
        except httpx.ReadTimeout:
            raise InvalidTestCase(
                f"{path} has not answered within {_TIMEOUT_S:g} s: {text}",
                cause="a push query waits for more rows than will come",
                action="give it a LIMIT that the inputs reach",
            ) from None
        good = response.status_code == httpx.codes.OK
        return Answered(kind if good else "error", loads(response.content), response.status_code)


@dataclass(frozen=True)
class _Parts:
    """The parts of a server."""

    serving: Serving
    engine: QueryEngine
    local: LocalReader


@asynccontextmanager
async def asked_server(
    text: str, topology: Topology, topics: Topics, life: Life
) -> AsyncIterator[AskedServer]:
    """Starts a server for a case's statements, on a socket of this machine.

    Args:
        text: the statements.
        life: the state of their queries.
    """
    async with AsyncExitStack() as stack:
        with _STARTING:
            listen = Listen(_HOST, _free_port())
            parts = _parts(Script("case", lambda: text, lambda: (topology, _SETTINGS)),
                           topics, life, listen.url)  # fmt: skip
            stack.callback(parts.local.close)
            stack.push_async_callback(parts.engine.aclose)
            await stack.enter_async_context(running(parts.serving, parts.engine, listen))
        client = httpx.AsyncClient(
            base_url=listen.url, verify=_NO_TLS, trust_env=False, timeout=_TIMEOUT_S
        )
        yield AskedServer(await stack.enter_async_context(client))


def _parts(script: Script, topics: Topics, life: Life, url: str) -> _Parts:
    """The parts of `holdfast serve`, with stores in memory."""
    files, catalog = MemoryTopics(topics), ScriptCatalog([script], lambda _: topics.schemas)
    catalog.refresh(files.describe)
    standbys = {(t.name, 0): standby_of(t, topics, life) for t in catalog.stored()}
    log = Log(_SETTINGS.client(), _SETTINGS.state.delete_retention_ms)
    local = LocalReader(lambda name, partition: standbys.get((name, partition)), log, SERVER)
    plan = Plan(int(SERVER), (url,), 1)
    members = Members(plan, PeerSettings(), lambda: list(standbys.values()), catalog.expected)
    reader, internal = ClusterReader(local, members), Internal(local, members)
    streams = Streams(_SETTINGS.client(), files, files.tail, topics.schemas)
    engine = QueryEngine(catalog, reader, _SETTINGS.serve, streams)
    return _Parts(Serving(_SETTINGS, catalog, reader, members, internal), engine, local)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_HOST, 0))
        port: int = found.getsockname()[1]
        return port
