"""The reports of state partitions that have nothing to do while others are brought level."""

from __future__ import annotations

from dataclasses import fields

from holdfast.runtime.queries.stateful import _idle
from holdfast.tasks.plan import TaskReport, Whereabouts
from holdfast.types.snapshots import SnapshotState

# Of what a task did, nothing was done again.
_DONE = {
    "opened", "records", "emitted", "dropped_null_key", "dropped_late", "expired",
    "restored_records", "restored_bytes", "restore_seconds", "restore_reason", "get_seconds",
    "merge_seconds", "produce_seconds", "commit_seconds", "put_seconds",
}  # fmt: skip


def test_an_idle_partition_is_as_it_was_and_did_nothing() -> None:
    where = Whereabouts("1", 2, 3, 4)
    last = TaskReport(
        5, where, opened=True, rows=6, bytes=7, position=8, records=9, restored_records=10,
        restore_reason="it was empty", put_seconds=1.0, snapshot=SnapshotState(11),
    )  # fmt: skip
    idle, fresh = _idle(last), TaskReport(5, where)
    assert idle.skipped
    for each in fields(TaskReport):
        if each.name != "skipped":
            expected = fresh if each.name in _DONE else last
            assert getattr(idle, each.name) == getattr(expected, each.name), each.name
