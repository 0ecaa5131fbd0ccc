"""Connections that are cut after any number of bytes: contents and changes come once each."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.client import Client
from holdfast.serve.http.request import Limits
from tests.support.serve.http_world import served
from tests.unit.serve.query.shop import Shop

KEYS = [f"k{i:02}" for i in range(40)]


class _Stingy(threading.Thread):
    """A proxy that cuts each connection after some bytes of the answer."""

    def __init__(self, onward: int, dice: random.Random) -> None:
        super().__init__()
        self._onward = onward
        self._dice = dice
        self.cuts = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            with taken, socket.create_connection(("127.0.0.1", self._onward)) as onward:
                self._carry(taken, onward)
            self.cuts += 1

    def _carry(self, taken: socket.socket, onward: socket.socket) -> None:
        left = self._dice.randrange(300, 1200)
        try:
            onward.sendall(_request(taken))
            while left > 0 and (data := onward.recv(left)):
                taken.sendall(data)
                left -= len(data)
        except OSError:
            return  # the client has gone

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.join(20)


def _request(taken: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(taken)
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < size:
        body += _received(taken)
    return head + b"\r\n\r\n" + body


def _received(taken: socket.socket) -> bytes:
    data = taken.recv(1 << 16)
    if not data:
        raise ConnectionError("the client has gone before its request was whole")
    return data


@contextmanager
def _stingy(port: int, dice: random.Random) -> Iterator[_Stingy]:
    proxy = _Stingy(port, dice)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_contents_and_changes_come_once_each(tmp_path: Path, seed: int) -> None:
    shop = Shop("GOODS")
    for number, key in enumerate(KEYS):
        shop.put(key.encode(), n=number)
    found: list[tuple[str, int]] = []

    def count_on() -> None:
        for number, key in enumerate(KEYS):
            shop.put(key.encode(), n=100 + number)

    with (
        served(
            tmp_path, queries=lambda serving: shop.engine, limits=Limits(heartbeat_s=0.1)
        ) as server,
        _stingy(server.port, random.Random(seed)) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}") as client,
    ):
        for row in client.changes(
            "SELECT id, n FROM goods EMIT CHANGES;", properties={"auto.offset.reset": "earliest"}
        ):
            found.append((row["ID"], row["N"]))
            if len(found) == len(KEYS):
                server.loop.call_soon_threadsafe(count_on)
            if len(found) == 2 * len(KEYS):
                break
    contents, changes = found[: len(KEYS)], found[len(KEYS) :]
    assert sorted(contents) == [(key, number) for number, key in enumerate(KEYS)]
    assert sorted(changes) == [(key, 100 + number) for number, key in enumerate(KEYS)]
    assert proxy.cuts > 3
