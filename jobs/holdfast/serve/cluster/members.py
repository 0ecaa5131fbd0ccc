"""A job's servers as this one sees them: which should exist, and what each last reported."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.errors import HoldfastError, InvalidConfig
from holdfast.serve.cluster.peer import Peer, PeerSettings
from holdfast.serve.contract import Holding, Member, MemberState, PartitionState, ServedTable
from holdfast.serve.follow.standby import Standby

__all__ = ["Members", "Plan", "holders"]

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0
_UNKNOWN = 1 << 62  # lag of a holder that has not reported the partition


@dataclass(frozen=True)
class Plan:
    """The servers that should exist: ids `0` to `servers - 1`, as the pods of a StatefulSet.

    Attributes:
        me: this server's number.
        addresses: where peers reach each server, by number.
        copies: how many servers hold each partition.
    """

    me: int
    addresses: tuple[str, ...]
    copies: int

    @staticmethod
    def of(server_id: int, servers: int, copies: int, peers: str) -> Plan:
        """Make a plan from the options of `holdfast serve`.

        Args:
            peers: addresses separated by commas, or one with `{id}` in it.

        Raises:
            InvalidConfig: the numbers contradict each other.
        """
        given = [peer.strip().rstrip("/") for peer in peers.split(",") if peer.strip()]
        if len(given) == 1 and "{id}" in given[0]:
            given = [given[0].replace("{id}", str(number)) for number in range(servers)]
        if len(given) != servers or not 0 <= server_id < servers or copies < 1:
            raise InvalidConfig(
                f"Server {server_id} of {servers} with {copies} copies and {len(given)} addresses "
                "of peers: these do not fit each other.",
                action="count servers from 0; give --peers one address per server, or one with "
                "{id} in place of the number; --copies is 1 or more.",
            )
        return Plan(server_id, tuple(given), min(copies, servers))

    @property
    def ids(self) -> list[str]:
        """All servers' ids."""
        return [str(number) for number in range(len(self.addresses))]

    def holders(self, table: str, partition: int) -> list[str]:
        """Ids of the servers that should hold a partition."""
        return holders(self.ids, table, partition, self.copies)


class Members:
    """Owns the connections to peers and asks each for its state every second; see `Cluster`."""

    def __init__(
        self,
        plan: Plan,
        settings: PeerSettings,
        standbys: Callable[[], Sequence[Standby]],
        expected: Callable[[], Mapping[str, ServedTable] | None],
    ) -> None:
        """No peer is asked before `run`.

        Args:
            standbys: what this server holds.
            expected: the tables that should be served, to tell what is still missing here; None:
                not known yet.
        """
        self.plan = plan
        self.me = str(plan.me)
        self._standbys = standbys
        self._expected = expected
        self._peers: dict[str, Peer] = {}
        self._seen: dict[str, Member] = {}
        self._states: dict[str, dict[tuple[str, int], PartitionState]] = {}
        self._settings = settings
        self._ready = False
        for server, address in zip(plan.ids, plan.addresses, strict=True):
            if server != self.me:
                self._seen[server] = Member(server, address, MemberState.GONE, 0)

    def members(self) -> Sequence[Member]:
        """See `Cluster`."""
        others = list(self._seen.values())
        return sorted([*others, self.myself()], key=lambda member: int(member.server_id))

    def holders(self, table: ServedTable, partition: int) -> Sequence[Member]:
        """See `Cluster`."""
        members = {member.server_id: member for member in self.members()}
        return [members[server] for server in self.ranked(table.held_as, partition)]

    def ranked(self, table: str, partition: int) -> list[str]:
        """Ids of the partition's holders, best first: this server, then those that answer, by
        lag.
        """
        servers = self.plan.holders(table, partition)
        if len(servers) == 1:
            return servers

        def rank(server: str) -> tuple[bool, bool, int]:
            if server == self.me:
                return False, False, 0
            state = self._states.get(server, {}).get((table, partition))
            gone = self._seen[server].state is MemberState.GONE
            return True, gone, _UNKNOWN if state is None else state.lag

        return sorted(servers, key=rank)

    def state_of(self, server: str, table: str, partition: int) -> PartitionState | None:
        """The state of a partition that a peer last reported."""
        return self._states.get(server, {}).get((table, partition))

    def is_gone(self, server: str) -> bool:
        """Whether a peer did not answer the last request."""
        return server != self.me and self._seen[server].state is MemberState.GONE

    def peer(self, server: str) -> Peer:
        """The connections to another server."""
        found = self._peers.get(server)
        if found is None:
            address = self.plan.addresses[int(server)]
            found = self._peers[server] = Peer(server, address, self._settings)
        return found

    def myself(self) -> Member:
        """This server's state, as reported to peers."""
        held = tuple(Holding(s.table.held_as, s.partition, s.state()) for s in self._standbys())
        address = self.plan.addresses[self.plan.me]
        # A table that is added later must not make this server unready for all others.
        self._ready = self._ready or self._has_all(held)
        state = MemberState.READY if self._ready else MemberState.STARTING
        return Member(self.me, address, state, int(time.time() * 1000), held)

    def _has_all(self, held: Sequence[Holding]) -> bool:
        """Whether every partition that this server should hold has been restored."""
        expected = self._expected()
        done = {(h.held_as, h.partition) for h in held if not h.state.restoring}
        return expected is not None and all(
            (table.held_as, partition) in done
            for table in expected.values()
            for partition in range(table.partitions)
            if self.me in self.plan.holders(table.held_as, partition)
        )

    async def run(self) -> None:
        """Ask all peers periodically until cancelled."""
        try:
            while True:
                await self.ask_all()
                await asyncio.sleep(_EVERY_S)
        finally:
            for peer in self._peers.values():
                await peer.close()

    async def ask_all(self) -> None:
        """Ask every peer now."""
        await asyncio.gather(*(self._ask(server) for server in self._seen))

    async def _ask(self, server: str) -> None:
        before = self._seen[server]
        try:
            told = await self.peer(server).health()
        except HoldfastError as error:
            self._seen[server] = replace(before, state=MemberState.GONE)
            if before.state is not MemberState.GONE:
                _LOG.warning("Server %s is gone: %s", server, error.fact)
            return
        if before.state is MemberState.GONE:
            _LOG.info("Server %s answers", server)
        self._seen[server] = replace(told, address=before.address)
        self._states[server] = {(h.held_as, h.partition): h.state for h in told.holdings}


def holders(servers: Sequence[str], table: str, partition: int, copies: int) -> list[str]:
    """The servers that should hold a partition, by rank; all servers when there are too few.

    Every server computes the same result from the ids alone.
    """
    ranked = sorted(servers, key=lambda server: _weight(server, table, partition), reverse=True)
    return ranked[: max(copies, 1)]


def _weight(server: str, table: str, partition: int) -> tuple[bytes, str]:
    name = f"{server}/{partition}/{table}".encode()
    return hashlib.blake2b(name, digest_size=8).digest(), server
