"""Plans the end of a query's next batch: the log end, or as far as a batch may go.

All inputs of a query are planned together, as one stream.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import DataLoss, TopicReplaced
from holdfast.ingest.batch_end_by_time import level_end
from holdfast.ingest.batch_size import BatchSize
from holdfast.ingest.chained import Chained
from holdfast.ingest.cuts import cuts_in
from holdfast.ingest.offsets import batch_end, check_available
from holdfast.types.ids import Place
from holdfast.types.ingest import IngestOptions, Planned
from holdfast.types.times import FOREVER

if TYPE_CHECKING:
    from holdfast.transport.cluster.admin import Admin

__all__ = ["Planner", "bounds_of"]

_LOG = logging.getLogger(__name__)
_A_DAY_MS = 86_400_000  # how far ahead of this machine's clock a record's time may be
_PARTS = (0.9, 0.6)  # of the limit: first guesses for a batch's end, by the pace of the last one

_Bounds = Mapping[Place, tuple[int, int]]


class Planner:
    """Owns the size of a query's batches."""

    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._size = BatchSize(options.max_offsets_per_trigger, options.batch_target_ms)
        self._cut = (0, 0.0)  # the record time at the end of the last batch, and its ms per offset

    def plan(
        self, begin: Mapping[Place, int], target: Mapping[Place, int] | None = None
    ) -> Planned:
        """The batch that starts at `begin`; it is empty if there is no new data.

        An empty batch has a watermark, too, once the writers of its sources are level.

        A topic partition that `begin` lacks is new.  It joins at its log start with an empty range,
        so that every batch has a start for all that it reads; the next batch reads it.

        Args:
            begin: the start offsets of the batch.
            target: the last end offsets allowed; topic partitions that it lacks are not read.

        Raises:
            TopicReplaced: a topic was deleted and recreated.
            DataLoss: records from `begin` on are gone, and `fail.on.data.loss` is set.
            KafkaUnavailable, TopicMissing: the ends are unknown.
        """
        # Cuts are read before the bounds, so that the bounds include their offsets.
        cuts = (
            cuts_in(Path(self._options.cuts), _topics(self._options)) if self._options.cuts else {}
        )
        bounds: _Bounds = bounds_of(self._options)
        self._check(begin, bounds)
        if target is not None:
            bounds = {
                p: (low, min(high, target[p])) for p, (low, high) in bounds.items() if p in target
            }
        new = {place: low for place, (low, _) in bounds.items() if place not in begin}
        bounds = {place: found for place, found in bounds.items() if place not in new}
        limit = self._size.limit()
        chained = Chained(begin, bounds, cuts)
        planned = chained.at_a_cut(limit)
        if planned is None:
            planned = chained.within_a_cut(self._level(begin, chained.open_bounds, limit))
        offsets = _taken(begin, planned.end, bounds)
        self._size.planned(offsets, cut=chained.leaves(planned.end))
        return planned.joined_by(new) if new else planned

    def _level(self, begin: Mapping[Place, int], bounds: _Bounds, limit: int | None) -> Planned:
        end = batch_end(begin, bounds, limit)
        if limit is None or all(end[p] >= high for p, (_, high) in bounds.items()):
            return Planned(end, FOREVER)
        newest_ms = int(time.time() * 1000) + _A_DAY_MS
        last, pace = self._cut
        guesses = (*(last + round(part * limit * pace) for part in _PARTS), last)
        found = level_end(begin, bounds, limit, newest_ms, self._first_at, guesses)
        if found.time_ms is not None:
            taken = max(_taken(begin, found.end, bounds), 1)
            self._cut = (found.time_ms, (found.time_ms - last) / taken)
        return Planned(found.end, found.time_ms)

    def _first_at(self, time_ms: int) -> dict[Place, int]:
        asked, topics = _admin(self._options), _topics(self._options)
        found = {topic: asked.first_at(topic, time_ms) for topic in topics}
        return {(topic, p): offset for topic, of in found.items() for p, offset in of.items()}

    def _check(self, begin: Mapping[Place, int], bounds: _Bounds) -> None:
        try:
            _check_all(begin, bounds)
        except DataLoss as error:
            if self._options.fail_on_data_loss:
                raise
            _LOG.warning("DATA LOSS, continuing because of fail.on.data.loss=false: %s", error.fact)


def bounds_of(options: IngestOptions) -> dict[Place, tuple[int, int]]:
    """Log starts and read-committed ends of all inputs.

    Raises:
        TopicReplaced: a topic of the options was deleted and recreated.
    """
    found = {topic: _admin(options).look(topic) for topic in _topics(options)}
    for each in options.inputs:
        now = found[each.source.topic].topic_id
        if each.topic_id and now != each.topic_id:
            raise TopicReplaced(
                f"The topic {each.source.topic} has the id {now}, it had {each.topic_id}.",
                cause="it was deleted and created again while the job ran.",
                action="none: the job decides by its commit markers how to continue.",
            )
    return {(topic, p): bounds for topic, of in found.items() for p, bounds in of.bounds.items()}


def _check_all(begin: Mapping[Place, int], bounds: _Bounds) -> None:
    """Raises `DataLoss` if records from `begin` on are gone."""
    for topic in sorted({topic for topic, _ in begin}):
        check_available(
            topic,
            {p: offset for (of, p), offset in begin.items() if of == topic},
            {p: found for (of, p), found in bounds.items() if of == topic},
        )


def _admin(options: IngestOptions) -> Admin:
    from holdfast.transport.cluster.admin_cache import shared_admin

    return shared_admin(options.kafka)


def _topics(options: IngestOptions) -> list[str]:
    """The distinct topics: a self-join has one topic on both sides."""
    return list(dict.fromkeys(each.source.topic for each in options.inputs))


def _taken(begin: Mapping[Place, int], end: Mapping[Place, int], bounds: _Bounds) -> int:
    """The number of offsets in a batch."""
    return sum(end[p] - begin.get(p, low) for p, (low, _) in bounds.items())
