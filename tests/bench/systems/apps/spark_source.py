"""Holdfast's planner and readers as a Spark data source, for Spark's own stateful aggregation.

The driver plans batches (offsets only), the executors read them.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from holdfast.ingest.planner import Planner, bounds_of
from holdfast.ingest.ranges import KafkaRange, kafka_ranges
from holdfast.types.ids import Place
from holdfast.types.ingest import IngestOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMAT", "KafkaDataSource", "options_of", "places_from_spark"]

FORMAT = "bench-kafka"
_OPTION = "options"
_ADDED = "`__partition` INT, `__offset` BIGINT, `__timestamp` BIGINT, `__tombstone` BOOLEAN"
_Offsets = Mapping[str, Mapping[str, int]]  # by topic and partition


def options_of(options: IngestOptions) -> dict[str, str]:
    """The options to give to `DataStreamReader.options`."""
    return {_OPTION: base64.b64encode(pickle.dumps(options)).decode()}


class KafkaDataSource(DataSource):
    """Register with `spark.dataSource.register(KafkaDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        options = self._ingest()
        types = {column.name: column.type for column in options.source.readable}
        named = (f"`{name}` {types[name].spark()}" for name in options.columns)
        return ", ".join((*named, _ADDED))

    def streamReader(self, schema: StructType) -> KafkaStream:  # noqa: N802 - Spark's name
        return KafkaStream(self._ingest())

    def _ingest(self) -> IngestOptions:
        found: IngestOptions = pickle.loads(base64.b64decode(self.options[_OPTION]))
        return found


class KafkaStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An unbounded read in the batches of `Planner`; Spark pickles it, so it holds no client."""

    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._planner = Planner(options)
        self._target: dict[Place, int] | None = None

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        bounds = bounds_of(self._options)
        return _places_to_spark({place: low for place, (low, _) in bounds.items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = self._options.max_offsets_per_trigger
        return ReadMaxRows(most) if most > 0 else ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: _Offsets, limit: ReadLimit
    ) -> dict[str, dict[str, int]]:
        return _places_to_spark(self._planner.plan(places_from_spark(start), self._target).end)

    def reportLatestOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return _places_to_spark(self._newest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._newest()

    def _newest(self) -> dict[Place, int]:
        return {place: high for place, (_, high) in bounds_of(self._options).items()}

    def partitions(self, start: _Offsets, end: _Offsets) -> Sequence[InputPartition]:
        ranges = kafka_ranges(self._options, places_from_spark(start), places_from_spark(end))
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from holdfast.ingest.reading import read

        wanted: KafkaRange = partition.value
        return read(self._options, wanted)


def _places_to_spark(offsets: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """Offsets in Spark's offset format."""
    found: dict[str, dict[str, int]] = {}
    for (topic, p), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(p)] = offset
    return found


def places_from_spark(offsets: _Offsets) -> dict[Place, int]:
    """Offsets by topic and partition, from Spark's offset format."""
    return {(topic, int(p)): int(o) for topic, of in offsets.items() for p, o in of.items()}
