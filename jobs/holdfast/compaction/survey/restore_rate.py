"""How long restoring a whole changelog takes: the rate of one process, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.compaction.survey.facts import Estimate, How, RestoreFacts
from holdfast.types.status import PartitionStatus

__all__ = ["DEFAULT_RECORDS_PER_S", "measured_rate", "restore_facts"]

# A full restore of rows of some 40 bytes into RocksDB ran at 470,000 records/s on a quiet core of
# the machine this was written on.  Executors share their cores with brokers and tasks, and rows
# are often larger, so a survey that knows no better counts on less than half of that.
DEFAULT_RECORDS_PER_S = 200_000.0
# Less is a tail: opening the store and the connection then outweigh the replay.
_RECORDS_MIN = 50_000
_SECONDS_MIN = 0.1


def measured_rate(partitions: Iterable[PartitionStatus]) -> float | None:
    """Records/s of one process, from the last restores of a table; None when none was large."""
    large = [
        p
        for p in partitions
        if p.restore_records >= _RECORDS_MIN and p.restore_seconds >= _SECONDS_MIN
    ]
    if not large:
        return None
    return sum(p.restore_records for p in large) / sum(p.restore_seconds for p in large)


def restore_facts(
    records: Sequence[Estimate], partitions: Iterable[PartitionStatus], executors: int
) -> RestoreFacts:
    """A restore of all partitions: executors work side by side, each on one partition at a time.

    Args:
        records: of each partition; what is unknown is left out, and then so is the whole.
        partitions: what the job says of its last restores.
        executors: of the job; 0 when unknown, then one is assumed.
    """
    measured = measured_rate(partitions)
    rate, processes = measured or DEFAULT_RECORDS_PER_S, max(1, executors)
    counts = [each.value for each in records]
    busiest = max(sum(counts) / processes, max(counts, default=0.0))
    how = How.DERIVED if measured is None else How.COUNTED
    if any(not each.known for each in records):
        how = How.UNKNOWN
    return RestoreFacts(rate, processes, busiest / rate, how)
