"""How long a restore really takes: one partition, into a store that is thrown away."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.compaction.survey.facts import TopicFacts
from holdfast.config.settings import StateSettings
from holdfast.state import open_table_store
from holdfast.state.restore import RestoreProgress, restore
from holdfast.state.table_store import TableStore
from holdfast.state.volume import claim
from holdfast.transport.reader import PartitionReader

__all__ = ["RestoreSample", "median_partition", "sample_restore"]

_BATCH = StateSettings().restore_batch_records


@dataclass(frozen=True)
class RestoreSample:
    """One partition's restore into an empty store on disk.

    Attributes:
        records: replayed, commit markers and tombstones included.
        bytes: of their keys and values.
        rows: of the table, afterwards.
    """

    partition: int
    records: int
    bytes: int
    rows: int
    seconds: float

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds if self.seconds > 0 else 0.0


def median_partition(topic: TopicFacts) -> int:
    """The partition in the middle by bytes: what it takes is what most of them take."""
    ordered = sorted(topic.partitions, key=lambda p: (p.bytes, p.partition))
    return ordered[len(ordered) // 2].partition


def sample_restore(
    client: Mapping[str, str],
    topic: TopicFacts,
    partition: int,
    folder: Path,
    tell: Callable[[str], None] = lambda _: None,
) -> RestoreSample:
    """Restores a partition into a RocksDB store in a temporary folder.

    Args:
        folder: where the store lies meanwhile; on the same kind of disk as the real ones it
            says more.

    Raises:
        ChangelogLost, DataLoss, Refused: the changelog cannot be restored from.
        KafkaUnavailable: no broker answered.
        VolumeFull: the store does not fit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=folder) as scratch:
        volume = claim(Path(scratch), expected=1, wait_s=0.0)
        store = open_table_store(
            StateSettings(),
            volume,
            topic.application_id,
            topic.query_id,
            partition,
            windowed=topic.windowed,
        )
        try:
            return _restored(client, topic, partition, store, tell)
        finally:
            store.close()
            volume.release()


def _restored(
    client: Mapping[str, str],
    topic: TopicFacts,
    partition: int,
    store: TableStore,
    tell: Callable[[str], None],
) -> RestoreSample:
    def told(now: RestoreProgress) -> None:
        # In quarters: where nobody looks at a terminal each of them is a line.
        quarter = int(now.fraction * 4) * 25
        tell(f"measuring a restore: {topic.topic} partition {partition}, {quarter} %")

    reader = PartitionReader(client, topic.topic, partition)
    try:
        report = restore(
            store,
            reader,
            topic.topic_id,
            now_ms=int(time.time() * 1000),
            delete_retention_ms=StateSettings().delete_retention_ms,  # of no use to an empty store
            batch_records=_BATCH,
            progress=told,
        )
    finally:
        reader.close()
    return RestoreSample(partition, report.records, report.bytes, store.rows, report.seconds)
