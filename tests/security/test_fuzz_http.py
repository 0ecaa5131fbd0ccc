"""Requests that nobody should send, to a real server process: it answers or closes, and lives.

No answer is a traceback, and none has a row that the asking client may not read.
`HYPOTHESIS_PROFILE=long` tries thousands, found anew each time.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security.server_process import MARKER, ServerProcess, server_process
from tests.support.serve import plain_http as plain
from tests.support.serve.tokens import bearer

_WAIT_S = 60.0
_MORE_S = 0.2  # after the first part of an answer; those of push queries never end
_PATHS = [
    "/", "/healthcheck", "/openapi.json", "/info", "/clusterStatus", "/status", "/status/a/b/c",
    "/query", "/query-stream", "/ksql", "/close-query", "/inserts-stream", "/v1/query", "/v1/ws",
    "/v1/tables", "/v1/tables/PER_CITY", "/v1/tables/PER_CUSTOMER/positions", "/v1/servers",
    "/v1/session", "/v1/metadata", "/is_valid_property/x", "/metrics", "/internal/health",
    "/internal/get", "/internal/scan", "/internal/changes", "/console", "/console/",
    "/console/static/app.js", "/console/api/overview", "/console/api/topology",
    "/console/api/relations/PER_CUSTOMER", "/console/api/partitions", "/console/api/activity",
    "/console/api/tables/PER_CITY/rows", "/console/api/tables/PER_CUSTOMER/rows",
    "/console/api/tables/PER_CITY/changes", "/console/api/jobs", "/console/api/jobs/x/log",
    "/console/api/topics/x/messages", "/console/api/chaos", "/console/api/compaction/x",
    "/../../etc/passwd", "//", "*", "http://evil/", "",
]  # fmt: skip
_SQL = [
    "SELECT", "*", "FROM", "PER_CITY", "PER_CUSTOMER", "WHERE", "CITY", "CUSTOMER", "=", "'city 1'",
    f"'{MARKER} 1'", "LIMIT", "1", "-1", "9223372036854775808", "EMIT CHANGES", ";", "(", ")", ",",
    "AND", "OR", "IN", "LIKE '%'", "EXPLAIN", "DESCRIBE", "EXTENDED", "SHOW TABLES", "TERMINATE",
    "CREATE TABLE X AS", "INSERT INTO", "GROUP BY", "HAVING", "COUNT(*)", "SUM(TOTAL)", "NULL",
    "ROWTIME", "CASE WHEN", "END", "--", "/*", "*/", "'", '"', "`", "${x}", "\x00", "é", "💥",
    "UNION", "JOIN", "PRINT", "SET 'a'='b'", "1e999", "X'00'",
]  # fmt: skip
_NAMES = ["sql", "ksql", "properties", "streamsProperties", "positions", "resume", "wait_ms",
          "timeout_ms", "sessionVariables", "queryId", "authorization"]  # fmt: skip
_PROPERTIES = ["ksql.query.pull.table.scan.enabled", "auto.offset.reset", "max.allowed.offset.lag"]
_HEADERS = [
    "accept", "authorization", "cookie", "host", "origin", "sec-fetch-site", "content-type",
    "content-encoding", "transfer-encoding", "content-length", "expect", "upgrade", "connection",
    "last-event-id", "range", "if-none-match", "te", "x-forwarded-for", "x-forwarded-host",
]  # fmt: skip
_VALUES = [
    "application/json", "application/x-ndjson", "text/event-stream", "*/*;q=x", "Bearer t-city",
    "Bearer t-peer ", "Bearer", "Basic eDp0LWNpdHk=", "Basic ====", "holdfast_token=t-city", "=;",
    "localhost", "evil.example", "null", "cross-site", "same-origin", "chunked", "gzip", "-5", "0",
    "99999999999999999999", "100-continue", "websocket", "Upgrade", "h2c", "close", "bytes=0-", "",
    "application/vnd.apache.arrow.stream", "application/vnd.ksql.v1+json", "\xff\xfe",
]  # fmt: skip

_METHODS = ["GET", "GET", "POST", "POST", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE",
            "PATCH", "FOO"]  # fmt: skip
_whole = "SELECT * FROM {};", "SELECT * FROM {} EMIT CHANGES LIMIT 1;", "DESCRIBE {} EXTENDED;"
_statements = st.one_of(
    st.lists(st.sampled_from(_SQL), max_size=14).map(" ".join),
    st.tuples(st.sampled_from(_whole), st.sampled_from(["PER_CITY", "PER_CUSTOMER"])).map(
        lambda two: two[0].format(two[1])
    ),
)
_texts = st.text(max_size=20)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts | _statements,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_PROPERTIES) | _texts, inner, max_size=3)
    ),
    max_leaves=6,
)
_asked = st.fixed_dictionaries(
    {"sql": _statements},
    optional={"properties": st.dictionaries(st.sampled_from(_PROPERTIES), st.booleans())},
)
_bodies = st.one_of(
    _asked.map(lambda asked: {**asked, "ksql": asked["sql"]}),
    st.dictionaries(st.sampled_from(_NAMES), _values, max_size=5),
    _values,
).map(lambda body: json.dumps(body).encode("utf-8", "surrogatepass")) | st.binary(max_size=200)
_queries = st.dictionaries(
    st.sampled_from([*_NAMES, "search", "cursor", "limit", "after", "table"]),
    _statements | _texts,
    max_size=3,
).map(lambda asked: "&".join(f"{k}={quote(v, errors='replace')}" for k, v in asked.items()))
_headers = st.lists(
    st.tuples(
        st.sampled_from(_HEADERS),
        st.sampled_from(_VALUES)
        | st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=30),
    ),
    max_size=4,
)


@st.composite
def _requests(draw: st.DrawFn) -> bytes:
    """A whole request with any method, path and query, of `city` or of nobody."""
    body, query = draw(_bodies), draw(_queries)
    target = draw(st.sampled_from(_PATHS[:-4])) + (f"?{query}" if query else "")
    lines = [f"{draw(st.sampled_from(_METHODS))} {target} HTTP/1.1", "host: localhost"]
    lines += ["connection: close", f"content-length: {len(body)}"]
    lines += draw(st.sampled_from([["authorization: Bearer t-city"]] * 7 + [[]]))
    accept = draw(st.sampled_from(_VALUES))
    if "/" in accept:
        lines.append(f"accept: {accept}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@st.composite
def _broken(draw: st.DrawFn) -> bytes:
    """Almost HTTP: contradictory headers, wrong lengths, cuts."""
    body = draw(_bodies)
    lines = [f"{draw(st.sampled_from(_METHODS))} {draw(st.sampled_from(_PATHS))} HTTP/1.1"]
    lines += ["host: localhost", "authorization: Bearer t-city"] * draw(st.integers(0, 1))
    lines += [f"{name}: {value}" for name, value in draw(_headers)]
    data = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("fuzzed")) as found:
        yield found
        assert _is_well(found)


def _is_well(process: ServerProcess) -> bool:
    asked = {"sql": "SELECT * FROM PER_CITY WHERE CITY = 'city 1';"}
    found = plain.post(f"{process.url}/v1/query", json=asked, headers=bearer("t-city"))
    return found.status_code == 200 and found.json()["rows"] == [["city 1", 1, 1]]


def _answer(process: ServerProcess, data: bytes, *, whole: bool = True) -> bytes:
    """The server's answer to the bytes.

    A whole request is answered; of one without end some is read.  What is not whole would be waited
    for: it ends with the half of the connection that it came over.
    """
    answer = b""
    with (
        socket.create_connection(("127.0.0.1", process.port), timeout=_WAIT_S) as raw,
        contextlib.suppress(OSError),
    ):
        raw.sendall(data)
        if not whole:
            raw.shutdown(socket.SHUT_WR)
        while part := raw.recv(1 << 16):
            answer += part
            raw.settimeout(_MORE_S)
    return answer


def _tried(process: ServerProcess, data: bytes, *, whole: bool = True) -> bytes:
    """The answer, after all that must hold of any."""
    before = len(process.complaints())
    answer = _answer(process, data, whole=whole)
    status = answer.split(b" ", 2)[1:2] if answer.startswith(b"HTTP/1.1 ") else []
    assert status != [b"500"], process.log.read_text()[-3000:]
    assert b"Traceback" not in answer
    # A name that was sent may come back in an error.
    assert MARKER.encode() in data or MARKER.encode() not in answer
    assert len(process.complaints()) == before, process.log.read_text()[-3000:]
    return answer


@given(_requests())
def test_every_request_is_answered_without_a_traceback_or_rows_of_others(
    process: ServerProcess, data: bytes
) -> None:
    assert _tried(process, data).startswith(b"HTTP/1.1 ")


@given(st.lists(_broken() | _requests(), min_size=1, max_size=3).map(b"".join))
def test_what_is_hardly_http_brings_no_traceback_or_rows_of_others(
    process: ServerProcess, data: bytes
) -> None:
    _tried(process, data, whole=False)


@given(_bodies, st.sampled_from(["/v1/query", "/query", "/query-stream", "/ksql"]))
def test_no_body_brings_a_traceback_or_rows_of_others(
    process: ServerProcess, body: bytes, path: str
) -> None:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer t-city\r\n"
    head += f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    _tried(process, head.encode() + body)


_UPGRADE = (
    b"GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer t-city\r\n"
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)


@st.composite
def _frames(draw: st.DrawFn) -> bytes:
    """A frame, often a good one of text, whose mask is nothing."""
    body = draw(_bodies)
    first = draw(st.sampled_from([0x81, 0x81, 0x81, 0x01, 0x00, 0x80, 0x82, 0x88, 0x89, 0xFF]))
    size = draw(st.sampled_from([len(body), len(body), len(body), 0, 1 << 40]))
    return bytes([first, 0xFF]) + struct.pack(">Q", size) + bytes(4) + body


@given(st.lists(_frames() | st.binary(max_size=50), max_size=4).map(b"".join))
def test_no_frame_brings_a_traceback_or_rows_of_others(
    process: ServerProcess, frames: bytes
) -> None:
    _tried(process, _UPGRADE + frames, whole=False)
    # A query that was asked is answered, unless what follows it closes the socket.
    _tried(process, _UPGRADE + frames)


def test_the_fuzz_would_see_a_row_of_another_client(process: ServerProcess) -> None:
    asked: dict[str, Any] = {
        "sql": "SELECT * FROM PER_CUSTOMER;",
        "properties": {"ksql.query.pull.table.scan.enabled": True},
    }
    found = plain.post(f"{process.url}/v1/query", json=asked, headers=bearer("t-all"))
    assert MARKER in found.text
    refused = plain.post(f"{process.url}/v1/query", json=asked, headers=bearer("t-city"))
    assert (refused.status_code, MARKER in refused.text) == (403, False)


def test_the_fuzz_would_see_a_bug_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a request failed\nTraceback (most recent call last):\nall is well\n")
    assert len(ServerProcess(0, 0, log).complaints()) == 2
