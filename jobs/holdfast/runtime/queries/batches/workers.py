"""The placement of a batch's tasks, and several state partitions in one Python worker."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from holdfast.ingest.ranges import KafkaRange
from holdfast.tasks.plan import Assigned
from holdfast.tasks.worker import Answer

__all__ = ["AT_ONCE", "by_location", "reader_of", "side_by_side", "spare_the_collector"]

# State partitions per executor at a time: one computes while another's transaction ends.
AT_ONCE = 4


def by_location(
    pending: Sequence[int], where: Mapping[int, tuple[Assigned, str]]
) -> list[tuple[str, dict[int, Assigned]]]:
    """Executor locations, each with its pending state partitions and where they are assigned."""
    found: dict[str, dict[int, Assigned]] = {}
    for partition in pending:
        assigned, location = where[partition]
        found.setdefault(location, {})[partition] = assigned
    return sorted(found.items())


def reader_of(wanted: KafkaRange, locations: Sequence[str]) -> str:
    """The executor that reads a range; the same from batch to batch."""
    return locations[(wanted.partition + wanted.side) % len(locations)]


def side_by_side(
    work: Callable[[int], Answer], partitions: Iterable[int], at_once: int
) -> Iterator[Answer]:
    """The answers of state partitions, in order; works on a limited number in parallel."""
    if at_once == 1:
        yield from map(work, partitions)
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, partitions)


def spare_the_collector() -> None:
    """Freezes all objects of the worker, so that the garbage collector skips them.

    Spark runs a collection after every task, which takes 50 ms for imported modules: a sixth of a
    batch.  Right after a collection hardly any garbage is frozen.
    """
    gc.freeze()
