"""The heirs of state partitions if their number changes: who gets whose rows, and how they begin.

A key's state partition is its hash modulo their number, so with P before and P' now a *share* is
closed in itself, for each k < gcd(P, P'):

    P = 4, P' = 6       share 0: 0, 2 -> 0, 2, 4        share 1: 1, 3 -> 1, 3, 5
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import IncompatibleStatement, StoreCorrupted
from holdfast.state.changelog import FORMAT_VERSION, CommitMarker
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.processors.homes import homes
from holdfast.transport.partitioner import PARTITIONER, state_partitions
from holdfast.types.ids import OffsetRange
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.topology import AggregateStep, Emit, Query

__all__ = ["Beginnings", "Share", "check_times", "heirs", "shares"]


@dataclass(frozen=True)
class Share:
    """Former state partitions, and those of now that get their rows and no others."""

    old: tuple[int, ...]
    new: tuple[int, ...]


def shares(old: int, new: int) -> list[Share]:
    """The shares by which `old` state partitions become `new` ones."""
    count = math.gcd(old, new)
    return [Share(tuple(range(k, old, count)), tuple(range(k, new, count))) for k in range(count)]


def heirs(query: Query, share: Share, count: int, keys: Sequence[bytes]) -> list[int | None]:
    """The heir of each state key of a share; None: its row belongs to every heir.

    Args:
        count: the number of state partitions from now on.

    Raises:
        StoreCorrupted: a row was in a state partition that is not its own.
    """
    of = homes(query, keys)
    places = state_partitions(pa.array(of, pa.binary()), count).tolist()
    found = [None if home is None else place for home, place in zip(of, places, strict=True)]
    for place in set(found) - {None, *share.new}:
        raise _astray(query.id, keys[found.index(place)], place, share)
    return found


def check_times(query: Query, stream_times: Sequence[int], new: int) -> None:
    """Checks that state partitions that become one have closed the same windows.

    Args:
        stream_times: of the former state partitions.
        new: the number of state partitions from now on.

    Raises:
        IncompatibleStatement: windows would be emitted twice, or never.
    """
    step, former = query.step, len(stream_times)
    if not isinstance(step, AggregateStep) or step.emit is not Emit.FINAL or not former:
        return
    for share in shares(former, new):
        times = {stream_times[old] for old in share.old}
        if len(times) > 1:
            raise IncompatibleStatement(
                f"{query.id} has EMIT FINAL, and its state partitions {share.old} stand at "
                f"{len(times)} event times: as one they would emit windows twice, or never.",
                cause=f"there were {former} state partitions, there shall be {new}.",
                action=f"choose a multiple of {former}.",
            )


@dataclass(frozen=True)
class Beginnings:
    """Makes the first commit markers of the heirs of a share.

    Attributes:
        markers: the last ones of its former state partitions.
        source: the offsets from which all heirs go on, as an empty range.
        origin: see `CommitMarker`.
        savepoint: see `CommitMarker`.
    """

    plan: QueryPlan
    share: Share
    markers: Sequence[CommitMarker]
    source: OffsetRange
    origin: tuple[tuple[str, int, int], ...]
    savepoint: str = ""

    def marker(self, partition: int, rows: int = -1) -> CommitMarker:
        """The first commit marker of a state partition; `rows` of -1: unknown."""
        plan, query, markers = self.plan, self.plan.query, self.markers
        stream_time = max(marker.stream_time_ms for marker in markers)
        newest = max(_newest(marker) for marker in markers)
        watermarks = [m.watermark_ms for m in markers if m.watermark_ms is not None]
        # Only one may take over the share's counts, or they would grow.
        counting = markers if partition == self.share.new[0] else []
        return CommitMarker(
            format_version=FORMAT_VERSION,
            application_id=plan.settings.application_id,
            query_id=query.id,
            state_partition=partition,
            state_partitions=plan.state_partitions,
            partitioner=PARTITIONER,
            fingerprint=query.fingerprint(),
            canonical=query.canonical(),
            source=self.source,
            stream_time_ms=stream_time,
            batch_id=max(marker.batch_id for marker in markers),
            records=sum(marker.records for marker in counting),
            dropped_late=sum(marker.dropped_late for marker in counting),
            dropped_null_key=sum(marker.dropped_null_key for marker in counting),
            origin=self.origin,
            facts=statement_facts(query),
            watermark_ms=max(watermarks) if watermarks else None,
            newest_ms=newest if newest > stream_time else None,
            rows=rows,
            savepoint=self.savepoint,
            generation=plan.generation,
        )


def _astray(query_id: str, key: bytes, place: int | None, share: Share) -> StoreCorrupted:
    return StoreCorrupted(
        f"A row of {query_id} (state key of {len(key)} bytes) belongs to state partition {place}, "
        f"and was stored in one of {share.old}, whose rows go to {share.new}.",
        cause="it was written by a version with another layout of state keys.",
        action="keep the number of state partitions.",
    )


def _newest(marker: CommitMarker) -> int:
    return marker.stream_time_ms if marker.newest_ms is None else marker.newest_ms
