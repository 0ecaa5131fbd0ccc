"""Splits the range by which state partitions lag behind the others into batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from holdfast.runtime.queries.start import Level
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import Planned

__all__ = ["pieces"]


class Plans(Protocol):
    """Plans the end of a batch: `ingest.planner.Planner`."""

    def plan(
        self, begin: Mapping[Place, int], target: Mapping[Place, int] | None = None
    ) -> Planned:
        """The batch that starts at `begin` and ends at `target` or before."""


def pieces(level: Level, plans: Plans) -> Iterator[tuple[OffsetRange, int | None]]:
    """Batches, each with its watermark, that together cover the range of `level`.

    A batch that other state partitions committed is repeated as planned.  The range between the
    ends of two drivers, or the whole history of a state partition that is rebuilt, is planned like
    any batch: as large as allowed, and not ahead in time.
    """
    source = level.source
    if level.planned:
        yield source, level.watermark_ms
        return
    begin, target = source.starts(), source.ends()
    while begin != target:
        planned = plans.plan(begin, target)
        end = planned.end
        if end == begin:  # records up to the target are gone: the reader will report it
            end = target
        yield OffsetRange.over(source.topics, begin, end, source.ids), planned.watermark_ms
        begin = end
