from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from holdfast.serve.http.request import Limits
from tests.support.serve import plain_http as plain
from tests.support.serve.http_world import Served, served


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, limits=Limits(send_s=1.0, heartbeat_s=0.2)) as found:
        yield found


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def _socket_url(server: Served) -> str:
    return f"ws://127.0.0.1:{server.port}/v1/ws"


def test_lines_of_a_push_query_come_as_changes_do(server: Served) -> None:
    with plain.stream(
        "POST", f"{server.url}/v1/query", json={"sql": "SELECT LIVE"},
        headers={"accept": "application/x-ndjson"},
    ) as response:  # fmt: skip
        lines = response.iter_lines()
        assert "columns" in json.loads(next(lines))
        _until(lambda: server.told.open == 1)
        server.push(4)
        told = [line for line in (next(lines), next(lines)) if line]
        while len(told) < 2:
            told += [line for line in [next(lines)] if line]
        assert told == ['["k4",4]', '{"resume":"4"}']
        assert next(lines) == ""  # a heartbeat
    _until(lambda: server.told.open == 0)  # who leaves ends the query


def test_an_event_source_resumes_by_the_id_of_the_last_event(server: Served) -> None:
    def events(last: str) -> list[str]:
        with plain.stream(
            "GET", f"{server.url}/v1/query", params={"sql": "SELECT LIVE LIMIT 2"},
            headers={"accept": "text/event-stream", **({"last-event-id": last} if last else {})},
        ) as response:  # fmt: skip
            assert response.headers["content-type"] == "text/event-stream"
            if not last:
                _until(lambda: server.told.open == 1)
                server.push(1, 2, 3, 4)
            return [line for line in response.iter_lines() if line and line != ": "]

    first = events("")
    assert first[0] == "event: columns"
    assert first[2:5] == ["event: rows", "id: 1", 'data: {"rows":[["k1",1]],"resume":"1"}']
    assert first[-2] == "event: end"
    _until(lambda: server.told.open == 0)
    assert [line for line in events("2") if line.startswith("id")] == ["id: 3", "id: 4"]


def test_a_web_socket_carries_the_same_events(server: Served) -> None:
    with connect(_socket_url(server)) as websocket:
        websocket.send(json.dumps({"sql": "SELECT LIVE LIMIT 1"}))
        assert "columns" in json.loads(websocket.recv())
        _until(lambda: server.told.open == 1)
        server.push(9)
        found = [json.loads(message) for message in websocket]
        assert {"rows": [["k9", 9]], "resume": "9"} in found
        assert found[-1]["end"] is True
    with connect(_socket_url(server)) as websocket:
        websocket.send(json.dumps({"sql": "SELECT ONE"}))
        assert [json.loads(m) for m in websocket][1] == {"rows": [["ann", 3]]}


def test_a_web_socket_that_is_closed_ends_its_query(server: Served) -> None:
    with connect(_socket_url(server)) as websocket:
        websocket.send(json.dumps({"sql": "SELECT LIVE"}))
        websocket.recv()
        _until(lambda: server.told.open == 1)
    _until(lambda: server.told.open == 0)


@pytest.mark.parametrize(
    ("message", "reaction"),
    [("{", "BadRequest"), ("x", "BadRequest"), (b"\xff", "BadRequest"),
     ('{"sql":"SELECT FAIL"}', "StoreBehind"), ('{"sql":"nonsense"}', "InvalidStatement")],
)  # fmt: skip
def test_a_web_socket_is_told_what_is_wrong(
    server: Served, message: str | bytes, reaction: str
) -> None:
    with connect(_socket_url(server)) as websocket:
        websocket.send(message)
        assert json.loads(websocket.recv())["error"]["reaction"] == reaction
        with pytest.raises(ConnectionClosed):
            websocket.recv()


def test_pages_of_other_sites_get_no_web_socket(server: Served) -> None:
    with pytest.raises((InvalidStatus, ConnectionClosed)):
        connect(_socket_url(server), origin=Origin("http://evil.example")).recv()
    same = Origin(f"http://127.0.0.1:{server.port}")
    with connect(_socket_url(server), origin=same) as websocket:
        websocket.send('{"sql":"SELECT ONE"}')
        websocket.recv()


@pytest.mark.parametrize(
    ("path", "name", "said"),
    [("/close-query", "queryId", "{}"), ("/ksql", "ksql", "TERMINATE {};")],
)
def test_queries_are_closed_by_their_id(server: Served, path: str, name: str, said: str) -> None:
    def close(query_id: str) -> int:
        body = {name: said.format(query_id)}
        return plain.post(server.url + path, json=body).status_code

    with plain.stream(
        "POST", f"{server.url}/query-stream", json={"sql": "SELECT LIVE"}
    ) as response:
        lines = response.iter_lines()
        query_id = json.loads(next(lines))["queryId"]
        assert close(query_id) == 200
        assert list(lines) == []
    _until(lambda: server.told.open == 0)
    assert close(query_id) == 400


def test_a_reader_that_takes_nothing_is_cut_off_and_delays_nobody(server: Served) -> None:
    body = b'{"sql":"SELECT FLOOD"}'
    head = f"POST /v1/query HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n".encode()
    head = head.replace(b"host: x", b"host: localhost") + b"accept: application/x-ndjson\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(head + body)
        _until(lambda: server.told.sent > 0)  # it may be cut off before anybody looks again
        others = [
            plain.post(f"{server.url}/v1/query", json={"sql": "SELECT ONE"}).status_code
            for _ in range(20)
        ]
        assert others == [200] * 20
        _until(lambda: server.told.open == 0)  # after send_s
        assert server.told.sent < 1_000_000  # what the sockets hold, not all there was
        slow.settimeout(60)
        while slow.recv(1 << 20):
            pass  # it is closed, not left open for ever


def test_a_server_that_stops_tells_its_push_queries(tmp_path: Path) -> None:
    found: list[str] = []
    with served(tmp_path) as server:
        started = threading.Event()

        def read() -> None:
            with plain.stream(
                "POST", f"{server.url}/v1/query", json={"sql": "SELECT LIVE"},
                headers={"accept": "application/x-ndjson"},
            ) as response:  # fmt: skip
                for line in response.iter_lines():
                    found.append(line)
                    started.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert started.wait(60)
    reader.join(60)
    assert json.loads(found[-1])["error"]["reaction"] == "Retriable"


def test_many_idle_subscribers_each_get_a_change(server: Served) -> None:
    count = 1500  # more than one would keep open by default

    async def subscriber() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        body = b'{"sql":"SELECT LIVE LIMIT 1"}'
        writer.write(
            b"POST /query-stream HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            + f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        data = await reader.read()
        writer.close()
        return data

    async def all_of_them() -> list[bytes]:
        waiting = asyncio.gather(*(subscriber() for _ in range(count)))
        await asyncio.to_thread(_until, lambda: server.told.open == count)
        server.push(5)
        return await waiting

    found = asyncio.run(all_of_them())
    assert sum(b'["k5",5]' in data for data in found) == count


def test_a_web_socket_survives_what_nobody_expected(server: Served) -> None:
    with connect(_socket_url(server)) as websocket:
        websocket.send('{"sql":"SELECT CRASH"}')
        error = json.loads(websocket.recv())["error"]
        assert error["error_code"] == 50000
        assert "secret" not in error["message"]


def test_no_more_queries_than_may_be_open(tmp_path: Path) -> None:
    ask = {"sql": "SELECT LIVE"}
    with (
        served(tmp_path, limits=Limits(open_queries=1)) as server,
        plain.stream("POST", f"{server.url}/v1/query", json=ask),
    ):
        _until(lambda: server.told.open == 1)
        found = plain.post(f"{server.url}/v1/query", json=ask)
        assert (found.status_code, found.json()["reaction"]) == (429, "Overloaded")
        assert server.told.open == 1  # the other was not begun, or is closed
        look_up = plain.post(f"{server.url}/v1/query", json={"sql": "SELECT ONE"})
        assert look_up.status_code == 200
