"""The Spark data source `holdfast-kafka`: one input partition per topic partition, in Arrow.

The driver plans batches (`KafkaStream`, `KafkaBatch`: offsets only), the executors read them
(`_Reading`: records only).  Spark pickles both readers, so they hold nothing but the options.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
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
from holdfast.ingest.dead_letters import DeadLetters, undecodable
from holdfast.ingest.offsets import (
    WAYS_OUT,
    Offsets,
    batch_end,
    check_available,
    from_spark,
    to_spark,
)
from holdfast.ingest.readers import admin, reader
from holdfast.ingest.records import BadRecord, RecordDecoder, ddl, wants_headers
from holdfast.transport.reader import Chunk, PartitionReader
from holdfast.types.ingest import DATA_SOURCE, IngestOptions

__all__ = ["KafkaBatch", "KafkaDataSource", "KafkaRange", "KafkaStream"]

_LOG = logging.getLogger(__name__)


class KafkaDataSource(DataSource):
    """Register with `spark.dataSource.register(KafkaDataSource)`; options by `IngestOptions`."""

    @classmethod
    def name(cls) -> str:
        return DATA_SOURCE

    def schema(self) -> str:
        return ddl(self._options())

    def reader(self, schema: StructType) -> KafkaBatch:
        return KafkaBatch(self._options())

    def streamReader(self, schema: StructType) -> KafkaStream:  # noqa: N802 - Spark's name
        return KafkaStream(self._options())

    def _options(self) -> IngestOptions:
        return IngestOptions.from_spark(self.options)


@dataclass
class KafkaRange(InputPartition):
    """Offsets of one topic partition; `start` inclusive, `end` exclusive.

    `fresh`: the topic partition is new to the query, it begins wherever its log does.
    """

    partition: int
    start: int
    end: int
    fresh: bool = False


class KafkaBatch(DataSourceReader):
    """A bounded read from `options.start` to `options.end`."""

    def __init__(self, options: IngestOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[KafkaRange]:
        """Raises `DataLoss`: the range is no longer there."""
        options = self._options
        bounds = admin(options.kafka).bounds(options.source.topic)
        end = {p: high for p, (_, high) in bounds.items()} if options.end is None else options.end
        start = {**_first(options, bounds), **options.start}
        if options.fail_on_data_loss:
            check_available(options.source.topic, {p: start.get(p, 0) for p in end}, bounds)
        return _ranges(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class KafkaStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An endless read in batches of what `BatchSize` says."""

    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._size = BatchSize(options.max_offsets_per_trigger, options.batch_target_ms)
        self._target: Offsets | None = None  # where Trigger.AvailableNow ends

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        bounds = self._bounds()
        return to_spark(self._topic, {**_first(self._options, bounds), **self._options.start})

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
        begin, bounds = from_spark(self._topic, start), self._bounds()
        self._check(begin, bounds)
        if self._target is not None:
            ends = self._target
            bounds = {
                p: (low, min(high, ends[p])) for p, (low, high) in bounds.items() if p in ends
            }
        end = batch_end(begin, bounds, self._size.limit())
        offsets = sum(end[p] - begin.get(p, low) for p, (low, _) in bounds.items())
        self._size.planned(offsets, cut=any(end[p] < high for p, (_, high) in bounds.items()))
        return to_spark(self._topic, end)

    def reportLatestOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return to_spark(self._topic, {p: high for p, (_, high) in self._bounds().items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = {p: high for p, (_, high) in self._bounds().items()}

    def partitions(
        self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> Sequence[KafkaRange]:
        return _ranges(from_spark(self._topic, start), from_spark(self._topic, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    @property
    def _topic(self) -> str:
        return self._options.source.topic

    def _bounds(self) -> dict[int, tuple[int, int]]:
        return admin(self._options.kafka).bounds(self._topic)

    def _check(self, begin: Offsets, bounds: Mapping[int, tuple[int, int]]) -> None:
        try:
            check_available(self._topic, begin, bounds)
        except DataLoss as error:
            if self._options.fail_on_data_loss:
                raise
            _LOG.warning("DATA LOSS, going on as fail.on.data.loss=false says: %s", error.fact)


def _first(options: IngestOptions, bounds: Mapping[int, tuple[int, int]]) -> Offsets:
    latest = options.auto_offset_reset == "latest"
    return {p: high if latest else low for p, (low, high) in bounds.items()}


def _ranges(start: Mapping[int, int], end: Mapping[int, int]) -> list[KafkaRange]:
    """In ascending order of topic partitions, without the empty ones."""
    found = [KafkaRange(p, start.get(p, 0), e, p not in start) for p, e in sorted(end.items())]
    return [r for r in found if r.start < r.end]


def _read(options: IngestOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Record batches of one input partition, on an executor.

    Raises:
        DataLoss: records are gone, and that is to fail.
        UndecodableRecord: a record cannot be decoded, and that is to fail.
    """
    if not isinstance(partition, KafkaRange):
        raise TypeError(f"{partition!r} is not an input partition of {DATA_SOURCE}")
    gc.freeze()  # Spark collects after every task; see `runtime.micro_batch`
    decoder = RecordDecoder(options)
    letters = DeadLetters(options, partition.partition)
    try:
        for chunk in _chunks(options, partition):
            batch, bad = decoder.decode(chunk, partition.partition)
            _set_aside(options, letters, partition.partition, bad)
            if batch.num_rows:
                yield batch
    finally:
        letters.close()


def _set_aside(
    options: IngestOptions, letters: DeadLetters, partition: int, bad: list[BadRecord]
) -> None:
    if bad and options.on_undecodable == "fail":
        raise undecodable(options, partition, bad[0])
    letters.write(bad)


def _chunks(options: IngestOptions, wanted: KafkaRange) -> Iterator[Chunk]:
    source = reader(
        options.kafka,
        options.transactional_id_prefix,
        options.source.topic,
        wanted.partition,
        headers=wants_headers(options),
    )
    start = wanted.start
    if wanted.fresh or not options.fail_on_data_loss:
        start, end = _what_is_left(source, wanted)
    else:
        end = wanted.end
    try:
        if start < end:
            yield from source.read(start, end)
    except DataLoss as error:
        raise DataLoss(error.fact, cause=error.cause, action=WAYS_OUT) from error


def _what_is_left(source: PartitionReader, wanted: KafkaRange) -> tuple[int, int]:
    """The part of a range that is still there; what is not is told loudly."""
    low, high = source.bounds()
    start, end = max(wanted.start, low), min(wanted.end, high)
    if (start, end) != (wanted.start, wanted.end) and not wanted.fresh:
        _LOG.warning(
            "DATA LOSS in topic %s partition %d: offsets %d to %d are to be read, %d to %d are "
            "there; going on with these as fail.on.data.loss=false says",
            source.topic,
            wanted.partition,
            wanted.start,
            wanted.end,
            low,
            high,
        )
    return start, end
