"""Counting records without reading them all: short ranges of offsets, spread over the log.

A changelog's offsets are not its records: compaction, transaction markers and aborted records
leave holes.  So the sample is of offsets, and it measures records per offset.

The log from its start to its end is cut into strata of equal length, and one range of offsets is
read in each stratum, at a random place.  A total is N·Σy/Σx: N offsets in the log, y records
found in a range of x offsets.  Its error is half of the 95 % interval, from the differences of
neighbouring ranges: a log is sparse where it was cleaned and dense where it was not, and
neighbours differ by chance alone.  Ranges that were read have no error, so the error shrinks
with the share that was not read (finite population).
that was not read (finite population).

    V = (1 - Σx/N) · K/(2(K-1)) · Σ(d_i - d_(i-1))²,   d = y - x·Σy/Σx,   error = t·N·√V/Σx
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.compaction.survey.facts import Estimate, How

__all__ = ["Counts", "OffsetSpan", "ranges_over", "sample", "total"]

_RANGES = 40  # per topic partition: enough ranges for a good error estimate, and few seeks
_PILOT = 20  # short ranges that measure the density of the log, with an eighth of the records
_T_975 = {1: 12.7, 2: 4.3, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
_T_MANY = 2.05  # Student's t for 10 and more degrees of freedom, rounded up


@dataclass(frozen=True)
class OffsetSpan:
    """Offsets from `start` (inclusive) to `end` (exclusive)."""

    start: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Counts:
    """The contents of one range of offsets.

    Attributes:
        records: data records of any kind.
        tombstones, expired, markers: records without a value, records of windows past retention,
            and commit markers.
        bytes, marker_bytes: keys and values of all records, and of commit markers.
        holes: whether the range has a gap that only the cleaner or an aborted transaction leaves.
        elements: element rows (`state.elements`) that are not expired.
    """

    span: OffsetSpan
    records: int = 0
    tombstones: int = 0
    expired: int = 0
    markers: int = 0
    bytes: int = 0
    marker_bytes: int = 0
    holes: bool = False
    elements: int = 0


def ranges_over(
    span: OffsetSpan, ranges: int, offsets: int, chance: random.Random
) -> list[OffsetSpan]:
    """One range of at most `offsets` offsets in each of `ranges` equal strata, in order."""
    found = []
    for n in range(ranges):
        low = span.start + span.offsets * n // ranges
        high = span.start + span.offsets * (n + 1) // ranges
        length = min(offsets, high - low)
        begin = low + chance.randint(0, high - low - length)
        if length:
            found.append(OffsetSpan(begin, begin + length))
    return found


def sample(
    span: OffsetSpan,
    records_max: int,
    read: Callable[[OffsetSpan, int], Counts],
    chance: random.Random,
) -> list[Counts]:
    """Reads ranges of `span` with at most `records_max` records in all; returns them in order.

    If `span` is small enough, it is read whole and nothing is estimated.  Otherwise a pilot
    measures the density first: a cleaned log has few records in a long range of offsets.

    Args:
        read: counts a range, and stops early after that many records.
    """
    if span.offsets <= records_max:
        return [read(span, records_max)]
    pilot_offsets = max(1, records_max // (8 * _PILOT))
    piloted = [read(r, pilot_offsets) for r in ranges_over(span, _PILOT, pilot_offsets, chance)]
    left = records_max - sum(c.records for c in piloted)
    density = max(1, sum(c.records for c in piloted)) / sum(c.span.offsets for c in piloted)
    length = max(1, int(left / density / _RANGES))
    found: list[Counts] = []
    # In random order: a sample cut short because the log is denser than expected is still random.
    for r in _shuffled(ranges_over(span, _RANGES, length, chance), chance):
        if left > 0:
            found.append(read(r, left))
            left -= found[-1].records
    whole = sum(c.span.offsets for c in found) == span.offsets
    return sorted(found if whole else piloted + found, key=lambda c: c.span.start)


def total(span: OffsetSpan, ranges: Sequence[Counts], what: Callable[[Counts], int]) -> Estimate:
    """Estimates how many of `what` lie in `span`, from its ranges in order (module's docstring)."""
    x, y = sum(c.span.offsets for c in ranges), sum(what(c) for c in ranges)
    if x >= span.offsets:
        return Estimate(float(y))
    if not x:
        return Estimate.unknown()
    ratio, many = y / x, len(ranges)
    if many < 2:
        return Estimate(ratio * span.offsets, ratio * span.offsets, How.SAMPLED)
    rest = [what(c) - ratio * c.span.offsets for c in ranges]
    squares = sum((b - a) ** 2 for a, b in pairwise(rest))
    variance = (1 - x / span.offsets) * many / (2 * (many - 1)) * squares
    t = _T_975.get(many - 1, _T_MANY)
    error = t * span.offsets * math.sqrt(variance) / x
    # No difference in the sample does not mean none: up to three in as many as were read (rule of
    # three).
    floor = 3 * (span.offsets - x) / x if squares == 0 else 0.0
    return Estimate(ratio * span.offsets, max(error, floor), How.SAMPLED)


def _shuffled(ranges: Iterable[OffsetSpan], chance: random.Random) -> list[OffsetSpan]:
    mixed = list(ranges)
    chance.shuffle(mixed)
    return mixed
