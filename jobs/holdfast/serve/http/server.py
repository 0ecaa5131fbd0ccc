"""Runs the HTTP server in this process's event loop: address, TLS, access, and shutdown.

On loopback it is open to everybody on the machine; any other address needs tokens, client
certificates, or `insecure`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings, HTTP2Settings
from granian.server.embed import Server

from holdfast.errors import InvalidConfig
from holdfast.serve.contract import Serving
from holdfast.serve.http.app import HttpApp
from holdfast.serve.http.context import Context
from holdfast.serve.http.guard.access import Access
from holdfast.serve.http.guard.audit import Audit
from holdfast.serve.http.guard.rates import Rates
from holdfast.serve.http.meter import Meter
from holdfast.serve.http.pump import Running
from holdfast.serve.http.request import App, Limits
from holdfast.serve.queries import Queries

__all__ = ["Listen", "running", "serve_http"]

_log = logging.getLogger(__name__)

_END_S = 2


@dataclass(frozen=True)
class Listen:
    """The address of a server, and its access control.

    Attributes:
        host, port: the address.
        tokens: file of clients, see `access`; None: requests need no token.
        peer_token: token of the other query servers; empty: they use a client with `peer`.
        cert, key: PEM files; both or neither.
        client_ca: CA certificates; a client without a certificate of theirs is refused.
        insecure: allow an address that other machines reach without access control.
        audit: file of the audit log.
        audit_literals: whether the audit log keeps literals of statements.
        limits: limits of each client.
    """

    host: str = "127.0.0.1"
    port: int = 8088
    tokens: Path | None = None
    peer_token: str = ""
    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    insecure: bool = False
    audit: Path | None = None
    audit_literals: bool = True
    limits: Limits = field(default_factory=Limits)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.cert else ''}://{host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the address."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self) -> None:
        """Refuse an address that would be open by mistake, and missing files.

        Raises:
            InvalidConfig: names what is missing.
        """
        if (self.cert is None) != (self.key is None) or (self.client_ca and not self.cert):
            raise InvalidConfig(
                "TLS needs a certificate and its key; client certificates need TLS.",
                action="give --tls-cert and --tls-key together.",
            )
        for path in (self.cert, self.key, self.client_ca):
            if path is not None and not path.is_file():
                raise InvalidConfig(f"there is no file {path}.")
        if not (self.local or self.tokens or self.client_ca or self.insecure):
            raise InvalidConfig(
                f"{self.host} can be reached from other machines, and nothing restricts access.",
                action="give --tokens FILE (`holdfast token` makes entries), or --client-ca for "
                "TLS with client certificates; --insecure if a network keeps others out.",
            )
        if self.tokens and not (self.cert or self.local):
            _log.warning("tokens travel in clear text", extra={"address": self.url})


@contextlib.asynccontextmanager
async def running(
    serving: Serving,
    queries: Queries,
    listen: Listen,
    mounts: Mapping[str, App] | None = None,
    meter: Meter | None = None,
) -> AsyncIterator[Context]:
    """Context of the listening HTTP server; leaving it ends push queries, then the server.

    Args:
        serving: the server's parts.
        queries: runs the queries.
        listen: the address; port 0 is not supported.
        mounts: applications by path prefix (`/console`); they find the `Client` in their scope.
        meter: counts the queries.

    Raises:
        InvalidConfig: the address is taken, or would be open by mistake.
    """
    listen.check()
    _check_free(listen)
    context = Context(
        serving,
        queries,
        Access(listen.tokens, listen.peer_token),
        Rates(listen.limits.rate_per_s, listen.limits.burst),
        Audit(listen.audit, literals=listen.audit_literals),
        meter or Meter(),
        listen.limits,
        Running(listen.limits.open_queries),
    )
    context.meter.open_queries = lambda: len(context.running)
    open_here = listen.local and context.access.open and listen.client_ca is None
    server = _server(HttpApp(context, mounts, local_only=open_here), listen)
    before, threads = _native_threads(), set[str]()
    task = asyncio.create_task(server.serve())
    try:
        await _answers(listen, task)
        threads = _native_threads() - before
        yield context
    finally:
        await _ended(server, task, context)
        await _gone(threads)


async def serve_http(
    serving: Serving,
    queries: Queries,
    listen: Listen,
    stop: asyncio.Event,
    mounts: Mapping[str, App] | None = None,
) -> None:
    """Run the server until `stop` is set.  Raises as `running`."""
    async with running(serving, queries, listen, mounts):
        _log.info("listening", extra={"address": listen.url})
        await stop.wait()


def _server(app: HttpApp, listen: Listen) -> Server:
    server = Server(
        app,
        address=listen.host,
        port=listen.port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.auto,
        backlog=1024,
        backpressure=2 * listen.limits.open_queries,  # connections, some of them idle
        log_enabled=False,
        http1_settings=HTTP1Settings(max_buffer_size=64 << 10),
        http2_settings=HTTP2Settings(max_headers_size=64 << 10, max_concurrent_streams=1000),
        ssl_cert=listen.cert,
        ssl_key=listen.key,
        ssl_ca=listen.client_ca,
        ssl_client_verify=listen.client_ca is not None,
    )
    server.workers_kill_timeout = _END_S  # for clients that keep their connections open
    return server


def _check_free(listen: Listen) -> None:
    # The server sets SO_REUSEPORT, so it would silently share a taken port.
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen.host, listen.port))
        except OSError as error:
            raise InvalidConfig(
                f"cannot listen on {listen.host}:{listen.port}: {error.strerror}.",
                cause="another process listens there, or the address is not this machine's.",
                action="choose another --port.",
            ) from None


async def _answers(listen: Listen, server: asyncio.Task[None]) -> None:
    """Wait until connections are accepted; raises the error that the server failed with."""
    while True:
        if server.done():
            server.result()
            raise InvalidConfig(f"the HTTP server at {listen.url} ended at once.")
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(listen.host, listen.port)
            writer.close()
            return
        await asyncio.sleep(0.01)


def _native_threads() -> set[str]:
    """This process's threads that are not Python's own."""
    own = {str(thread.native_id) for thread in threading.enumerate()}
    return {path.name for path in Path("/proc/self/task").iterdir()} - own


async def _gone(threads: set[str]) -> None:
    """Waits until the server's threads have ended: they do so after it says that it has.

    One that still asks for the interpreter while that shuts down aborts the process.
    """
    for _ in range(_END_S * 1_000):
        if not threads & _native_threads():
            return
        await asyncio.sleep(0.001)


async def _ended(server: Server, task: asyncio.Task[None], context: Context) -> None:
    await context.running.end(_END_S)
    server.stop()  # type: ignore[no-untyped-call]
    await asyncio.wait((task,), timeout=2 * _END_S)
    if task.done() and not isinstance(task.exception(), TimeoutError | None):
        task.result()
    context.audit.close()
