"""10,000 requests that nobody should send, to a real server: it answers each, and lives."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.serve.http.request import Limits
from holdfast.serve.query.engine import QueryEngine
from tests.support.serve import plain_http as plain
from tests.support.serve.http_world import Served, served

COUNT = 10_000
_AT_ONCE = 32
_PATHS = [
    "/query-stream", "/query", "/ksql", "/v1/query", "/close-query", "/v1/tables/PER_CITY",
    "/v1/tables/%00", "/v1/tables/PER_CITY/positions", "/v1/ws", "/internal/get", "/status/x/y/z",
    "/../../etc/passwd", "/v1/tables/..%2f..", "/%ff", "/" + "a" * 3000, "//", "/v1/query?sql=%27",
    "/v1/query?sql=SELECT%20*%20FROM%20PER_CITY%3B&timeout_ms=1", "/console/../", "*", "",
]  # fmt: skip
_SQL = [
    "SELECT * FROM PER_CITY;", "SELECT * FROM PER_CITY WHERE CITY = 'x';", "SELECT", ";;;", "'",
    "SELECT * FROM PER_CITY WHERE CITY = 'x' LIMIT -1;", "SELECT * FROM NOTHING;", "/*", "--",
    "DROP TABLE PER_CITY;", "SELECT * FROM (SELECT 1);", "INSERT INTO ORDERS VALUES (1);",
    "SELECT ORDERS/0, CITY FROM PER_CITY WHERE CITY='a';", "DESCRIBE PER_CITY;", "\x00", "💥",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000 + " FROM PER_CITY;", "PRINT 'x';", "EXPLAIN x;",
    "SELECT * FROM PER_CITY WHERE CITY IN (" + ",".join(["'a'"] * 500) + ");", "SHOW TABLES;",
    "SELECT * FROM read_csv('/etc/passwd');", "COPY PER_CITY TO '/tmp/x';", "ATTACH 'x.db';",
    "SELECT getenv('HOME') FROM PER_CITY WHERE CITY='a';", "SELECT * FROM PER_CITY EMIT",
]  # fmt: skip
_JSON: list[Any] = [
    None, 1, -1, 1e308, "", "x", [], {}, True, [1], {"a": {}}, "9" * 400, {"0": 2**70},
    {"auto.offset.reset": "never"}, {"ksql.query.pull.table.scan.enabled": True},
]  # fmt: skip
_NAMES = ["sql", "ksql", "properties", "streamsProperties", "positions", "resume", "wait_ms",
          "timeout_ms", "sessionVariables", "queryId", "@type", "authorization"]  # fmt: skip
_HEADERS = [
    "accept: application/x-ndjson", "accept: text/event-stream", "accept: */*;q=x, , ;;",
    "accept: application/vnd.apache.arrow.stream", "authorization: Bearer \xff", "cookie: =;=;",
    "authorization: Basic ====", "host: evil", "x: " + "y" * 2000, "content-encoding: gzip",
    "transfer-encoding: chunked", "last-event-id: \xfe\x01", "expect: 100-continue",
    "connection: upgrade\r\nupgrade: websocket", "content-length: -5", "upgrade: h2c",
    "content-length: 99999999999999999999", " bad", "no colon", "a b: c",
]  # fmt: skip


def _body(dice: random.Random) -> bytes:
    kind = dice.random()
    if kind < 0.1:
        return dice.randbytes(dice.randrange(200))
    sql = dice.choice(_SQL)
    if dice.random() < 0.3 and sql:
        at = dice.randrange(len(sql))
        sql = sql[:at] + chr(dice.choice([0, 39, 40, 59, 96, 0x7FF, 0xFFFF])) + sql[at + 1 :]
    value = {dice.choice(_NAMES): dice.choice(_JSON) for _ in range(dice.randrange(4))}
    value |= {"sql": sql, "ksql": sql} if dice.random() < 0.9 else {}
    text = json.dumps(value).encode()
    return text[: dice.randrange(len(text))] if kind < 0.25 else text


def _request(dice: random.Random) -> tuple[bytes, bool]:
    """Half are good HTTP (the second value) with a bad body, half are bad HTTP as well."""
    body = _body(dice)
    path = dice.choice(_PATHS[:5]) if dice.random() < 0.6 else dice.choice(_PATHS)
    method = (
        "POST" if dice.random() < 0.8 else dice.choice(["GET", "DELETE", "PUT", "FOO", "post", ""])
    )
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", "connection: close"]
    good = dice.random() < 0.5
    if not good:
        lines += dice.sample(_HEADERS, dice.randrange(3))
        lines[0] = dice.choice(
            [lines[0], lines[0], lines[0][: dice.randrange(20)], "PRI * HTTP/2.0"]
        )
    if good or dice.random() < 0.7:
        lines.append(f"content-length: {len(body) + (0 if good else dice.randrange(-3, 3))}")
    data = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body
    return (data if good or dice.random() < 0.8 else data[: dice.randrange(len(data))]), good


async def _sent(port: int, data: bytes, good: bool) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if not good:
            writer.write_eof()  # what is not whole would be waited for
        return await reader.read()
    except OSError:
        return b""  # the server may close what is no HTTP
    finally:
        writer.close()


async def _all(port: int, seed: int) -> dict[bytes, int]:
    dice = random.Random(seed)
    found: dict[bytes, int] = {}

    async def some(count: int) -> None:
        for _ in range(count):
            answer = await _sent(port, *_request(dice))
            status = answer.split(b" ")[1] if answer.startswith(b"HTTP/1.1") else answer[:4]
            found[status] = found.get(status, 0) + 1

    await asyncio.gather(*(some(COUNT // _AT_ONCE + 1) for _ in range(_AT_ONCE)))
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    limits = Limits(request_s=0.1, timeout_s=2.0)
    with served(
        tmp_path, limits=limits, queries=lambda s: QueryEngine(s.catalog, s.reader), peer_token="p"
    ) as found:
        for city in ("a", "b", "x"):
            found.world.put("PER_CITY", [city], [1, 2])
        yield found


def test_ten_thousand_malformed_requests(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    seed = 20261121
    found = asyncio.run(_all(server.port, seed))
    assert sum(found.values()) >= COUNT, seed
    assert b"500" not in found, [r.exc_text or r.getMessage() for r in caplog.records][:3]
    assert found[b"200"] > 50  # some were good after all
    assert found[b"400"] > 1000
    good = plain.post(
        f"{server.url}/query-stream", json={"sql": "SELECT * FROM PER_CITY WHERE CITY = 'x';"}
    )
    assert good.status_code == 200
    assert "passwd" not in good.text
