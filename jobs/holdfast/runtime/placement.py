"""A pure assignor of state partitions to volumes: their owners, their standbys, their shares.

Volumes outlive executors: an executor that returns with its volume returns with its stores.

A volume's share is what it shall own in the end; shares are level.  A partition is only moved to
its share once the store there is warm, that is, lacks few changelog records: until then its owner
keeps it, and a standby on the share's volume follows the changelog (as in Kafka Streams' KIP-441).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil

__all__ = ["Goal", "Placement", "Stores", "placed"]


@dataclass(frozen=True)
class Stores:
    """A live volume.

    Attributes:
        lags: state partition -> changelog records that its store lacks; all of them if there is no
            store.
        node: the machine of its executor; empty: unknown.
    """

    lags: Mapping[int, int]
    node: str = ""


@dataclass(frozen=True)
class Goal:
    """The wishes of a query.

    Attributes:
        partitions: P, the number of state partitions.
        standbys: copies of each state partition beside its owner, if there are so many volumes.
        warm: changelog records that a store may lack to take over at once.
        keep: how many volumes have a share, 0: all; those with higher numbers are drained.
        copies: whether volumes can have standbys at all.
    """

    partitions: int
    standbys: int
    warm: int
    keep: int = 0
    copies: bool = True


@dataclass(frozen=True)
class Placement:
    """State partition -> volume of its owner, volumes of its standbys, volume of its share."""

    owners: Mapping[int, int] = field(default_factory=dict)
    standbys: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    shares: Mapping[int, int] = field(default_factory=dict)


def placed(goal: Goal, volumes: Mapping[int, Stores], last: Placement) -> Placement:
    """The placement among live volumes.

    Args:
        last: the placement until now; some of its volumes may be gone.

    Raises:
        ValueError: there is no live volume.
    """
    if not volumes:
        raise ValueError("no live volume to place state partitions on")
    shares = _shares(goal, volumes, last.shares or last.owners)
    if not goal.copies:
        return Placement(shares, {}, shares)
    owners = {
        p: _owner(goal, volumes, p, shares[p], last.owners.get(p)) for p in range(goal.partitions)
    }
    return Placement(owners, _standbys(goal, volumes, owners, shares, last.standbys), shares)


def _shares(goal: Goal, volumes: Mapping[int, Stores], last: Mapping[int, int]) -> dict[int, int]:
    """Level shares, which differ by one at most, and by little from the last ones."""
    staying = _staying(goal, volumes)
    few, more = divmod(goal.partitions, len(staying))
    load = dict.fromkeys(staying, 0)
    shares: dict[int, int] = {}
    stay = [(p, v) for p, v in last.items() if p < goal.partitions and v in load]
    stay.sort(key=lambda pair: (-_saved(volumes, staying, *pair), pair))
    for partition, volume in chain(stay, _by_lag(goal, volumes, staying)):
        if partition not in shares and load[volume] < few + (more > 0):
            shares[partition] = volume
            load[volume] += 1
            more -= load[volume] > few
        if len(shares) == goal.partitions:
            break
    return shares


def _staying(goal: Goal, volumes: Mapping[int, Stores]) -> list[int]:
    """The volumes that shall keep state."""
    return sorted(volumes)[: goal.keep or len(volumes)]


def _saved(
    volumes: Mapping[int, Stores], staying: Sequence[int], partition: int, volume: int
) -> int:
    """The records that need not be restored because the partition stays on its volume."""
    others = [volumes[v].lags[partition] for v in staying if v != volume]
    return min(others, default=0) - volumes[volume].lags[partition]


def _by_lag(
    goal: Goal, volumes: Mapping[int, Stores], staying: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """All (state partition, volume) pairs, those with least to restore first."""
    pairs = ((volumes[v].lags[p], p, v) for v in staying for p in range(goal.partitions))
    for _, partition, volume in sorted(pairs):
        yield partition, volume


def _owner(
    goal: Goal, volumes: Mapping[int, Stores], partition: int, share: int, last: int | None
) -> int:
    """The share if it is warm, or the last owner if that is, or whoever lacks least."""

    def rank(volume: int) -> tuple[int, bool, bool, int]:
        return volumes[volume].lags[partition], volume != share, volume != last, volume

    for volume in (share, last):
        if volume in volumes and volume is not None and rank(volume)[0] <= goal.warm:
            return volume
    return min(volumes, key=rank)


def _standbys(
    goal: Goal,
    volumes: Mapping[int, Stores],
    owners: Mapping[int, int],
    shares: Mapping[int, int],
    last: Mapping[int, tuple[int, ...]],
) -> dict[int, tuple[int, ...]]:
    """For each partition its share, if that has yet to be warmed, and the standbys asked for.

    They are on other nodes than the owner if possible, stay where they are, and are spread evenly.
    """
    load: Counter[int] = Counter()
    staying = {v: volumes[v].node for v in _staying(goal, volumes)}
    quota = ceil(goal.partitions * goal.standbys / len(staying))
    result: dict[int, tuple[int, ...]] = {}
    for partition, owner in owners.items():
        chosen = {owner, shares[partition]}
        for _ in range(min(goal.standbys, len(staying.keys() - chosen))):
            full = {v for v in load if load[v] >= quota}
            nodes = {volumes[v].node for v in chosen} - {""}
            near = {v for v, node in staying.items() if node in nodes}
            kept = last.get(partition, ())
            free = staying.keys() - chosen
            volume = min((v in near, v in full, v not in kept, load[v], v) for v in free)[-1]
            chosen.add(volume)
            load[volume] += 1
        result[partition] = tuple(sorted(chosen - {owner}))
    return result
