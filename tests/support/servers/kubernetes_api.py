"""The Kubernetes API as a pod sees it: TLS by the cluster's authority, a ServiceAccount's token."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.deploy.kubernetes import in_pod
from tests.support.servers.certificates import Authority

__all__ = ["NAMESPACE", "Asked", "in_a_pod"]

NAMESPACE = "tables"


@dataclass(frozen=True)
class Asked:
    """A request: method, path with its query, headers, and the body's JSON."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any = None


Api = Callable[[Asked], tuple[int, Any]]
"""Answers with a status and a body: bytes as they are, anything else as JSON."""


@contextmanager
def in_a_pod(api: Api, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is in a pod of the namespace `NAMESPACE`, whose account has a token."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
    authority = Authority("cluster", folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("api"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, text in (("token", "a-token\n"), ("namespace", NAMESPACE)):
        (folder / name).write_text(text)
    authority.path.rename(folder / "ca.crt")
    patch.setattr(in_pod, "_ACCOUNT", folder)
    patch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    patch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_port))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            assert self.headers["Authorization"] == "Bearer a-token"
            status, found = api(Asked(self.command, self.path, dict(self.headers), body))
            sent = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815 - the standard library's names

        def log_message(self, *_: object) -> None:
            pass

    return Handler
