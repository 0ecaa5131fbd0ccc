"""A table store against a dict, through commits, kills, closes, losses, compaction and restores.

The changelog is the truth, as in the commit order: a commit appends to it first (step 4) and
writes the store after it (step 5), and a kill may come between the two.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from holdfast.config.settings import RocksDbSettings
from holdfast.errors import StoreAhead
from holdfast.state import restore as restore_module
from holdfast.state.changelog import MARKER_KEY, CommitMarker, Lineage
from holdfast.state.memory import MemoryStore
from holdfast.state.past import continued, digest
from holdfast.state.restore import restore
from holdfast.state.rocksdb import RocksDbStore
from holdfast.state.segments import SEGMENT_MS
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.state.times import window_start_ms
from tests.unit.state.changelog_model import FINGERPRINT, ChangelogModel, marker

TOPIC_ID = "topic-id"
RETENTION_MS = 1000

KEYS = st.builds(
    lambda key, start: key + start.to_bytes(8, "big", signed=True),
    st.sampled_from([b"", b"a", b"ab", b"\xff"]),
    st.sampled_from([-(2**63), -60, 0, 60, 2**62]),
)
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=3), max_size=8)


class TableStoreMachine(RuleBasedStateMachine):
    """Rules act on changelog and store; the invariant compares the store with the dict."""

    segmented = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.log = ChangelogModel()
        self.model: dict[bytes, bytes] = {}
        self.now_ms = 0
        self.batches = 0
        self.mark: CommitMarker | None = None
        self.lineage: Lineage = ()
        self.generation = 0
        self.open()

    def open(self) -> None:
        self.table = self.empty()
        self.restore()

    def empty(self) -> TableStore:
        """A store over the contents of the folder, if there are any."""
        store = RocksDbStore(self.folder / str(self.generation), RocksDbSettings())
        return TableStore(store, windowed=True, segmented=self.segmented)

    def restore(self, chunks_until_failure: int | None = None) -> None:
        self.log.fail_after = chunks_until_failure
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(restore_module, "_SETTLE_S", 0.0)
                self.restore_as_a_state_task()
        except ConnectionError:
            assert chunks_until_failure is not None
        finally:
            self.log.fail_after = None
        if (position := self.table.position) is not None:
            self.lineage = continued(self.table.marker, position.offset)

    def restore_as_a_state_task(self) -> None:
        try:
            self.restore_once()
        except StoreAhead:
            self.table.wipe()
            self.restore_once()

    def restore_once(self) -> None:
        restore(
            self.table,
            self.log,
            TOPIC_ID,
            now_ms=self.now_ms,
            delete_retention_ms=RETENTION_MS,
            fingerprint=FINGERPRINT,
            batch_records=3,
            progress=lambda _: None,
        )

    def produce(self, changes: dict[bytes, bytes | None]) -> StorePosition:
        """Steps 2 to 4: the batch is in the changelog, the model follows it."""
        for key, value in changes.items():
            if value is None:
                self.model.pop(key, None)
            else:
                self.model[key] = value
        self.mark = replace(marker(self.batches), rows=len(self.model), lineage=self.lineage)
        offset = self.log.commit(changes, self.mark)
        self.batches += 1
        told = digest(MARKER_KEY, self.mark.to_bytes())
        return StorePosition(
            TOPIC_ID, offset + 1, self.now_ms, FINGERPRINT, witness_offset=offset, witness=told
        )

    @rule(changes=CHANGES)
    def commit(self, changes: dict[bytes, bytes | None]) -> None:
        old = dict(zip(changes, self.table.get_many(list(changes)), strict=True))
        created = [k for k, v in changes.items() if v is not None and old[k] is None]
        removed = sum(1 for k, v in changes.items() if v is None and old[k] is not None)
        position = self.produce(changes)
        self.table.apply(
            list(changes),
            list(changes.values()),
            created=created,
            removed=removed,
            position=position,
            marker=self.mark,
        )

    @rule(changes=CHANGES, aborted=st.integers(0, 3))
    def commit_and_die_before_the_write(
        self, changes: dict[bytes, bytes | None], aborted: int
    ) -> None:
        self.produce(changes)
        self.log.abort(aborted)
        self.kill()

    @rule()
    def kill(self) -> None:
        """Copies the files of one moment, as SIGKILL leaves them: nothing flushed or closed."""
        store = self.table._store
        assert isinstance(store, RocksDbStore)
        assert store._db is not None
        store._db.cancel_all_background(wait=True)  # a copy takes longer than a moment
        old, self.generation = self.folder / str(self.generation), self.generation + 1
        shutil.copytree(old, self.folder / str(self.generation))
        store._db = None
        shutil.rmtree(old)
        self.open()

    @rule()
    def close_and_open(self) -> None:
        self.table.close()
        self.open()

    @rule()
    def lose_the_volume(self) -> None:
        self.table.close()
        self.generation += 1
        self.open()

    @rule(changes=st.lists(CHANGES, max_size=4), first=st.integers(0, 3), second=st.integers(0, 3))
    def lose_the_volume_and_die_restoring(
        self, changes: list[dict[bytes, bytes | None]], first: int, second: int
    ) -> None:
        for change in changes:
            self.produce(change)
        self.table.close()
        self.generation += 1
        self.table = self.empty()
        for chunks in (first, second):
            self.restore(chunks)
        self.kill()

    @rule()
    def compact(self) -> None:
        self.log.compact()

    @rule(changes=CHANGES)
    def stay_away_until_tombstones_are_gone(self, changes: dict[bytes, bytes | None]) -> None:
        self.table.close()
        self.produce(changes)
        self.now_ms += RETENTION_MS + 1
        self.log.compact(drop_tombstones=True)
        self.open()

    @rule(changes=CHANGES)
    def stay_away_while_tombstones_are_kept_too_short(
        self, changes: dict[bytes, bytes | None]
    ) -> None:
        """The setting was lowered and raised again, or the clock jumped: nothing tells."""
        self.table.close()
        self.another_owner()
        self.produce(changes)
        self.log.compact(drop_tombstones=True)
        self.open()

    @rule(lost=CHANGES, before=st.lists(CHANGES, max_size=3), later=st.lists(CHANGES, max_size=4),
          compacted=st.booleans())  # fmt: skip
    def stay_away_while_the_log_is_cut_and_grows(
        self,
        lost: dict[bytes, bytes | None],
        before: list[dict[bytes, bytes | None]],
        later: list[dict[bytes, bytes | None]],
        compacted: bool,
    ) -> None:
        """The last commit of the store is lost; another owner goes on from the one before."""
        for changes in before:
            self.commit(changes)
        kept, end, mark = dict(self.model), self.log.end, self.mark
        self.commit(lost)
        self.table.close()
        self.log.cut(end)
        self.model, self.mark = kept, mark
        self.another_owner()
        for changes in later:
            self.produce(changes)
        if compacted:
            self.log.compact()
        self.open()

    def another_owner(self) -> None:
        self.lineage = continued(self.mark, self.log.end)

    @rule(milliseconds=st.integers(0, RETENTION_MS))
    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @precondition(lambda self: self.model)
    @rule(
        before=st.sampled_from([-60, 0, 1, SEGMENT_MS, 2**62 + SEGMENT_MS]), limit=st.integers(1, 5)
    )
    def expire(self, before: int, limit: int) -> None:
        self.commit(dict.fromkeys(self.expired(before, limit)))

    def expired(self, before: int, limit: int) -> list[bytes]:
        """The expired keys, which must be those of the oldest windows."""
        due = sorted((window_start_ms(k), k) for k in self.model if window_start_ms(k) < before)
        expired = self.table.expired(before, limit)
        assert expired == [key for _, key in due[:limit]]
        return expired

    @invariant()
    def the_store_is_the_model(self) -> None:
        rows = sorted(self.model.items())
        assert list(self.table.scan()) == rows
        assert self.table.rows == len(rows)
        assert self.table.counted
        assert self.table.get_many([key for key, _ in rows]) == [value for _, value in rows]
        assert self.table.marker == self.mark
        position = self.table.position
        assert position is not None
        assert not [r for r in self.log.records if r[0] >= position.offset], "a tail was missed"

    def teardown(self) -> None:
        self.table.close()
        shutil.rmtree(self.folder)


class MemoryTableStoreMachine(TableStoreMachine):
    """The same life in memory: whatever ends the process loses the store."""

    def open(self) -> None:
        self.table = self.empty()
        self.restore()

    def empty(self) -> TableStore:
        return TableStore(MemoryStore(), windowed=True, segmented=self.segmented)

    def kill(self) -> None:
        self.open()


class SegmentedMachine(MemoryTableStoreMachine):
    """The same life of a table whose rows leave by segments."""

    segmented = True

    def expired(self, before: int, limit: int) -> list[bytes]:
        found = self.table.in_segments(-(2**63), before, limit)
        due = {k for k in self.model if _segment_end(k) <= before}
        assert len(set(found)) == len(found)
        assert set(found) <= due
        assert bool(found) == bool(due)
        assert set(self.table.in_segments(-(2**63), before, 100)) == due
        return found


def _segment_end(key: bytes) -> int:
    return (window_start_ms(key) // SEGMENT_MS + 1) * SEGMENT_MS


_SETTINGS = settings(
    max_examples=settings().max_examples // 5,  # an example is twenty steps, some of them slow
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestRocksDbTableStore = TableStoreMachine.TestCase
TestRocksDbTableStore.settings = _SETTINGS
TestSegmentedTableStore = SegmentedMachine.TestCase
TestSegmentedTableStore.settings = _SETTINGS
TestMemoryTableStore = MemoryTableStoreMachine.TestCase
TestMemoryTableStore.settings = _SETTINGS
