"""Reads the changes between two positions of a changelog, for readers that missed them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from holdfast.errors import DataLoss, PositionLost
from holdfast.serve.contract import Change
from holdfast.serve.follow.transactions import Transactions
from holdfast.serve.tables import StoredTable
from holdfast.transport.reader import Chunk, PartitionReader

__all__ = ["Log"]

_RECORDS = 50_000
_READS_MAX = 4  # concurrent reads; each has its own consumer


class Log:
    """Re-reads changelogs.  Thread-safe."""

    def __init__(self, client: Mapping[str, str], tombstones_kept_ms: int) -> None:
        self._client = dict(client)
        self._tombstones_kept_ms = tombstones_kept_ms
        self._free = threading.Semaphore(_READS_MAX)

    def next(self, table: StoredTable, partition: int, start: int, end: int) -> tuple[Change, int]:
        """The next changes with start <= offset < end; both bounds lie between transactions.

        Returns:
            Some changes, perhaps none, and the offset to continue from, which is `end` after the
            last.

        Raises:
            PositionLost: the topic does not reach back to `start`, or forward to `end`.
            KafkaUnavailable: no broker answered.
        """
        # One consumer per part: a slow reader must not hold a consumer that others wait for.
        with self._free:
            reader = PartitionReader(self._client, table.topic, partition)
            try:
                whole = self._whole(reader, table, start, end)
            except DataLoss as error:
                raise _lost(error.fact) from error
            finally:
                reader.close()
        return _change(table, partition, whole), whole.position

    def _whole(self, reader: PartitionReader, table: StoredTable, start: int, end: int) -> Chunk:
        transactions = Transactions(table.has_markers)
        for at, chunk in enumerate(reader.read(start, end, _RECORDS)):
            if at == 0:
                self._refuse_old(chunk, start)
            whole = transactions.add(chunk)
            if whole is not None and len(whole):
                return whole
        return transactions.rest(end)

    def _refuse_old(self, chunk: Chunk, start: int) -> None:
        """Refuse records so old that tombstones among them may have been compacted away
        unnoticed.
        """
        now_ms = int(time.time() * 1000)
        age_ms = now_ms - (chunk.timestamps[0] if len(chunk) else now_ms)
        if age_ms > self._tombstones_kept_ms:
            raise _lost(
                f"what follows offset {start} is {age_ms} ms old, removals are kept for "
                f"{self._tombstones_kept_ms} ms"
            )


def _change(table: StoredTable, partition: int, chunk: Chunk) -> Change:
    rows = table.rows_of(table.readable(chunk)[0]).rows
    keys = sorted(rows)
    values = [rows[key] for key in keys]
    committed_ms = chunk.timestamps[-1] if len(chunk) else 0
    return Change(partition, keys, values, chunk.position, committed_ms=committed_ms)


def _lost(how: str) -> PositionLost:
    return PositionLost(
        f"What came after this position cannot be told any more: {how}.",
        cause="the reader was away for too long, or the topic was made anew.",
        action="read the table's contents again, and go on from there.",
    )
