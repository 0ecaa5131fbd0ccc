"""In which pieces some state partitions are brought level with the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from holdfast.runtime.queries.start import Level
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import Planned

__all__ = ["pieces"]


class Plans(Protocol):
    """Says where a batch ends: `ingest.planner.Planner`."""

    def plan(
        self, begin: Mapping[Place, int], target: Mapping[Place, int] | None = None
    ) -> Planned:
        """The batch that starts at `begin`; it ends not beyond `target`."""


def pieces(level: Level, plans: Plans) -> Iterator[tuple[OffsetRange, int | None]]:
    """Batches, each with its watermark, that together are the range of `level`.

    A batch that others committed as it is comes as it was planned.  What lies between the ends of
    two drivers, or the whole history of a state partition that is built anew, is planned as any
    batch is: as large as it may be, and not ahead in time.
    """
    source = level.source
    if level.planned:
        yield source, level.watermark_ms
        return
    begin, target = source.starts(), source.ends()
    while begin != target:
        planned = plans.plan(begin, target)
        end = planned.end
        if end == begin:  # records up to the target are gone: its reader says so
            end = target
        yield OffsetRange.over(source.topics, begin, end, source.ids), planned.watermark_ms
        begin = end
