"""Plans the batches of a query and reads their records: one batch after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from holdfast.ingest.planner import Planner
from holdfast.ingest.ranges import KafkaRange, kafka_ranges
from holdfast.runtime.queries.inputs import Inputs
from holdfast.runtime.queries.streams import Stream
from holdfast.tasks.plan import Batch, TaskReport
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import IngestOptions, Planned

__all__ = ["Feed", "Read", "Taker"]


@dataclass(frozen=True)
class Read:
    """The ranges of a batch that executors read, of the inputs in `options`."""

    options: IngestOptions
    ranges: Sequence[KafkaRange]

    @property
    def records(self) -> int:
        """How many offsets the ranges have."""
        return sum(each.end - each.start for each in self.ranges)


class Taker(Protocol):
    """The part of a query that its feed needs; the query owns its own progress."""

    done: dict[Place, int]

    def join(self, places: Mapping[Place, int]) -> None:
        """Adds new topic partitions, from these start offsets."""

    def moves_time(self, planned: Planned) -> bool:
        """Whether a batch without records emits results that were held back."""

    def take(self, source: OffsetRange, planned: Planned, unwanted: Callable[[], bool]) -> None:
        """Runs the next batch, unless it is `unwanted` when its turn comes."""


class Feed:
    """Owns the inputs of a query's readers: topics, topic ids and options.

    Args:
        process: runs the tasks of a batch; they read its records.
    """

    def __init__(
        self, inputs: Inputs, process: Callable[[Read, Batch], list[TaskReport]], interval_ms: int
    ) -> None:
        self._inputs = inputs
        self._process = process
        self._interval_s = interval_ms / 1000
        # Only the ranges change from batch to batch.
        self._options = inputs.options()

    @property
    def topics(self) -> tuple[str, ...]:
        """The source topics."""
        return self._inputs.topics

    def know(self, ids: Mapping[str, str]) -> None:
        """Sets the topic ids to which offsets belong from now on."""
        self._inputs = replace(self._inputs, ids=dict(ids))
        self._options = self._inputs.options()

    def planner(self) -> Planner:
        """A planner of the ends of batches."""
        return Planner(self._options)

    def work(self, batch: Batch) -> list[TaskReport]:
        """Reads and processes one batch exactly once."""
        source = batch.source
        ranges = kafka_ranges(self._options, source.starts(), source.ends())
        return self._process(Read(self._options, ranges), batch)

    def stream(self, taker: Taker) -> Stream[tuple[OffsetRange, Planned]]:
        """Starts a thread that plans and runs batches from the offsets of `taker`."""
        planner, inputs = self.planner(), self._inputs

        def plan() -> tuple[OffsetRange, Planned] | None:
            planned = planner.plan(taker.done)
            if planned.end.keys() != taker.done.keys():
                taker.join(planned.end)
                planned = planner.plan(taker.done)
            begin = taker.done
            if begin == planned.end and not taker.moves_time(planned):
                return None
            return OffsetRange.over(inputs.topics, begin, planned.end, inputs.ids), planned

        def take(found: tuple[OffsetRange, Planned], stopped: Callable[[], bool]) -> None:
            taker.take(*found, stopped)

        return Stream(inputs.query.id, plan, take, self._interval_s)
