"""A collector: a server that takes spans by OTLP over HTTP, and keeps them."""

from __future__ import annotations

import gzip
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.servers.loopback_server import Handler, LoopbackServer

__all__ = ["OtlpReceiver", "facts"]


class OtlpReceiver(LoopbackServer):
    """Keeps what it is sent.

    Attributes:
        spans: all spans, as they came.
        services: the names of the services that sent them.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.spans: list[Span] = []
        self.services: set[str] = set()

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


class _Handler(Handler):
    server: OtlpReceiver

    def respond(self, body: bytes) -> None:
        assert (self.command, self.path) == ("POST", "/v1/traces")
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.take(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.answer(200, answer, "application/x-protobuf")


def facts(span: Span | Span.Link) -> dict[str, Any]:
    """The attributes of a span or a link."""
    return {
        each.key: getattr(each.value, str(each.value.WhichOneof("value")))
        for each in span.attributes
    }
