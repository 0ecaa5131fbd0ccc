"""The Spark data source `holdfast-kafka`: one input partition per topic partition, in Arrow.

The driver plans batches (`KafkaStream`, `KafkaBatch`: offsets only), the executors read them
(`holdfast.ingest.reading`: records only).  Spark pickles both readers, so they hold nothing but
the options.  The inputs of a query are one stream: their batches are cut together.

Three of the driver's Python processes import this module for a stream, and hardly use it: what
reads is imported when something is read.
"""

from __future__ import annotations

import logging
import time
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

from holdfast.errors import DataLoss
from holdfast.ingest.batch_size import BatchSize
from holdfast.ingest.level import level_end
from holdfast.ingest.offsets import batch_end, check_available
from holdfast.ingest.ranges import KafkaRange, kafka_ranges
from holdfast.types.ids import Place
from holdfast.types.ingest import (
    DATA_SOURCE,
    PLANNED,
    IngestOptions,
    places_from_spark,
    places_to_spark,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.transport.admin import Admin

__all__ = ["KafkaBatch", "KafkaDataSource", "KafkaStream"]

_LOG = logging.getLogger(__name__)
_A_DAY_MS = 86_400_000  # how far ahead of this machine's clock a record's time may be
_PARTS = (0.9, 0.6)  # of the limit: where a batch's end is looked for first, by the last one's pace


class KafkaDataSource(DataSource):
    """Register with `spark.dataSource.register(KafkaDataSource)`; options by `IngestOptions`."""

    @classmethod
    def name(cls) -> str:
        return DATA_SOURCE

    def schema(self) -> str:
        options = self._options()
        if options.packing is not None:
            return PLANNED
        from holdfast.ingest.records import ddl

        return ddl(options)

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
        bounds = _bounds(self._options)
        ends = {
            (i.source.topic, p): o for i in self._options.inputs for p, o in (i.end or {}).items()
        }
        end = ends or {place: high for place, (_, high) in bounds.items()}
        start = _first(self._options, bounds)
        if self._options.fail_on_data_loss:
            _check({place: start.get(place, 0) for place in end}, bounds)
        return kafka_ranges(self._options, start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class KafkaStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An endless read in batches of what `BatchSize` says."""

    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._size = BatchSize(options.max_offsets_per_trigger, options.batch_target_ms)
        self._target: dict[Place, int] | None = None  # where Trigger.AvailableNow ends
        self._cut = (0, 0.0)  # the record time where the last batch ended, ms per offset of it

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return places_to_spark(_first(self._options, self._bounds()))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = self._options.max_offsets_per_trigger
        return ReadMaxRows(most) if most > 0 else ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, Mapping[str, int]], limit: ReadLimit
    ) -> dict[str, dict[str, int]]:
        """Where the next batch ends; `start` itself when there is nothing new.

        Raises:
            DataLoss: records from `start` on are gone, and that is to fail.
        """
        begin, bounds = places_from_spark(start), self._bounds()
        self._check(begin, bounds)
        if self._target is not None:
            ends = self._target
            bounds = {
                p: (low, min(high, ends[p])) for p, (low, high) in bounds.items() if p in ends
            }
        end = self._end(begin, bounds, self._size.limit())
        offsets = _taken(begin, end, bounds)
        self._size.planned(offsets, cut=any(end[p] < high for p, (_, high) in bounds.items()))
        return places_to_spark(end)

    def reportLatestOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return places_to_spark({p: high for p, (_, high) in self._bounds().items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = {p: high for p, (_, high) in self._bounds().items()}

    def partitions(
        self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> Sequence[KafkaRange]:
        return kafka_ranges(self._options, places_from_spark(start), places_from_spark(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def _end(
        self, begin: dict[Place, int], bounds: Mapping[Place, tuple[int, int]], limit: int | None
    ) -> dict[Place, int]:
        end = batch_end(begin, bounds, limit)
        several = len({topic for topic, _ in bounds}) > 1
        if limit is None or not several or all(end[p] >= high for p, (_, high) in bounds.items()):
            return end
        newest_ms = int(time.time() * 1000) + _A_DAY_MS
        last, pace = self._cut
        guesses = (*(last + round(part * limit * pace) for part in _PARTS), last)
        found = level_end(begin, bounds, limit, newest_ms, self._first_at, guesses)
        if found is None:
            return end
        self._cut = (found[0], (found[0] - last) / max(_taken(begin, found[1], bounds), 1))
        return found[1]

    def _first_at(self, time_ms: int) -> dict[Place, int]:
        asked, topics = _admin(self._options), _topics(self._options)
        found = {topic: asked.first_at(topic, time_ms) for topic in topics}
        return {(topic, p): offset for topic, of in found.items() for p, offset in of.items()}

    def _bounds(self) -> dict[Place, tuple[int, int]]:
        return _bounds(self._options)

    def _check(self, begin: Mapping[Place, int], bounds: Mapping[Place, tuple[int, int]]) -> None:
        try:
            _check(begin, bounds)
        except DataLoss as error:
            if self._options.fail_on_data_loss:
                raise
            _LOG.warning("DATA LOSS, going on as fail.on.data.loss=false says: %s", error.fact)


def _read(options: IngestOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    from holdfast.ingest.reading import read

    return read(options, partition)


def _admin(options: IngestOptions) -> Admin:
    from holdfast.ingest.readers import admin

    return admin(options.kafka)


def _topics(options: IngestOptions) -> list[str]:
    """Each once: a self-join has one topic on both sides."""
    return list(dict.fromkeys(each.source.topic for each in options.inputs))


def _bounds(options: IngestOptions) -> dict[Place, tuple[int, int]]:
    found = {topic: _admin(options).bounds(topic) for topic in _topics(options)}
    return {(topic, p): bounds for topic, of in found.items() for p, bounds in of.items()}


def _taken(
    begin: Mapping[Place, int], end: Mapping[Place, int], bounds: Mapping[Place, tuple[int, int]]
) -> int:
    """How many offsets a batch has; those of new topic partitions from their log's start."""
    return sum(end[p] - begin.get(p, low) for p, (low, _) in bounds.items())


def _first(options: IngestOptions, bounds: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
    latest = options.auto_offset_reset == "latest"
    given = {(i.source.topic, p): o for i in options.inputs for p, o in i.start.items()}
    return {place: high if latest else low for place, (low, high) in bounds.items()} | given


def _check(begin: Mapping[Place, int], bounds: Mapping[Place, tuple[int, int]]) -> None:
    for topic in sorted({topic for topic, _ in begin}):
        check_available(
            topic,
            {p: offset for (of, p), offset in begin.items() if of == topic},
            {p: found for (of, p), found in bounds.items() if of == topic},
        )
