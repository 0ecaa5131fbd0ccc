"""Reads the records of a query's batches, and runs one batch after the other.

SqlFeed      Spark SQL reads the records; Structured Streaming plans one batch after the other
PackedFeed   executors read and pack the records (ADR 29); a thread of the driver plans (ADR 30)
"""

from __future__ import annotations

import logging
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame

from holdfast.ingest.planner import Planner
from holdfast.ingest.ranges import kafka_ranges
from holdfast.runtime.queries.inputs import Inputs
from holdfast.runtime.queries.micro_batch import offsets_of_batch, plan_of_batch, rehearse
from holdfast.runtime.queries.packed_batch import PackedRead, run_packed
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.streams import PlannedStream, SparkStream, Stream
from holdfast.tasks.plan import Batch, QueryPlan, TaskReport
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import DATA_SOURCE, Planned

__all__ = ["Feed", "PackedFeed", "SqlFeed", "Taker", "Work", "planned_stream"]

_LOG = logging.getLogger(__name__)

Work = Callable[[Batch], list[TaskReport]]
"""Processes one batch exactly once; reads its records first."""


class Taker(Protocol):
    """The part of a query that its feed needs; the query owns its own progress."""

    done: dict[Place, int]
    batch_id: int

    @property
    def held(self) -> bool:
        """Whether the query is on hold and takes no batches."""

    def join(self, places: Mapping[Place, int]) -> None:
        """Adds new topic partitions, from these start offsets."""

    def moves_time(self, planned: Planned) -> bool:
        """Whether a batch without records emits results that were held back."""

    def take(
        self,
        batch_id: int,
        source: OffsetRange,
        planned: Planned,
        work: Work,
        unwanted: Callable[[], bool],
    ) -> None:
        """Runs the next batch, unless it is `unwanted` when its turn comes."""


class Feed(ABC):
    """Owns the inputs of a query's readers: topics, topic ids and options."""

    def __init__(self, services: Services, inputs: Inputs) -> None:
        self._services = services
        self._inputs = inputs
        # Only the ranges change from batch to batch.
        self._options = inputs.options({})

    @property
    def topics(self) -> tuple[str, ...]:
        """The source topics."""
        return self._inputs.topics

    @property
    def packed(self) -> bool:
        """Whether the rows bypass Spark SQL."""
        return self._inputs.packed

    def know(self, ids: Mapping[str, str]) -> None:
        """Sets the topic ids to which offsets belong from now on."""
        self._inputs = replace(self._inputs, ids=dict(ids))
        self._options = self._inputs.options({})

    def planner(self) -> Planner:
        """A planner of the ends of batches."""
        return Planner(self._options)

    @abstractmethod
    def work(self, source: OffsetRange) -> Work:
        """The work of one batch that covers `source`, outside of the stream."""

    @abstractmethod
    def stream(self, taker: Taker) -> Stream:
        """Starts the stream of batches from the offsets of `taker`."""

    @abstractmethod
    def rehearse(self, plan: QueryPlan) -> None:
        """Plans an empty batch, so that Spark SQL has loaded its classes before the first one."""


class PackedFeed(Feed):
    """Executors read the records and pack them; only for queries with state."""

    def __init__(self, services: Services, inputs: Inputs, plan: QueryPlan) -> None:
        super().__init__(services, inputs)
        self._plan = plan

    def work(self, source: OffsetRange) -> Work:
        return self._work

    def stream(self, taker: Taker) -> Stream:
        interval_ms = self._services.settings.ingest.trigger_interval_ms
        return planned_stream(taker, self._inputs, self.planner(), self.work, interval_ms)

    def rehearse(self, plan: QueryPlan) -> None:
        """Spark SQL has nothing to plan."""

    def _work(self, batch: Batch) -> list[TaskReport]:
        services, source = self._services, batch.source
        ranges = kafka_ranges(self._options, source.starts(), source.ends())
        read = PackedRead(self._options, ranges)
        return run_packed(services.context, read, self._plan, batch, services.cluster)


class SqlFeed(Feed):
    """Spark SQL reads the records.

    Args:
        tasks: runs the tasks of a batch over the rows that Spark has read.
    """

    def __init__(
        self,
        services: Services,
        inputs: Inputs,
        tasks: Callable[[DataFrame, Batch], list[TaskReport]],
    ) -> None:
        super().__init__(services, inputs)
        self._tasks = tasks
        application_id, query_id = services.settings.application_id, inputs.query.id
        run_folder = Path(services.settings.home, "run", application_id)
        self._checkpoint = (run_folder / "checkpoint" / query_id).resolve()

    def work(self, source: OffsetRange) -> Work:
        return self._work_on(self._bounded(source))

    def stream(self, taker: Taker) -> Stream:
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        inputs, first, initial = self._inputs, taker.batch_id, dict(taker.done)
        reader = self._services.sql().readStream.format(DATA_SOURCE)
        frame = reader.options(**inputs.options(initial).to_spark()).load()

        def on_batch(batch_frame: DataFrame, spark_batch_id: int) -> None:
            source = offsets_of_batch(
                self._checkpoint, spark_batch_id, inputs.topics, initial, inputs.ids
            )
            planned = plan_of_batch(self._checkpoint, spark_batch_id)
            if source.starts() == planned.end and not taker.moves_time(planned):
                return
            work = self._work_on(batch_frame)
            # Spark ends a stream only after its batch, so a query on hold was not started again.
            taker.take(first + spark_batch_id, source, planned, work, lambda: taker.held)

        interval_ms = self._services.settings.ingest.trigger_interval_ms
        return SparkStream(
            frame.writeStream.queryName(inputs.query.id)
            .foreachBatch(on_batch)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=f"{interval_ms} milliseconds")
            .start()
        )

    def rehearse(self, plan: QueryPlan) -> None:
        """Errors are only logged: they occur again, and are reported, when the query starts."""
        topics = self._inputs.topics
        nothing = {(topic, 0): 0 for topic in topics}
        try:
            rehearse(self._bounded(OffsetRange.over(topics, nothing, nothing)), plan)
        except Exception as error:  # noqa: BLE001 - nothing depends on it
            _LOG.debug("%s: no rehearsal: %s", plan.query.id, error)

    def _work_on(self, frame: DataFrame) -> Work:
        return lambda batch: self._tasks(frame, batch)

    def _bounded(self, source: OffsetRange) -> DataFrame:
        options = self._inputs.options(source.starts(), source.ends())
        reader = self._services.sql().read.format(DATA_SOURCE)
        return reader.options(**options.to_spark()).load()


def planned_stream(
    taker: Taker,
    inputs: Inputs,
    planner: Planner,
    work: Callable[[OffsetRange], Work],
    interval_ms: int,
) -> Stream:
    """A stream whose batches `planner` plans, in this process."""

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
        source, planned = found
        taker.take(taker.batch_id, source, planned, work(source), stopped)

    return PlannedStream(inputs.query.id, plan, take, interval_ms / 1000)
