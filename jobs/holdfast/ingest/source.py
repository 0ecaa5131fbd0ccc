"""The Spark data source `holdfast-kafka`: one input partition per topic partition, in Arrow.

The driver plans batches (`KafkaStream`, `KafkaBatch`: offsets only), the executors read them
(`holdfast.ingest.reading`: records only).  Spark pickles both readers, so they hold no client.

Three of the driver's Python processes import this module for a stream and hardly use it, so the
modules for reading are only imported when records are read.
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
    """A bounded read from `start` to `end` in the options of each input."""

    def __init__(self, options: IngestOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[KafkaRange]:
        """Raises `DataLoss` if records of the range are gone."""
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
    """An unbounded read in the batches of `Planner`."""

    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._planner = Planner(options)
        self._target: dict[Place, int] | None = None  # the end of Trigger.AvailableNow

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return places_to_spark(self._planner.first())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = self._options.max_offsets_per_trigger
        return ReadMaxRows(most) if most > 0 else ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, Mapping[str, int]], limit: ReadLimit
    ) -> dict[str, dict[str, int]]:
        """The end of the next batch; `start` itself if there is no new data.

        If only the watermark has advanced, the batch has no records but emits the results that
        were held back (`SqlFeed` skips a batch without any).

        Raises:
            DataLoss: records from `start` on are gone, and `fail.on.data.loss` is set.
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
