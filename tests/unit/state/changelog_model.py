"""A changelog topic partition as a list: gaps, control records and compaction included."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.state.changelog import MARKER_KEY, CommitMarker, data_key
from holdfast.transport.partitioner import PARTITIONER
from holdfast.transport.reader import Chunk
from holdfast.types.ids import OffsetRange

__all__ = ["FINGERPRINT", "ChangelogModel", "marker"]

FINGERPRINT = "f" * 16


def marker(batch_id: int, fingerprint: str = FINGERPRINT) -> CommitMarker:
    """A marker whose source offsets and stream time follow from its batch id."""
    return CommitMarker(
        format_version=1,
        application_id="app",
        query_id="ctas_t",
        state_partition=3,
        state_partitions=8,
        partitioner=PARTITIONER,
        fingerprint=fingerprint,
        canonical=f'{{"of": "{fingerprint}"}}',
        source=OffsetRange.of("in", {0: batch_id * 10}, {0: batch_id * 10 + 10}),
        stream_time_ms=batch_id * 1000,
        batch_id=batch_id,
    )


class ChangelogModel:
    """One changelog partition as a `PartitionReader` sees it."""

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes, bytes | None]] = []
        self.start = 0
        self.end = 0
        self.reads: list[int] = []  # where each read began
        self.fail_after: int | None = None  # chunks until the connection breaks

    def commit(self, rows: dict[bytes, bytes | None], mark: CommitMarker | None) -> int:
        """Append one transaction and its control record; the offset of its last record."""
        for key, value in rows.items():
            self.append(data_key(key), value)
        if mark is not None:
            self.append(MARKER_KEY, mark.to_bytes())
        last = self.end - 1
        self.end += 1
        return last

    def append(self, key: bytes, value: bytes | None) -> None:
        self.records.append((self.end, key, value))
        self.end += 1

    def cut(self, offset: int) -> None:
        """Truncates the log, as an unclean election or an old disk does."""
        self.records = [record for record in self.records if record[0] < offset]
        self.end = offset

    def abort(self, records: int) -> None:
        """Offsets that an aborted transaction took."""
        self.end += records + 1

    def compact(self, *, drop_tombstones: bool = False) -> None:
        """Keep the last record of each key, as the log cleaner does; offsets stay."""
        last = {key: offset for offset, key, _ in self.records}
        self.records = [
            record
            for record in self.records
            if last[record[1]] == record[0] and not (drop_tombstones and record[2] is None)
        ]

    def delete_before(self, offset: int) -> None:
        self.start = offset
        self.records = [record for record in self.records if record[0] >= offset]

    def bounds(self) -> tuple[int, int]:
        return self.start, self.end

    def read(self, start: int, end: int, chunk_records: int = 50_000) -> Iterator[Chunk]:
        self.reads.append(start)
        wanted = [record for record in self.records if start <= record[0] < end]
        while True:
            if self.fail_after is not None:
                if self.fail_after == 0:
                    raise ConnectionError("the broker went away")
                self.fail_after -= 1
            taken, wanted = wanted[:chunk_records], wanted[chunk_records:]
            position = wanted[0][0] if wanted else end
            if start < end:
                offsets, keys, values = [list(c) for c in zip(*taken, strict=True)] or [[], [], []]
                yield Chunk(keys, values, offsets, [-1] * len(offsets), position)
            if not wanted:
                return

    def table(self) -> dict[bytes, bytes]:
        """The rows that a reader of everything ends with."""
        last = {key: value for _, key, value in self.records if key != MARKER_KEY}
        return {key[1:]: value for key, value in last.items() if value is not None}
