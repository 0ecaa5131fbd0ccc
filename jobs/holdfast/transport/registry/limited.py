"""Limits of a registry's answers: what has its address may stream for ever, or bytes at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.types.columns.schemas import ANSWER_BYTES_MAX

if TYPE_CHECKING:
    from holdfast.errors import HoldfastError

__all__ = ["limit_answers"]

_PLAIN = "identity"
_MIB = 1 << 20


def limit_answers(session: Any, timeout_s: float, refused: Callable[[str], HoldfastError]) -> None:
    """Makes a session read no more than `ANSWER_BYTES_MAX` of an answer, and no longer than that.

    Answers come uncompressed: a few kilobytes can be gigabytes once they are inflated.

    Args:
        session: a client of httpx, or of httpx2, as the registry's library found them.
        refused: the error for an answer that is too long, or compressed.
    """
    library = import_module(type(session).__module__.partition(".")[0])
    body = _body_of(library)

    def chunks(received: Any) -> Iterator[bytes]:
        read, began = 0, time.monotonic()
        for chunk in received:
            read += len(chunk)
            if read > ANSWER_BYTES_MAX:
                raise refused(f"more than {ANSWER_BYTES_MAX // _MIB} MiB")
            if time.monotonic() - began > timeout_s:
                raise library.ReadTimeout(f"no end of the answer after {timeout_s:g} s")
            yield chunk

    def limit(response: Any) -> None:
        coding = response.headers.get("Content-Encoding", _PLAIN)
        if coding.lower() != _PLAIN:
            raise refused(f"the content encoding {coding[:50]}, which was not asked for")
        response.stream = body(chunks(response.stream), response.stream.close)

    session.headers["Accept-Encoding"] = _PLAIN
    session.event_hooks = {"response": [limit]}


def _body_of(library: Any) -> Callable[[Iterator[bytes], Callable[[], None]], Any]:
    """The class of a response's body; the library takes subclasses of its own class only."""

    class Body(library.SyncByteStream):  # type: ignore[misc]
        def __init__(self, chunks: Iterator[bytes], close: Callable[[], None]) -> None:
            self._chunks = chunks
            self._close = close

        def __iter__(self) -> Iterator[bytes]:
            return self._chunks

        def close(self) -> None:
            self._close()

    return Body
