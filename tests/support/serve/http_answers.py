"""An HTTP server on the loopback interface that answers as a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from tests.support.servers.loopback_server import Handler, LoopbackServer

__all__ = ["answering"]


@contextmanager
def answering(answer: Callable[[str, bytes], tuple[int, Any]]) -> Iterator[str]:
    """Its URL; `answer` is given the Authorization and the body, and tells status and JSON."""

    class Told(Handler):
        def respond(self, body: bytes) -> None:
            status, told = answer(self.headers.get("Authorization", ""), body)
            self.answer(status, orjson.dumps(told))

    with LoopbackServer(Told) as server:
        yield server.url
