"""A load of look-ups over HTTP: many connections, one request at a time on each.

A process of its own: `python -m tests.bench.serving.lookups PORT ENGINE CONNECTIONS SECONDS`, which prints
one JSON object.  Keys are those of the first input records, so every one is in the table.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from tests.bench.input import records
from tests.bench.measure.measure import percentile
from tests.bench.workloads import INPUTS

__all__ = ["KEYS", "REQUESTS", "Load"]

KEYS = 100_000  # of the first records; those of all that are measured
_WARM_S = 2.0
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"


def _pull_query(key: bytes) -> bytes:
    body = b'{"sql":"SELECT * FROM totals WHERE customer = \'%b\';"}' % key
    return (
        b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )


def _get(key: bytes) -> bytes:
    return b"GET /%b HTTP/1.1\r\nhost: localhost\r\n\r\n" % key


REQUESTS: dict[str, Callable[[bytes], bytes]] = {"holdfast": _pull_query, "kafka-streams": _get}


@dataclass
class Load:
    """What all connections have seen; `wrong` are answers without the key that was asked for."""

    keys: list[bytes]
    request: Callable[[bytes], bytes]
    ends_at: float
    counts_from: float
    seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    failed: str = ""

    def next(self) -> bytes:
        return random.choice(self.keys)

    def answered(self, key: bytes, answer: bytes, began: float) -> None:
        now = time.perf_counter()
        if b" 200 " not in answer[:16] or key not in answer:
            self.wrong += 1
            self.failed = self.failed or f"{key.decode()}: {answer.decode(errors='replace')[:300]}"
        if began >= self.counts_from:
            self.seconds.append(now - began)

    def as_json(self) -> dict[str, float | int | str]:
        spent = self.ends_at - self.counts_from
        return {
            "rate": len(self.seconds) / spent,
            "p50_ms": percentile(self.seconds, 0.5) * 1000,
            "p99_ms": percentile(self.seconds, 0.99) * 1000,
            "wrong": self.wrong,
            "failed": self.failed,
        }


class _Connection(asyncio.Protocol):
    """One request after the other, until the load's time is over."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._answer = b""
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if not _complete(self._answer):
            return
        self._load.answered(self._key, self._answer, self._began)
        if time.perf_counter() < self._load.ends_at:
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if time.perf_counter() < self._load.ends_at:
            self._load.failed = str(error or "the server closed a connection")
        self.ended.set_result(None)

    def _ask(self) -> None:
        self._answer, self._key, self._began = b"", self._load.next(), time.perf_counter()
        self._transport.write(self._load.request(self._key))


def _complete(answer: bytes) -> bool:
    head, found, body = answer.partition(_END)
    if not found:
        return False
    length = _LENGTH.search(head)
    return len(body) >= int(length[1]) if length else body.endswith(_LAST_CHUNK)


async def _run(port: int, engine: str, connections: int, seconds: float) -> Load:
    first = next(records(INPUTS["uniform"], KEYS, 0))
    now = time.perf_counter()
    load = Load(
        [key for key, _, _ in first], REQUESTS[engine], now + _WARM_S + seconds, now + _WARM_S
    )
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port)
        for _ in range(connections)
    ]
    await asyncio.gather(*(protocol.ended for _, protocol in opened))
    return load


def main(port: str, engine: str, connections: str, seconds: str) -> None:
    """Prints what was measured."""
    load = asyncio.run(_run(int(port), engine, int(connections), float(seconds)))
    sys.stdout.buffer.write(orjson.dumps(load.as_json()))


if __name__ == "__main__":
    main(*sys.argv[1:])
