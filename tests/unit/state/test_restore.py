from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.settings import RocksDbSettings
from holdfast.errors import (
    ChangelogLost,
    DataLoss,
    IncompatibleStatement,
    Refused,
    StoreAhead,
)
from holdfast.state import restore as restore_module
from holdfast.state.changelog import MARKER_KEY
from holdfast.state.memory import MemoryStore
from holdfast.state.restore import RestoreProgress, RestoreReport, restore
from holdfast.state.rocksdb import RocksDbStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.transport.reader import Chunk
from tests.unit.state.changelog_model import FINGERPRINT, ChangelogModel, marker

TOPIC_ID = "topic-id"
DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS


@pytest.fixture(params=["memory", "rocksdb"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TableStore]:
    memory = request.param == "memory"
    store = MemoryStore() if memory else RocksDbStore(tmp_path / "s", RocksDbSettings())
    table = TableStore(store, windowed=False)
    yield table
    table.close()


@pytest.fixture
def log() -> ChangelogModel:
    """Three batches, an aborted transaction between them, control records everywhere."""
    log = ChangelogModel()
    log.commit({b"a": b"1", b"b": b"1", b"c": b"1"}, marker(0))
    log.abort(5)
    log.commit({b"a": b"2", b"b": None}, marker(1))
    log.commit({b"d": b"3"}, marker(2))
    return log


def run(
    table: TableStore,
    log: ChangelogModel,
    *,
    topic_id: str = TOPIC_ID,
    now_ms: int = NOW_MS,
    fingerprint: str | None = FINGERPRINT,
    batch_records: int = 2,
    seen: list[RestoreProgress] | None = None,
) -> RestoreReport:
    return restore(
        table,
        log,
        topic_id,
        now_ms=now_ms,
        delete_retention_ms=DAY_MS,
        fingerprint=fingerprint,
        batch_records=batch_records,
        progress=(seen if seen is not None else []).append,
    )


def check_level(table: TableStore, log: ChangelogModel) -> None:
    assert dict(table.scan()) == log.table()
    assert table.rows == len(log.table())
    assert table.counted
    assert without_witness(table) == StorePosition(TOPIC_ID, log.end, NOW_MS, FINGERPRINT)


def without_witness(table: TableStore) -> StorePosition:
    assert table.position is not None
    return replace(table.position, witness_offset=-1, witness="")


def test_an_empty_store_gets_everything(table: TableStore, log: ChangelogModel) -> None:
    seen: list[RestoreProgress] = []
    report = run(table, log, seen=seen)
    check_level(table, log)
    assert table.marker == marker(2)
    assert (report.full, report.records) == (True, len(log.records))
    assert report.bytes > 0
    assert report.reason == "the store is empty"
    assert [(p.start, p.end) for p in seen] == [(0, log.end)] * len(seen)
    assert seen[-1].position == log.end
    assert seen[-1].records == report.records


def test_large_records_make_small_batches(
    table: TableStore, log: ChangelogModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_module, "_READ_RECORDS", 2)
    monkeypatch.setattr(restore_module, "_BATCH_BYTES", 1)
    seen: list[RestoreProgress] = []
    run(table, log, batch_records=1_000, seen=seen)
    check_level(table, log)
    assert [p.records for p in seen] == [2, 4, 6, 8, len(log.records)]


def test_chunks_of_a_batch_are_one(
    table: TableStore, log: ChangelogModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_module, "_READ_RECORDS", 2)
    seen: list[RestoreProgress] = []
    run(table, log, batch_records=5, seen=seen)
    check_level(table, log)
    assert [p.records for p in seen] == [6, len(log.records)]


def test_an_empty_changelog_leaves_an_empty_store_at_its_end(table: TableStore) -> None:
    report = run(table, ChangelogModel())
    assert report.records == 0
    assert table.position == StorePosition(TOPIC_ID, 0, NOW_MS, FINGERPRINT)


def test_a_store_behind_gets_the_tail_only(table: TableStore, log: ChangelogModel) -> None:
    run(table, log)
    before = log.records[-1][0]  # read again, to see that the log's past is the store's
    log.commit({b"a": None, b"d": b"4", b"e": b"4", b"never": None}, marker(3))
    report = run(table, log)
    check_level(table, log)
    assert table.marker == marker(3)
    assert (report.full, report.records, log.reads[-1]) == (False, 5, before)


def test_a_level_store_reads_nothing(table: TableStore, log: ChangelogModel) -> None:
    run(table, log, now_ms=NOW_MS - 10 * DAY_MS)
    report = run(table, log)
    assert (report.full, report.records) == (False, 0)
    check_level(table, log)


def test_a_tail_without_rows_moves_the_position_over_control_records(
    table: TableStore, log: ChangelogModel
) -> None:
    run(table, log)
    log.abort(20)
    report = run(table, log)
    assert (report.full, report.records) == (False, 0)
    check_level(table, log)


def test_the_position_is_the_end_also_when_the_last_records_are_not_the_table_s(
    table: TableStore, log: ChangelogModel
) -> None:
    class RecordsOnly(ChangelogModel):
        def read(self, start: int, end: int, chunk_records: int = 2) -> Iterator[Chunk]:
            for chunk in log.read(start, end, chunk_records):
                chunk.position = chunk.offsets[-1] + 1
                yield chunk

    reader = RecordsOnly()
    reader.end = log.end
    run(table, reader)
    check_level(table, log)


def test_replaying_from_an_older_position_does_no_harm(
    table: TableStore, log: ChangelogModel
) -> None:
    run(table, log)
    back = StorePosition(TOPIC_ID, 0, NOW_MS, FINGERPRINT)
    table.apply([], [], created=[], removed=0, position=back, marker=None)
    assert run(table, log).records == len(log.records)
    check_level(table, log)


def test_an_interrupted_full_restore_goes_on_where_it_was(
    table: TableStore, log: ChangelogModel
) -> None:
    log.fail_after = 2
    with pytest.raises(ConnectionError):
        run(table, log)
    assert not table.counted
    reached = table.position
    assert reached is not None
    assert 0 < reached.offset < log.end
    log.fail_after = None
    report = run(table, log)
    assert (report.full, log.reads[-1]) == (False, reached.witness_offset)
    assert report.reason == "continuing an unfinished restore"
    check_level(table, log)


def test_an_interrupted_restore_keeps_the_time_it_began(
    table: TableStore, log: ChangelogModel
) -> None:
    # Until it is level it may still miss tombstones that are removed meanwhile.
    began_ms = NOW_MS - DAY_MS - 1
    log.fail_after = 1
    with pytest.raises(ConnectionError):
        run(table, log, now_ms=began_ms)
    assert table.position is not None
    assert table.position.written_ms == began_ms
    log.fail_after = 1
    with pytest.raises(ConnectionError):
        run(table, log, now_ms=began_ms + 10)
    assert table.position.written_ms == began_ms
    log.fail_after = None
    assert run(table, log).full
    check_level(table, log)


def test_a_store_away_longer_than_tombstones_are_kept_is_restored_in_full(
    table: TableStore, log: ChangelogModel
) -> None:
    run(table, log, now_ms=NOW_MS - DAY_MS - 1)
    log.commit({b"a": None}, marker(3))
    log.commit({b"e": b"4"}, marker(4))
    log.compact(drop_tombstones=True)
    report = run(table, log)
    assert report.full
    assert report.reason == (
        "the store was away for 86400001 ms, tombstones are kept for 86400000 ms"
    )
    check_level(table, log)
    assert table.get_many([b"a"]) == [None], "the tombstone it never saw"


def test_a_store_away_shorter_gets_the_tail(table: TableStore, log: ChangelogModel) -> None:
    run(table, log, now_ms=NOW_MS - DAY_MS)
    log.commit({b"a": None}, marker(3))
    assert not run(table, log).full
    check_level(table, log)


@pytest.mark.parametrize("drop_tombstones", [False, True])
def test_a_compacted_changelog_restores_the_same_table(
    table: TableStore, log: ChangelogModel, drop_tombstones: bool
) -> None:
    before = log.table()
    log.compact(drop_tombstones=drop_tombstones)
    assert run(table, log).records == len(log.records)
    assert dict(table.scan()) == before
    check_level(table, log)


def test_a_replaced_topic_is_told_by_its_id(table: TableStore, log: ChangelogModel) -> None:
    run(table, log)
    with pytest.raises(StoreAhead, match="topic id topic-id, the topic now has id new-id"):
        run(table, log, topic_id="new-id")
    assert dict(table.scan()) == log.table(), "the decision to wipe is the caller's"
    table.wipe()
    assert run(table, log, topic_id="new-id").full


def test_a_truncated_changelog_is_told_by_its_end(
    table: TableStore, log: ChangelogModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_module, "_SETTLE_S", 0.1)
    run(table, log)
    end = log.end
    log.end -= 1
    with pytest.raises(StoreAhead, match=f"at offset {end}, the changelog ends at {end - 1}"):
        run(table, log)


def test_an_end_that_lags_after_a_change_of_leader_is_waited_for(
    table: TableStore, log: ChangelogModel
) -> None:
    run(table, log)

    class Lagging(ChangelogModel):
        asked = 0

        def bounds(self) -> tuple[int, int]:
            self.asked += 1
            return (0, log.end - 1) if self.asked == 1 else (0, log.end)

    lagging = Lagging()
    lagging.records = log.records
    assert not run(table, lagging).full
    assert lagging.asked > 1
    check_level(table, log)


def test_a_changelog_without_its_head_is_lost_to_a_store_that_needs_it(
    table: TableStore, log: ChangelogModel
) -> None:
    log.fail_after = 1
    with pytest.raises(ConnectionError):
        run(table, log)
    log.fail_after = None
    log.delete_before(log.end - 1)
    with pytest.raises(ChangelogLost, match=rf"starts at offset {log.start}, not 0"):
        run(table, log)


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("away_ms", [0, 2 * DAY_MS])
def test_a_changelog_without_its_head_is_lost_to_a_level_store_which_keeps_its_rows(
    table: TableStore, log: ChangelogModel, left: int, away_ms: int
) -> None:
    run(table, log)
    rows = dict(table.scan())
    log.delete_before(log.end - left)
    log.commit({b"z": b"9"}, marker(3))
    with pytest.raises(ChangelogLost, match=rf"starts at offset {log.start}, not 0"):
        run(table, log, now_ms=NOW_MS + away_ms)
    assert dict(table.scan()) == rows


def test_an_empty_store_cannot_be_restored_from_a_changelog_without_its_head(
    table: TableStore, log: ChangelogModel
) -> None:
    log.delete_before(3)
    with pytest.raises(ChangelogLost, match="starts at offset 3, not 0"):
        run(table, log)


def test_a_changelog_cut_during_the_restore_is_lost(table: TableStore, log: ChangelogModel) -> None:
    class Cut(ChangelogModel):
        def read(self, start: int, end: int, chunk_records: int = 0) -> Iterator[Chunk]:
            raise DataLoss("offset 0 is wanted but offsets 5 to 9 are available")

    cut = Cut()
    cut.end = 9
    with pytest.raises(ChangelogLost, match=r"during the restore.*offsets 5 to 9"):
        run(table, cut)


@pytest.mark.parametrize("behind", [False, True])
def test_rows_of_another_statement_are_refused(
    table: TableStore, log: ChangelogModel, behind: bool
) -> None:
    run(table, log)
    if behind:
        log.commit({b"z": b"9"}, marker(3))
    with pytest.raises(IncompatibleStatement, match=rf"{FINGERPRINT}, not other.*\"of\""):
        run(table, log, fingerprint="other")
    assert run(table, log).records == 0, "nothing is lost by it"


def test_a_store_from_before_create_or_replace_is_brought_level(
    table: TableStore, log: ChangelogModel
) -> None:
    """It was away, or is a standby's or a snapshot, when the statement was replaced elsewhere."""
    run(table, log)
    log.commit({b"z": b"9", b"a": None}, marker(3, "other"))
    report = run(table, log, fingerprint="other")
    assert (report.full, report.records) == (False, 3)
    assert dict(table.scan()) == log.table()
    assert without_witness(table) == StorePosition(TOPIC_ID, log.end, NOW_MS, "other")


def test_a_changelog_of_another_statement_is_refused(
    table: TableStore, log: ChangelogModel
) -> None:
    with pytest.raises(IncompatibleStatement, match=f"{FINGERPRINT}, not other"):
        run(table, log, fingerprint="other")
    assert run(table, log, fingerprint=None).records == 0


@pytest.mark.parametrize(
    ("key", "value"), [(b"foreign", b"1"), (b"", b"1"), (MARKER_KEY, None), (b"\x02k", b"1")]
)
def test_records_that_holdfast_did_not_write_are_refused(
    table: TableStore, log: ChangelogModel, key: bytes, value: bytes | None
) -> None:
    log.append(key, value)
    with pytest.raises(Refused, match="did not write"):
        run(table, log)


def test_a_windowed_store_gets_its_index_back(log: ChangelogModel) -> None:
    table = TableStore(MemoryStore(), windowed=True)
    keys = [b"k" + start.to_bytes(8, "big", signed=True) for start in (5, -5, 9)]
    windows = ChangelogModel()
    windows.commit(dict.fromkeys(keys, b"1"), marker(0))
    windows.commit({keys[0]: None}, marker(1))
    run(table, windows)
    assert table.expired(9, 10) == [keys[1]]
    windows.commit({keys[0]: b"2", keys[1]: None}, marker(2))
    run(table, windows)
    assert table.expired(100, 10) == [keys[0], keys[2]]
    assert table.rows == 2
