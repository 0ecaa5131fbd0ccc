"""The options of the readers of a query's inputs, and the plan of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.types.ids import Place
from holdfast.types.statements.topology import Query, Source
from holdfast.types.times import NO_TIME

__all__ = ["IngestOptions", "Planned"]


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
    """The options of one input's readers.

    Attributes:
        source: the stream or table to read and decode.
        kafka: librdkafka client properties (`bootstrap.servers`, `security.protocol` …).
        columns: names of the source's `readable` columns to return; others are not parsed.
        query: the query that reads; None: all columns that ingest adds are wanted.
        max_offsets_per_trigger: limit per micro-batch over all topic partitions, 0 for none.
        batch_target_ms: how long a micro-batch should take; 0: as large as the limit allows.
        fail_on_data_loss: fail instead of continuing from the earliest offset left.
        on_undecodable: "dead-letter" or "fail".
        dead_letter_topic: the topic for undecodable records.
        progress_topic: the topic for the dead letters' commit markers.
        transactional_id_prefix: `<application.id>-<query>`, for the dead-letter producers.
        side: the number of this input of its query; 0 unless the query has several.
        others: the query's further inputs, in the order of their sides.  All are read as one, in
            common batches.
        topic_id: the id of the source's topic, to which the offsets belong; empty: unknown.
        cuts: the file of `ingest.cuts`; empty: no query of this job writes a source.
        registry: properties of the schema registry's client; empty: there is none.
    """

    source: Source
    kafka: Mapping[str, str] = field(repr=False)
    columns: tuple[str, ...]
    query: Query | None = field(default=None, repr=False)
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
    cuts: str = ""
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def inputs(self) -> tuple[IngestOptions, ...]:
        """The options of each side."""
        return (self, *self.others)
