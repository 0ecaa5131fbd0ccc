from __future__ import annotations

import asyncio
import datetime as dt
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.client import AsyncClient, Changes, Client
from holdfast.errors import (
    BadRequest,
    InvalidConfig,
    InvalidStatement,
    NotAllowed,
    Retriable,
    StoreBehind,
)
from holdfast.local.probe import free_port
from holdfast.serve.http.guard.access import token_hash
from tests.support.serve.http_world import EVERY_TYPE, TYPED_ROW, Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("http")) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    with Client(server.url, retry_s=0.0) as found:
        yield found


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def test_rows_by_name_and_in_order(client: Client) -> None:
    result = client.query("SELECT MANY 2500;")
    assert (result.columns, result.types) == (("NAME", "COUNT"), ("STRING", "BIGINT"))
    assert len(result) == 2500
    first = next(iter(result))
    assert (first["NAME"], first.in_order, dict(first)) == (
        "k0",
        ("k0", 0),
        {"NAME": "k0", "COUNT": 0},
    )
    assert result.partitions[0].position == 17
    assert result.partitions[0].lag == 3
    with pytest.raises(KeyError):
        first["NOTHING"]


def test_every_type_becomes_pythons_own(client: Client) -> None:
    for sql in ("SELECT TYPES", "SELECT TYPES in a batch"):
        (row,) = client.query(sql)
        assert [str(v) for v in row.in_order] == [str(v) for v in _expected()]
        assert [type(v) for v in row.in_order] == [type(v) for v in _expected()]
        table = client.arrow(sql)
        assert table.schema.names == [c.name for c in EVERY_TYPE]
        assert table["M"].to_pylist() == [TYPED_ROW[2]]


def _expected() -> list[Any]:
    row = list(TYPED_ROW)
    row[5] = dt.time(23, 59, 59)
    return row


def test_a_later_query_waits_for_what_an_earlier_one_saw(server: Served, client: Client) -> None:
    before = client.query("SELECT ONE")
    client.query("SELECT ONE", after=before, properties={"x": "y"})
    ask = server.told.asked[-1]
    assert (ask.positions, ask.properties) == ({0: 17}, {"x": "y"})


def test_columns_of_a_whole_result(client: Client) -> None:
    table = client.arrow("SELECT MANY 2500")
    assert table["COUNT"].to_pylist() == list(range(2500))
    assert b'"position":17' in table.schema.metadata[b"holdfast"]
    assert client.arrow("SELECT NONE").num_rows == 0
    assert client.tables()[0]["name"] == "PER_CITY"


@pytest.mark.parametrize("ask", [Client.query, Client.arrow, lambda c, s: list(c.changes(s))])
def test_errors_are_of_the_class_that_the_server_raised(
    client: Client, ask: Callable[[Client, str], object]
) -> None:
    with pytest.raises(InvalidStatement, match="Syntax Error"):
        ask(client, "nonsense")
    with pytest.raises(StoreBehind, match="7 behind"):
        ask(client, "SELECT FAIL")
    with pytest.raises(StoreBehind, match="the holder went away"):
        ask(client, "SELECT BREAK")
    with pytest.raises(BadRequest):
        ask(client, " ")


def test_tokens_are_sent_and_refusals_told(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(
        f'[[client]]\nname="a"\ntoken_sha256="{token_hash("one")}"\nread=["*"]\n'
        f'[[client]]\nname="b"\ntoken_sha256="{token_hash("two")}"\nread=[]\n'
    )
    with served(tmp_path, tokens=tokens) as server:
        with Client(server.url, token="one") as client:
            assert len(client.query("SELECT ONE")) == 1
        with Client(server.url, token="two") as client, pytest.raises(NotAllowed):
            client.query("SELECT ONE")
        with Client(server.url) as client, pytest.raises(BadRequest, match="no token"):
            client.query("SELECT ONE")


def test_another_server_is_asked_when_one_does_not_answer(server: Served) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with Client([nobody, server.url]) as client:
        assert len(client.query("SELECT ONE")) == 1
        assert len(client.query("SELECT ONE")) == 1  # the one that answered comes first now
    with (
        Client(nobody, retry_s=0.1) as client,
        pytest.raises(Retriable, match="no server answered"),
    ):
        client.query("SELECT ONE")
    for wrong in ("", "localhost:8088"):
        with pytest.raises(InvalidConfig):
            Client(wrong)


class _Cut:
    """Two servers behind proxies that can be cut, so that connections are lost for certain."""

    def __init__(self, *servers: Served) -> None:
        self.servers = servers
        self._open: list[socket.socket] = []
        self._listening = [socket.create_server(("127.0.0.1", 0)) for _ in servers]
        ports = [listening.getsockname()[1] for listening in self._listening]
        self.urls = [f"http://127.0.0.1:{port}" for port in ports]
        self._threads: list[threading.Thread] = []
        for index in range(len(servers)):
            self._start(self._accept, index)

    def _start(self, what: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=what, args=args)
        thread.start()
        self._threads.append(thread)

    def _accept(self, index: int) -> None:
        try:
            while True:
                taken, _ = self._listening[index].accept()
                onward = socket.create_connection(("127.0.0.1", self.servers[index].port))
                self._open += [taken, onward]
                self._start(self._copy, taken, onward)
                self._start(self._copy, onward, taken)
        except OSError:
            return

    @staticmethod
    def _copy(source: socket.socket, to: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                to.sendall(data)
        except OSError:
            return

    def cut(self) -> None:
        """Every connection is lost, without a word."""
        for each in self._open:
            with ExitStack() as stack:
                stack.callback(each.close)
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
        self._open.clear()

    def close(self) -> None:
        for listening in self._listening:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        self.cut()
        for thread in self._threads:
            thread.join(20)


@contextmanager
def _cut_between(first: Path, second: Path) -> Iterator[_Cut]:
    with served(first) as a, served(second) as b:
        between = _Cut(a, b)
        try:
            yield between
        finally:
            between.close()


def test_changes_go_on_at_another_server_without_gap_or_double(tmp_path: Path) -> None:
    with _cut_between(tmp_path, tmp_path) as between, Client(between.urls) as client:
        found: list[int] = []
        state = Changes()

        def read() -> None:
            for row in client.changes("SELECT LIVE LIMIT 100", state=state):
                found.append(row["COUNT"])
                if len(found) == 40:
                    return

        reader = threading.Thread(target=read)
        reader.start()
        _until(lambda: sum(s.told.open for s in between.servers) == 1)
        for turn in range(4):
            for server in between.servers:
                server.push(*range(10 * turn + 1, 10 * turn + 11))
            _until(lambda wanted=10 * (turn + 1): len(found) == wanted)  # type: ignore[misc]
            between.cut()
        reader.join(20)
        assert found == list(range(1, 41))
        assert state.token == "40"
        assert all(s.told.asked for s in between.servers)  # both were asked


def test_the_async_client_does_the_same(tmp_path: Path) -> None:
    async def read(between: _Cut) -> list[int]:
        async with AsyncClient(between.urls) as client:
            result = await client.query("SELECT MANY 3")
            assert [row["NAME"] for row in result] == ["k0", "k1", "k2"]
            assert (await client.arrow("SELECT MANY 3")).num_rows == 3
            assert (await client.tables())[0]["name"] == "PER_CITY"
            with pytest.raises(InvalidStatement):
                await client.query("nonsense")
            found: list[int] = []
            pushing = asyncio.create_task(asyncio.to_thread(_push_all, between, found))
            async for row in client.changes("SELECT LIVE LIMIT 20"):
                found.append(row["COUNT"])
                if len(found) == 20:
                    break
            await pushing
            return found

    with _cut_between(tmp_path, tmp_path) as between:
        assert asyncio.run(read(between)) == list(range(1, 21))


def _push_all(between: _Cut, found: list[int]) -> None:
    _until(lambda: sum(s.told.open for s in between.servers) == 1)
    for turn in range(2):
        for server in between.servers:
            server.push(*range(10 * turn + 1, 10 * turn + 11))
        _until(lambda wanted=10 * (turn + 1): len(found) == wanted)  # type: ignore[misc]
        if turn == 0:
            between.cut()
