"""The options of the Kafka data source, as Spark options (all strings).

Spark keeps offsets as JSON: `{"<topic>": {"<topic partition>": <next offset>}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.types.ids import Place
from holdfast.types.times import NO_TIME
from holdfast.types.topology import Query, Source

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "DATA_SOURCE",
    "IngestOptions",
    "Packing",
    "Planned",
    "places_from_spark",
    "places_to_spark",
    "plan_from_spark",
    "plan_to_spark",
    "side_prefix",
]

DATA_SOURCE = "holdfast-kafka"  # the name given to spark.readStream.format()
_OPTION = "ingest"


@dataclass(frozen=True)
class Packing:
    """A reader's parameters for packing (`tasks.pack.packing`): query and state partitions."""

    query: Query
    state_partitions: int


@dataclass(frozen=True)
class Planned:
    """The end offsets of a batch, and its times.

    Attributes:
        reached_ms: every topic partition is read up to this record time; None: unknown.
        watermark_ms: see `tasks.plan.Batch`.
    """

    end: dict[Place, int]
    reached_ms: int | None = None
    watermark_ms: int | None = None

    @property
    def watermark(self) -> int:
        """`watermark_ms`, or a time before every record if there is none."""
        return NO_TIME if self.watermark_ms is None else self.watermark_ms

    def joined_by(self, new: Mapping[Place, int]) -> Planned:
        """The batch plus new topic partitions at their starts, of which it reads no record."""
        watermark_ms = None if self.watermark_ms is None else NO_TIME
        return Planned({**self.end, **new}, NO_TIME, watermark_ms)


@dataclass(frozen=True)
class IngestOptions:
    """The options of one reader, passed as a single JSON option.

    Attributes:
        source: the stream or table to read and decode.
        kafka: librdkafka client properties (`bootstrap.servers`, `security.protocol` …).
        columns: names of the source's `readable` columns to return; others are not parsed.
        start: first offsets per topic partition; others follow `auto_offset_reset`.
        end: end offsets per topic partition, for a bounded (batch) read only.
        auto_offset_reset: "earliest" or "latest".
        max_offsets_per_trigger: limit per micro-batch over all topic partitions, 0 for none.
        batch_target_ms: how long a micro-batch should take; 0: as large as the limit allows.
        fail_on_data_loss: fail instead of continuing from the earliest offset left.
        on_undecodable: "dead-letter" or "fail".
        dead_letter_topic: the topic for undecodable records.
        progress_topic: the topic for the dead letters' commit markers.
        transactional_id_prefix: `<application.id>-<query>`, for the dead-letter producers.
        side: the number of this input of its query; 0 unless the query has several.
        others: the query's further inputs, in the order of their sides.  All are read as one, in
            common batches: a column SIDE distinguishes them, and the columns of a side have the
            prefix `side_prefix`.
        topic_id: the id of the source's topic, to which the offsets belong; empty: unknown.
        cuts: the file of `ingest.cuts`; empty: no query of this job writes a source.
        packing: return the query's payload by state partition instead of columns; then
            `reading.read_packed` reads, not Spark.
    """

    source: Source
    kafka: Mapping[str, str] = field(repr=False)
    columns: tuple[str, ...]
    start: Mapping[int, int] = field(default_factory=dict)
    end: Mapping[int, int] | None = None
    auto_offset_reset: str = "earliest"
    max_offsets_per_trigger: int = 0
    batch_target_ms: int = 0
    fail_on_data_loss: bool = True
    on_undecodable: str = "dead-letter"
    dead_letter_topic: str = ""
    progress_topic: str = ""
    transactional_id_prefix: str = ""
    side: int = 0
    topic_id: str = ""
    others: tuple[IngestOptions, ...] = ()
    packing: Packing | None = None
    cuts: str = ""

    @property
    def inputs(self) -> tuple[IngestOptions, ...]:
        """The options of each side."""
        return (self, *self.others)

    def to_spark(self) -> dict[str, str]:
        """The options to give to `DataStreamReader.options`."""
        return {_OPTION: _adapter().dump_json(self).decode()}

    @staticmethod
    def from_spark(options: Mapping[str, str]) -> IngestOptions:
        """The inverse of `to_spark`."""
        return _adapter().validate_json(options[_OPTION])


def _adapter() -> TypeAdapter[IngestOptions]:
    """The JSON adapter, created on demand: Pydantic takes 6 MB, which packed workers save."""
    from pydantic import TypeAdapter

    return TypeAdapter(IngestOptions)


def side_prefix(side: int) -> str:
    """The prefix of an input's column names if several inputs are read as one."""
    return f"__{side}_"


_TIMES = ""  # not a valid topic name


def plan_to_spark(plan: Planned) -> dict[str, dict[str, int]]:
    """A batch's end in Spark's offset format, with its times in place of a topic's offsets."""
    times = {"reached": plan.reached_ms, "watermark": plan.watermark_ms}
    known = {name: time for name, time in times.items() if time is not None}
    return {**places_to_spark(plan.end), _TIMES: known} if known else places_to_spark(plan.end)


def plan_from_spark(offsets: Mapping[str, Mapping[str, int]]) -> Planned:
    """The inverse of `plan_to_spark`."""
    times = offsets.get(_TIMES, {})
    return Planned(places_from_spark(offsets), times.get("reached"), times.get("watermark"))


def places_to_spark(offsets: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """Offsets in Spark's offset format."""
    found: dict[str, dict[str, int]] = {}
    for (topic, p), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(p)] = offset
    return found


def places_from_spark(offsets: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    """The inverse of `places_to_spark`; ignores a batch's times."""
    named = ((topic, of) for topic, of in offsets.items() if topic != _TIMES)
    return {(topic, int(p)): int(o) for topic, of in named for p, o in of.items()}
