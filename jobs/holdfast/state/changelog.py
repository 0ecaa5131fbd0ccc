"""The records of a changelog topic: rows under data keys, progress under one marker key.

Data keys start with 0x01, the marker's key with 0x00, so a state key can never equal the marker's.
The topic is compacted and never deletes by time, also for windowed tables: deletion would remove
commit markers, and with them the progress.  Expired windows are removed by tombstones.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from holdfast.config.settings import StateSettings
from holdfast.errors import IncompatibleStatement
from holdfast.state.layout import Layout
from holdfast.types.columns.pieces import Lazy
from holdfast.types.ids import OffsetRange, Place

__all__ = [
    "DATA_PREFIX",
    "FORMAT_VERSION",
    "MARKER_KEY",
    "CommitMarker",
    "Lineage",
    "StateKeys",
    "changelog_config",
    "data_key",
    "data_keys",
    "origin_after",
]

DATA_PREFIX = b"\x01"
MARKER_KEY = b"\x00holdfast.commit"

# Owners of the state partition, each with the changelog's end when it took over.
Lineage = tuple[tuple[str, int], ...]

FORMAT_VERSION = 1
_SEGMENT_BYTES = 64 << 20


def data_key(state_key: bytes) -> bytes:
    """The changelog record key of a row."""
    return DATA_PREFIX + state_key


class StateKeys(Lazy[bytes]):
    """State keys from a BINARY array without nulls, with their data keys."""

    @cached_property
    def data_keys(self) -> Lazy[bytes]:
        """The data keys, cached: a batch looks them up, sends them and writes them."""
        return Lazy(pc.binary_join_element_wise(DATA_PREFIX, self.array, b""))


def data_keys(state_keys: Sequence[bytes]) -> Sequence[bytes]:
    """`data_key` of each state key."""
    if isinstance(state_keys, StateKeys):
        return state_keys.data_keys
    return [DATA_PREFIX + key for key in state_keys]


@dataclass(frozen=True)
class CommitMarker:
    """The progress of one state partition: the last record of every transaction.

    Attributes:
        format_version: the version of this value and of the rows beside it; 1.
        state_partitions: P, fixed for the life of a generation.
        partitioner: how keys were spread over the P state partitions.
        fingerprint: the fingerprint of the statement that wrote the state.
        canonical: the text behind the fingerprint, to show differences.
        source: the source offsets of this transaction; for places that its batch did not have, an
            empty range at their end.
        stream_time_ms: the highest event time seen, in ms since the epoch; no higher than a
            batch's watermark.
        batch_id: the number of the batch, for people; it decides nothing.
        records: input records of this state partition, all transactions together.
        dropped_late: those of them whose window had closed, per window.
        dropped_null_key: those of them without a key.
        origin: (topic, topic partition, offset) with the first offset of each place; empty in
            markers of a version that did not write it.
        facts: `statement_facts` of the statement; empty in markers of earlier versions.
        watermark_ms: the batch's watermark, see `tasks.plan.Batch`.
        newest_ms: the highest event time seen, if it is beyond stream time.
        rows: the number of rows in the table after this transaction; -1 in markers of earlier
            versions.  If a store has more rows, it missed the tombstones of the others.
        lineage: the last owners that wrote, the newest last: see `holdfast.state.past`.
        savepoint: the savepoint that the table began with, see `Savepoint.reference`; empty: none.
        generation: of the changelog, see `types.ids.state_name`.
        moved: set by a rescale.  In state partition 0 it says that the state has moved there; in
            another one that it may have, which state partition 0 decides.
    """

    format_version: int
    application_id: str
    query_id: str
    state_partition: int
    state_partitions: int
    partitioner: str
    fingerprint: str
    canonical: str
    source: OffsetRange
    stream_time_ms: int
    batch_id: int
    records: int = 0
    dropped_late: int = 0
    dropped_null_key: int = 0
    origin: tuple[tuple[str, int, int], ...] = ()
    facts: str = ""
    watermark_ms: int | None = None
    newest_ms: int | None = None
    rows: int = -1
    lineage: Lineage = ()
    savepoint: str = ""
    generation: int = 0
    moved: Layout | None = None

    def to_bytes(self) -> bytes:
        """JSON in UTF-8."""
        told: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        told["source"] = _source_fields(self.source)
        if not self.origin:
            del told["origin"]
        for name in ("watermark_ms", "newest_ms"):  # only if set
            if told[name] is None:
                del told[name]
        if self.rows < 0:
            del told["rows"]
        if not self.lineage:
            del told["lineage"]
        for name in ("savepoint", "generation", "moved"):
            if not told[name]:
                del told[name]
        if self.moved is not None:
            told["moved"] = asdict(self.moved)
        return json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()

    def origins(self) -> dict[Place, int]:
        """The first offset of each place, as far as it was recorded."""
        return {(topic, p): at for topic, p, at in self.origin}

    def held_back_below(self, watermark_ms: int | None) -> bool:
        """Whether an empty batch with that watermark advances stream time.

        It does if stream time was held back and the watermark now allows more.
        """
        if watermark_ms is None or self.newest_ms is None:
            return False
        return min(self.newest_ms, watermark_ms) > self.stream_time_ms

    def without(self, gone: Collection[str]) -> CommitMarker:
        """This marker without the offsets of topics with one of these ids."""
        topics = {topic for topic, topic_id in self.source.ids.items() if topic_id in gone}
        if not topics:
            return self
        origin = tuple(each for each in self.origin if each[0] not in topics)
        return replace(self, source=self.source.without(gone), origin=origin)

    @staticmethod
    def from_bytes(data: bytes) -> CommitMarker:
        """The inverse of `to_bytes`.

        Raises:
            IncompatibleStatement: the format is unknown to this version of Holdfast.
        """
        try:
            told: dict[str, Any] = json.loads(data)
            version = told["format_version"]
            if version == FORMAT_VERSION:
                told["source"] = _offset_range(told["source"])
                origin = told.get("origin", ())
                told["origin"] = tuple((str(t), int(p), int(at)) for t, p, at in origin)
                lineage = told.pop("lineage", ())
                told["lineage"] = tuple((str(owner), int(at)) for owner, at in lineage)
                moved = told.pop("moved", None)
                told["moved"] = None if moved is None else Layout(**moved)
                return CommitMarker(**told)
        except (ValueError, KeyError, TypeError) as error:
            raise IncompatibleStatement(
                f"A commit marker of {len(data)} bytes cannot be read: {error!r}.",
                cause="something else writes to the changelog topic.",
                action="give the application an id of its own, or restore the topic.",
            ) from error
        raise IncompatibleStatement(
            f"A commit marker has format version {version}; this Holdfast knows {FORMAT_VERSION}.",
            cause="the table was last written by a newer Holdfast.",
            action="run that version, or rebuild the table under a new application.id.",
        )


def origin_after(last: CommitMarker | None, batch: OffsetRange) -> tuple[tuple[str, int, int], ...]:
    """The `origin` of the marker after `last`: new places begin with the batch."""
    begun = batch.starts()
    if last is not None:
        begun = {p: at for p, at in begun.items() if p not in last.source.ends()}
        begun |= last.origins()
    return tuple(sorted((topic, p, at) for (topic, p), at in begun.items()))


def changelog_config(settings: StateSettings) -> dict[str, str]:
    """Topic settings of a changelog, the same for every kind of table."""
    return {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(settings.delete_retention_ms),
        "segment.bytes": str(_SEGMENT_BYTES),
        # Event times may be years back: as record times they would roll a segment per batch, and
        # brokers refuse record times an hour ahead.  With this the log goes by the broker's clock.
        "message.timestamp.type": "LogAppendTime",
    }


def _source_fields(source: OffsetRange) -> dict[str, Any]:
    """The first topic, with the rest as its `others`: as every version has written it."""
    first, *rest = source.topics
    others = [_topic_fields(source, topic, []) for topic in rest]
    # No `others`, as it was before a query could have several topics.
    return _topic_fields(source, first, others or None)


def _topic_fields(
    source: OffsetRange, topic: str, others: list[dict[str, Any]] | None
) -> dict[str, Any]:
    spans = sorted((p, span) for (name, p), span in source.items() if name == topic)
    told: dict[str, Any] = {
        "topic": topic,
        "start": [(p, span.start) for p, span in spans if span.start is not None],
        "end": [(p, span.end) for p, span in spans],
    }
    if others is not None:
        told["others"] = others
    if topic in source.ids:  # or else as it was before offsets carried it
        told["topic_id"] = source.ids[topic]
    return told


def _offset_range(told: dict[str, Any]) -> OffsetRange:
    parts = [told]
    if "others" in told:
        parts += told["others"]
    return OffsetRange.over(
        [part["topic"] for part in parts],
        _places(parts, "start"),
        _places(parts, "end"),
        {part["topic"]: str(part.get("topic_id", "")) for part in parts},
    )


def _places(parts: Sequence[dict[str, Any]], which: str) -> dict[Place, int]:
    return {(part["topic"], int(p)): int(at) for part in parts for p, at in part[which]}
