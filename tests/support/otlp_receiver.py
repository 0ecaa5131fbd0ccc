"""A collector: a server that takes spans by OTLP over HTTP, and keeps them."""

from __future__ import annotations

import gzip
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ["OtlpReceiver", "facts"]


class OtlpReceiver(AbstractContextManager["OtlpReceiver"]):
    """Keeps what it is sent.

    Attributes:
        spans: all spans, as they came.
        services: the names of the services that sent them.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        handler = type("Handler", (_Handler,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Takes one request over."""
        for of in request.resource_spans:
            named = {each.key: each.value.string_value for each in of.resource.attributes}
            self.services.add(named["service.name"])
            self.spans += [span for scope in of.scope_spans for span in scope.spans]

    def children(self, of: Span) -> list[Span]:
        """The spans right below a span, in the order of their begin."""
        found = [span for span in self.spans if span.parent_span_id == of.span_id]
        return sorted(found, key=lambda span: span.start_time_unix_nano)


class _Handler(BaseHTTPRequestHandler):
    receiver: OtlpReceiver

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.receiver.take(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing: the tests say what there is to say."""


def facts(span: Span) -> dict[str, Any]:
    """The attributes of a span."""
    return {
        each.key: getattr(each.value, str(each.value.WhichOneof("value")))
        for each in span.attributes
    }
