"""Times of the tasks that read a batch, which have no report of their own: Spark gathers them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from holdfast.types.trace_links import TraceLink

__all__ = ["ReadTime", "ReadTimes", "read_times"]


@dataclass(frozen=True)
class ReadTime:
    """When a task has read, evaluated and packed a topic partition, in seconds since 1970.

    `offsets`: how many it has read; transactions' markers are among them.  `links`: to the traces
    of its records.
    """

    topic: str
    partition: int
    began_s: float
    ended_s: float
    offsets: int
    links: tuple[TraceLink, ...] = ()


ReadTimes = Accumulator[list[ReadTime]]
"""What the tasks of a batch tell of their reading; Spark brings it to the driver."""


class _Gathered(AccumulatorParam[list[ReadTime]]):
    def zero(self, value: list[ReadTime]) -> list[ReadTime]:
        return []

    def addInPlace(  # noqa: N802 - Spark's name
        self, value1: list[ReadTime], value2: list[ReadTime]
    ) -> list[ReadTime]:
        return [*value1, *value2]


def read_times(context: SparkContext) -> ReadTimes:
    """An empty place for the times of one batch after the other; Spark never forgets it."""
    return context.accumulator([], _Gathered())
