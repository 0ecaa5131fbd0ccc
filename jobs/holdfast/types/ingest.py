"""What the runtime tells the Kafka data source, as Spark options (all strings).

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
    """What a reader must know to pack (`tasks.pack.packing`): query and state partitions."""

    query: Query
    state_partitions: int


@dataclass(frozen=True)
class Planned:
    """Where a batch ends, and in which times.

    Attributes:
        reached_ms: every topic partition has been read up to this record time; None: unknown.
        watermark_ms: see `tasks.plan.Batch`.
    """

    end: dict[Place, int]
    reached_ms: int | None = None
    watermark_ms: int | None = None

    @property
    def watermark(self) -> int:
        """`watermark_ms`; without one, before every record."""
        return NO_TIME if self.watermark_ms is None else self.watermark_ms

    def joined_by(self, new: Mapping[Place, int]) -> Planned:
        """The batch with new topic partitions, by their starts: it reads none of their records."""
        watermark_ms = None if self.watermark_ms is None else NO_TIME
        return Planned({**self.end, **new}, NO_TIME, watermark_ms)


@dataclass(frozen=True)
class IngestOptions:
    """Everything one reader needs; it travels as a single JSON option.

    Attributes:
        source: the stream or table to read and decode.
        kafka: librdkafka client properties (`bootstrap.servers`, `security.protocol` …).
        columns: names of the source's `readable` columns to give; others are not even parsed.
        start: first offsets per topic partition; others follow `auto_offset_reset`.
        end: end offsets per topic partition, for a bounded (batch) read only.
        auto_offset_reset: "earliest" or "latest".
        max_offsets_per_trigger: limit per micro-batch over all topic partitions, 0 for none.
        batch_target_ms: how long a micro-batch shall take; 0: as large as the limit allows.
        fail_on_data_loss: fail, rather than go on from the earliest offset left.
        on_undecodable: "dead-letter" or "fail".
        dead_letter_topic: where undecodable records go.
        progress_topic: where the dead letters' commit markers go.
        transactional_id_prefix: `<application.id>-<query>`, for the dead-letter producers.
        side: which input of its query this is; 0 unless the query has several.
        others: the query's further inputs, in the order of their sides.  All are read as one, in
            batches that are cut together: a column SIDE tells them apart, and the columns of a
            side are called `side_prefix` and their name.
        topic_id: of the source's topic, which the offsets are of; empty: unknown.
        cuts: file of `ingest.cuts`; empty: no query of this job writes a source.
        packing: make the query's payload, cut by state partition, instead of columns; then
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
        """One per side."""
        return (self, *self.others)

    def to_spark(self) -> dict[str, str]:
        """The options to give to `DataStreamReader.options`."""
        return {_OPTION: _adapter().dump_json(self).decode()}

    @staticmethod
    def from_spark(options: Mapping[str, str]) -> IngestOptions:
        """The inverse of `to_spark`."""
        return _adapter().validate_json(options[_OPTION])


def _adapter() -> TypeAdapter[IngestOptions]:
    """Pydantic is 6 MB, which the workers of packed jobs do without: nothing becomes JSON there."""
    from pydantic import TypeAdapter

    return TypeAdapter(IngestOptions)


def side_prefix(side: int) -> str:
    """What stands before the column names of an input, where several are read as one."""
    return f"__{side}_"


_TIMES = ""  # no topic is called so


def plan_to_spark(plan: Planned) -> dict[str, dict[str, int]]:
    """A batch's end as Spark keeps it; with its times, as if they were a topic's offsets."""
    times = {"reached": plan.reached_ms, "watermark": plan.watermark_ms}
    known = {name: time for name, time in times.items() if time is not None}
    return {**places_to_spark(plan.end), _TIMES: known} if known else places_to_spark(plan.end)


def plan_from_spark(offsets: Mapping[str, Mapping[str, int]]) -> Planned:
    """The inverse of `plan_to_spark`."""
    times = offsets.get(_TIMES, {})
    return Planned(places_from_spark(offsets), times.get("reached"), times.get("watermark"))


def places_to_spark(offsets: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark keeps them."""
    found: dict[str, dict[str, int]] = {}
    for (topic, p), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(p)] = offset
    return found


def places_from_spark(offsets: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    """The inverse of `places_to_spark`; a batch's times are no places."""
    named = ((topic, of) for topic, of in offsets.items() if topic != _TIMES)
    return {(topic, int(p)): int(o) for topic, of in named for p, o in of.items()}
