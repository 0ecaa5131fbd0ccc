"""Placement of partitions by rendezvous hashing: few partitions move when servers change."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = ["holders"]


def holders(servers: Sequence[str], table: str, partition: int, copies: int) -> list[str]:
    """The servers that should hold a partition, by rank; all servers when there are too few.

    Every server computes the same result from the ids alone.
    """
    ranked = sorted(servers, key=lambda server: _weight(server, table, partition), reverse=True)
    return ranked[: max(copies, 1)]


def _weight(server: str, table: str, partition: int) -> tuple[bytes, str]:
    name = f"{server}/{partition}/{table}".encode()
    return hashlib.blake2b(name, digest_size=8).digest(), server
