"""Answers of a peer are dated by this server's clock, however wrong the peer's is."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast.serve.cluster import wire
from holdfast.serve.cluster.peer import Peer, PeerSettings
from holdfast.serve.contract import (
    EVERY_WINDOW,
    Holding,
    Member,
    MemberState,
    PartitionState,
    Rows,
)
from holdfast.serve.follow.local import Terms
from holdfast.types.freshness import age_s
from tests.support.servers.loopback_server import Handler, LoopbackServer

_CHECKED_S = 2.0  # so long ago the peer heard from Kafka


class _Off(LoopbackServer):
    """A query server whose clock is so many seconds ahead of this one."""

    def __init__(self, off_s: float) -> None:
        super().__init__(_OffHandler)
        self.off_s = off_s

    def now_ms(self, ago_s: float = 0.0) -> int:
        return int((time.time() + self.off_s - ago_s) * 1000)

    def state(self) -> PartitionState:
        return PartitionState(0, 5, 5, checked_ms=self.now_ms(_CHECKED_S))


class _OffHandler(Handler):
    server: _Off

    def respond(self, body: bytes) -> None:
        if self.path == "/internal/health":
            held = (Holding("T", 0, self.server.state()), Holding("U", 0, PartitionState(0, 0, 0)))
            me = Member("1", self.server.url, MemberState.READY, self.server.now_ms(), held)
            self.answer(200, wire.pack(wire.from_member(me)))
        else:
            rows = Rows([b"k"], [b"row"], {0: self.server.state()})
            self.answer(200, wire.pack([wire.from_rows(rows)]))


@pytest.mark.parametrize("off_s", [-600.0, 0.0, 600.0])
def test_a_peers_times_are_turned_to_this_servers_clock(off_s: float) -> None:
    async def run() -> None:
        with _Off(off_s) as server:
            peer = Peer("1", server.url, PeerSettings())
            told = await peer.health()
            rows = await peer.get("T", {0: [b"k"]}, EVERY_WINDOW, Terms())
            await peer.close()
        assert age_s(told.seen_ms) < 1
        known, unknown = (held.state for held in told.holdings)
        assert age_s(known.checked_ms) == pytest.approx(_CHECKED_S, abs=1)
        assert age_s(rows.states[0].checked_ms) == pytest.approx(_CHECKED_S, abs=1)
        assert unknown.checked_ms == 0, "it has not heard of this one yet"

    asyncio.run(run())
