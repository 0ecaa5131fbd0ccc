"""Requests between servers, over TLS with certificates on both sides and a token."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import pytest

from holdfast.errors import NoHolder, StoreBehind
from holdfast.local.broker import BrokerStatus
from holdfast.local.probe import free_port
from holdfast.serve.cluster.members import Plan
from holdfast.serve.cluster.peer import Peer, PeerSettings
from holdfast.serve.contract import EVERY_WINDOW, MemberState
from holdfast.serve.follow.catalog import Script
from holdfast.serve.follow.local import Terms
from holdfast.serve.follow.restorer import Restorer
from holdfast.serve.http.server import Listen
from holdfast.serve.node import Node
from holdfast.serve.server import answering
from tests.support.jobs.table_job import TableJob, settings_of
from tests.support.servers.certificates import Authority

TOKEN = "of all servers"
WAIT_S = 30.0


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[TableJob]:
    topic = kafka_topic_name("in")
    job = TableJob(settings_of(kafka.bootstrap_servers, f"{topic}-app", tmp_path, 1), topic)
    yield job
    job.close()


@asynccontextmanager
async def plainly(job: TableJob, number: int, ports: list[int]) -> AsyncIterator[Node]:
    """One of several servers without TLS, each of which holds everything."""
    script = Script("job", lambda: job.sql, lambda: (job.topology, job.settings))
    plan = Plan(number, tuple(f"http://127.0.0.1:{port}" for port in ports), len(ports))
    listen = Listen(port=ports[number], peer_token=TOKEN)
    async with answering([script], job.settings, plan, listen, PeerSettings(TOKEN)) as node:
        yield node


@asynccontextmanager
async def served(job: TableJob, folder: Path) -> AsyncIterator[tuple[Node, str, ssl.SSLContext]]:
    """A server, its address, and what a peer connects with."""
    authority = Authority("peers", folder)
    cert, key = authority.issue("server")
    tls = ssl.create_default_context(cafile=authority.path)
    tls.load_cert_chain(*authority.issue("other"))
    listen = Listen(
        port=free_port(), cert=cert, key=key, client_ca=authority.path, peer_token=TOKEN
    )
    script = Script("job", lambda: job.sql, lambda: (job.topology, job.settings))
    # The other server is not there; this one holds everything.
    plan = Plan(0, (listen.url, "https://127.0.0.1:1"), 2)
    peers = PeerSettings(TOKEN, tls)
    async with answering([script], job.settings, plan, listen, peers) as node:
        yield node, listen.url, tls


async def following(node: Node) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            if any(standby.following for standby in node.follower.standbys()):
                return
            await asyncio.sleep(0.02)


def test_a_peer_gives_rows_ranges_and_changes(job: TableJob, tmp_path: Path) -> None:
    async def run() -> None:
        end = job.commit({f"k{i:04}": 1 for i in range(2_500)})[0]
        async with served(job, tmp_path) as (node, url, tls):
            peer = Peer("0", url, PeerSettings(TOKEN, tls))
            await following(node)
            told = await peer.health()
            assert told.state is MemberState.READY
            (held,) = told.holdings
            assert (held.table, held.state.rows, held.state.restoring) == ("COUNTS", 2_500, False)

            one, none = await asyncio.gather(
                peer.get("COUNTS", {0: [b"k0007"]}, EVERY_WINDOW, Terms()),
                peer.get("COUNTS", {0: [b"nobody"]}, EVERY_WINDOW, Terms(max_lag=1_000)),
            )
            assert (one.keys, none.keys) == ([b"k0007"], [])
            assert one.states[0].position >= end
            with pytest.raises(StoreBehind, match="is asked for"):
                await peer.get("COUNTS", {0: [b"k"]}, EVERY_WINDOW, Terms(None, {0: end + 99}))
            with pytest.raises(NoHolder, match="does not hold"):
                await peer.get("OTHER", {0: [b"k"]}, EVERY_WINDOW, Terms())

            found = [
                key
                async for part in peer.scan("COUNTS", 0, (b"k0100", b"k2400"), None, Terms())
                for key in part.keys
            ]
            assert found == [f"k{i:04}".encode() for i in range(100, 2_400)]

            changes = peer.changes("COUNTS", 0, None, snapshot=True)
            async with aclosing(changes), asyncio.timeout(WAIT_S):
                contents = 0
                async for change in changes:
                    contents += len(change.keys)
                    if change.last:
                        break
                assert contents == 2_500
                job.commit({"k0001": 1})
                change = await anext(changes)
                assert (change.keys, change.snapshot) == ([b"k0001"], False)
            await peer.close()

    asyncio.run(run())


async def count_of(node: Node, key: str) -> tuple[str, int]:
    """Which server's store has answered, and what."""
    table = node.catalog.tables()["COUNTS"]
    found = await node.reader.get(table, [table.key_of([key])])
    (state,) = found.states.values()
    (n,) = table.decode(found.keys, found.rows)["N"].to_pylist()
    return state.server, n


def test_an_old_store_answers_only_where_no_other_can(
    job: TableJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted server has the rows of its last run until it has read what came since."""

    async def run() -> None:
        ports = [free_port(), free_port()]
        job.commit({"a": 1})
        async with plainly(job, 1, ports) as old:
            await following(old)
        job.commit({"a": 1})
        async with plainly(job, 0, ports) as fresh:
            await following(fresh)
            monkeypatch.setattr(Restorer, "level", lambda *_: _raise(NoHolder("not yet")))
            async with plainly(job, 1, ports) as old:
                await answers(old, "0")
                assert await count_of(old, "a") == ("0", 2)
                async with aclosing(old.reader.scan(old.catalog.tables()["COUNTS"], 0)) as parts:
                    assert [s.server async for p in parts for s in p.states.values()] == ["0"]
                monkeypatch.undo()
                await answers(old, "1")
                assert await count_of(old, "a") == ("1", 2)
        monkeypatch.setattr(Restorer, "level", lambda *_: _raise(NoHolder("not yet")))
        job.commit({"a": 1})
        async with plainly(job, 1, ports) as old:
            await answers(old, "1")
            assert await count_of(old, "a") == ("1", 2)

    asyncio.run(run())


def _raise(error: Exception) -> None:
    raise error


async def answers(node: Node, server: str) -> None:
    """Waits until a server's store answers to this one."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with suppress(NoHolder, KeyError):
                if (await count_of(node, "a"))[0] == server:
                    return
            await asyncio.sleep(0.05)


def test_who_has_no_certificate_or_no_token_is_told_nothing(job: TableJob, tmp_path: Path) -> None:
    async def run() -> None:
        async with served(job, tmp_path) as (_, url, tls):
            bare = ssl.create_default_context(cafile=tmp_path / "authority.pem")
            for settings in (
                PeerSettings(TOKEN, bare),
                PeerSettings("another", tls),
                PeerSettings("", tls),
            ):
                peer = Peer("0", url, settings)
                with pytest.raises(NoHolder, match="does not answer as it should"):
                    await peer.health()
                await peer.close()

    asyncio.run(run())
