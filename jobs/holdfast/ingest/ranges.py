"""The offsets that one ingest task reads: planned by the driver, sent to an executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.types.ids import Place
from holdfast.types.ingest import IngestOptions

__all__ = ["KafkaRange", "kafka_ranges"]


@dataclass(frozen=True)
class KafkaRange:
    """Offsets of one topic partition; `start` inclusive, `end` exclusive."""

    partition: int
    start: int
    end: int
    side: int = 0


def kafka_ranges(
    options: IngestOptions, start: Mapping[Place, int], end: Mapping[Place, int]
) -> list[KafkaRange]:
    """The ranges ordered by side and topic partition, without empty ones.

    A topic partition without a start is new and joins with an empty range (`Planner.end`).
    """
    found = [
        KafkaRange(p, start.get((topic, p), e), e, each.side)
        for each in options.inputs
        for (topic, p), e in sorted(end.items())
        if topic == each.source.topic
    ]
    return [r for r in found if r.start < r.end]
