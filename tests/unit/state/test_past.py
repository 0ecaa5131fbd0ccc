"""A store goes on from its position only where its changelog has the past that it has applied."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.errors import StoreAhead
from holdfast.state.changelog import CommitMarker, Lineage
from holdfast.state.memory import MemoryStore
from holdfast.state.past import continued, digest
from holdfast.state.restore import RestoreReport, restore
from holdfast.state.table_store import TableStore
from tests.unit.state.changelog_model import FINGERPRINT, ChangelogModel, marker

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS
FIRST: Lineage = (("first", 0),)


class Job:
    """Owners of one state partition, one after the other, that only write its changelog."""

    def __init__(self, *, old: bool = False) -> None:
        self.log = ChangelogModel()
        self.lineage: Lineage = () if old else FIRST
        self.last: CommitMarker | None = None
        self._old = old

    def commit(self, batch: int, rows: dict[bytes, bytes | None]) -> None:
        told = replace(marker(batch), lineage=self.lineage)
        if not self._old:
            left = {**self.log.table(), **rows}
            told = replace(told, rows=sum(row is not None for row in left.values()))
        self.last = told
        self.log.commit(rows, told)

    def cut(self, offset: int, last: CommitMarker | None) -> None:
        """The log loses its end; another owner goes on."""
        self.log.cut(offset)
        self.lineage = () if self._old else continued(last, offset)


def level(table: TableStore, job: Job, now_ms: int = NOW_MS) -> RestoreReport:
    return restore(
        table,
        job.log,
        "id",
        now_ms=now_ms,
        delete_retention_ms=24 * HOUR_MS,
        fingerprint=FINGERPRINT,
        batch_records=100,
        progress=lambda _: None,
    )


@pytest.fixture
def table() -> TableStore:
    return TableStore(MemoryStore(), windowed=False)


def test_a_tombstone_that_was_kept_too_short_is_missed_by_nobody(table: TableStore) -> None:
    """`delete.retention.ms` was lowered and raised again while the store was away."""
    job = Job()
    job.commit(0, {b"a": b"1", b"b": b"1"})
    level(table, job)
    job.commit(1, {b"a": None})
    job.commit(2, {b"c": b"1"})
    job.log.compact(drop_tombstones=True)
    report = level(table, job, NOW_MS + HOUR_MS)
    assert (report.full, report.reason) == (True, "the store has 3 rows, its last commit left 2")
    assert dict(table.scan()) == job.log.table() == {b"b": b"1", b"c": b"1"}


def test_a_clock_that_went_back_hides_nothing(table: TableStore) -> None:
    job = Job()
    job.commit(0, {b"a": b"1"})
    level(table, job, NOW_MS)
    job.commit(1, {b"a": None})
    job.commit(2, {b"c": b"1"})
    job.log.compact(drop_tombstones=True)
    level(table, job, NOW_MS - 1_000 * HOUR_MS)
    assert dict(table.scan()) == {b"c": b"1"}


def test_markers_of_the_version_before_leave_the_clock(table: TableStore) -> None:
    job = Job(old=True)
    job.commit(0, {b"a": b"1"})
    level(table, job)
    job.commit(1, {b"a": None})
    job.commit(2, {b"c": b"1"})
    job.log.compact(drop_tombstones=True)
    assert level(table, job, NOW_MS - HOUR_MS).full
    assert dict(table.scan()) == {b"c": b"1"}


def _cut_and_grown(table: TableStore, job: Job, later: int) -> None:
    """The store has a commit that the log has lost; another owner has gone on without it."""
    job.commit(0, {b"a": b"1", b"b": b"1"})
    kept, end = job.last, job.log.end
    job.commit(1, {b"a": b"lost", b"x": b"lost"})
    level(table, job)
    job.cut(end, kept)
    for batch in range(later):
        job.commit(10 + batch, {b"c": b"1", b"d": b"%d" % batch})


@pytest.mark.parametrize("later", [1, 2, 5])
@pytest.mark.parametrize("old", [True, False], ids=["old", "new"])
def test_a_log_that_was_cut_and_has_grown_is_told_by_its_records(
    table: TableStore, later: int, old: bool
) -> None:
    job = Job(old=old)
    _cut_and_grown(table, job, later)
    with pytest.raises(StoreAhead, match="another record lies at offset"):
        level(table, job)
    table.wipe()
    level(table, job)
    assert dict(table.scan()) == job.log.table()


def test_a_log_that_was_cut_and_compacted_is_told_by_its_lineage(table: TableStore) -> None:
    job = Job()
    _cut_and_grown(table, job, 5)
    job.log.compact()
    with pytest.raises(StoreAhead, match=r"rewritten from offset \d+ on"):
        level(table, job)


def test_an_owner_that_was_lost_with_the_log_is_not_known_to_it(table: TableStore) -> None:
    job = Job()
    job.commit(0, {b"a": b"1"})
    kept, end = job.last, job.log.end
    job.lineage = continued(kept, end)
    job.commit(1, {b"a": b"lost"})
    level(table, job)
    job.cut(end, kept)
    for batch in range(5):
        job.commit(10 + batch, {b"d": b"%d" % batch})
    job.log.compact()
    with pytest.raises(StoreAhead, match="does not know the owner"):
        level(table, job)


def test_a_log_that_was_only_compacted_gives_its_tail(table: TableStore) -> None:
    job = Job()
    job.commit(0, {b"a": b"1", b"b": b"1"})
    level(table, job)
    for _ in range(3):
        job.lineage = continued(job.last, job.log.end)
        job.commit(1, {b"a": b"2", b"b": None})
        job.commit(2, {b"c": b"1"})
    job.log.compact()
    assert not level(table, job).full
    assert dict(table.scan()) == job.log.table()


def test_a_lineage_keeps_the_last_owners_and_each_is_new() -> None:
    mark = marker(0)
    for offset in range(40):
        mark = replace(mark, lineage=continued(mark, offset))
    assert [at for _, at in mark.lineage] == list(range(24, 40))
    assert len({owner for owner, _ in mark.lineage}) == 16


def test_records_are_told_from_each_other() -> None:
    records = [(None, b""), (b"", None), (b"", b""), (b"a", b"b"), (b"ab", b""), (b"", b"ab")]
    assert len({digest(key, value) for key, value in records}) == len(records)


def test_a_marker_that_tells_less_is_written_and_read_as_before() -> None:
    fields = json.loads(marker(0).to_bytes())
    assert not {"rows", "lineage"} & fields.keys()
    assert CommitMarker.from_bytes(marker(0).to_bytes()) == marker(0)
    told = replace(marker(0), rows=0, lineage=(("a", 0), ("b", 7)))
    assert CommitMarker.from_bytes(told.to_bytes()) == told
