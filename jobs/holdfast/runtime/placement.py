"""A pure assignor of state partitions to volumes.

Volumes outlive executors: an executor that returns with its volume returns with its stores.  The
rules, in order: a partition stays where it is; otherwise it goes to the volume that holds its store
with the smallest lag (as in Kafka Streams' KIP-441); otherwise to the least loaded volume.  No
volume gets more than its fair share, rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

__all__ = ["assign"]


def assign(
    partitions: int,
    volumes: Mapping[int, Mapping[int, int]],
    previous: Mapping[int, int],
) -> dict[int, int]:
    """State partition -> volume.

    Args:
        partitions: P, the number of state partitions.
        volumes: for each live volume, state partition -> changelog position of the store on it.
        previous: the assignment until now; some of its volumes may be gone.

    Raises:
        ValueError: there is no live volume.
    """
    if not volumes:
        raise ValueError("no live volume to assign state partitions to")
    capacity = ceil(partitions / len(volumes))
    load = dict.fromkeys(sorted(volumes), 0)
    result: dict[int, int] = {}
    for partition, volume in _wishes(partitions, volumes, previous):
        if partition not in result and load[volume] < capacity:
            result[partition] = volume
            load[volume] += 1
    for partition in range(partitions):
        if partition not in result:
            volume = min(load, key=lambda v: (load[v], v))
            result[partition] = volume
            load[volume] += 1
    return result


def _wishes(
    partitions: int, volumes: Mapping[int, Mapping[int, int]], previous: Mapping[int, int]
) -> list[tuple[int, int]]:
    """(partition, volume) pairs, the most valuable first."""
    stay = [(p, v) for p, v in previous.items() if p < partitions and v in volumes]
    # Stores with most data are kept first: if a volume is over its share, the emptiest ones move.
    stay.sort(key=lambda pv: (-volumes[pv[1]].get(pv[0], 0), pv))
    held = [
        (-position, p, v)
        for v, stores in volumes.items()
        for p, position in stores.items()
        if p < partitions
    ]
    return stay + [(p, v) for _, p, v in sorted(held)]
