"""The Spark data source `holdfast-kafka`: one input partition per topic partition, in Arrow.

The driver plans batches (`KafkaStream`, `KafkaBatch`: offsets only), the executors read them
(`holdfast.ingest.reading`: records only).  Spark pickles both readers, so they hold no client.

Three of the driver's Python processes import this module for a stream, and hardly use it: what
reads is imported when something is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from holdfast.ingest.planner import Planner, bounds_of, check_all, first_offsets
from holdfast.ingest.ranges import KafkaRange, kafka_ranges
from holdfast.types.ids import Place
from holdfast.types.ingest import (
    DATA_SOURCE,
    IngestOptions,
    places_from_spark,
    places_to_spark,
    plan_from_spark,
    plan_to_spark,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaBatch", "KafkaDataSource", "KafkaStream"]


class KafkaDataSource(DataSource):
    """Register with `spark.dataSource.register(KafkaDataSource)`; options by `IngestOptions`."""

    @classmethod
    def name(cls) -> str:
        return DATA_SOURCE

    def schema(self) -> str:
        from holdfast.ingest.records import ddl

        return ddl(self._options())

    def reader(self, schema: StructType) -> KafkaBatch:
        return KafkaBatch(self._options())

    def streamReader(self, schema: StructType) -> KafkaStream:  # noqa: N802 - Spark's name
        return KafkaStream(self._options())

    def _options(self) -> IngestOptions:
        return IngestOptions.from_spark(self.options)


class KafkaBatch(DataSourceReader):
    """A bounded read from `start` to `end` of every input's options."""

    def __init__(self, options: IngestOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[KafkaRange]:
        """Raises `DataLoss`: the range is no longer there."""
        bounds = bounds_of(self._options)
        ends = {
            (i.source.topic, p): o for i in self._options.inputs for p, o in (i.end or {}).items()
        }
        end = ends or {place: high for place, (_, high) in bounds.items()}
        start = first_offsets(self._options, bounds)
        if self._options.fail_on_data_loss:
            check_all({place: start.get(place, at) for place, at in end.items()}, bounds)
        return kafka_ranges(self._options, start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class KafkaStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An endless read in batches of what `Planner` says."""

    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._planner = Planner(options)
        self._target: dict[Place, int] | None = None  # where Trigger.AvailableNow ends

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return places_to_spark(self._planner.first())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = self._options.max_offsets_per_trigger
        return ReadMaxRows(most) if most > 0 else ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, Mapping[str, int]], limit: ReadLimit
    ) -> dict[str, dict[str, int]]:
        """Where the next batch ends; `start` itself when there is nothing new.

        A watermark that has gone on is a batch of its own, without records: results that were
        held back are told (`SqlFeed` passes over one that tells nothing).

        Raises:
            DataLoss: records from `start` on are gone, and that is to fail.
        """
        last = plan_from_spark(start)
        planned = self._planner.plan(last.end, self._target)
        new = planned.end != last.end or planned.watermark > last.watermark
        return plan_to_spark(planned) if new else {topic: dict(of) for topic, of in start.items()}

    def reportLatestOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return places_to_spark(self._planner.newest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._planner.newest()

    def partitions(
        self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> Sequence[KafkaRange]:
        return kafka_ranges(self._options, places_from_spark(start), places_from_spark(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


def _read(options: IngestOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    from holdfast.ingest.reading import read

    return read(options, partition)
