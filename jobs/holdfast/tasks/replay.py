"""Opens the store of a state partition, from a snapshot if it is lost, and brings it level.

The owner does this once, before it takes batches; a standby does it again and again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.errors import ChangelogLost, SnapshotDamaged, SnapshotsUnavailable, StoreAhead
from holdfast.state import open_table_store
from holdfast.state.restore import RestoreProgress, RestoreReport, restore
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.table_store import TableStore, store_name
from holdfast.state.volume import Volume
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.processors.layout import layout_of
from holdfast.tasks.steps import SnapshotStep, reached
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import PartitionReader

__all__ = ["from_snapshot", "open_store", "replay", "tombstones_kept_ms"]

_LOG = logging.getLogger(__name__)


def open_store(
    plan: QueryPlan, partition: int, volume: Volume | None, *, warms: bool = False
) -> TableStore:
    """The store of one state partition, on this volume or in the database; empty if it is new.

    Args:
        warms: see `open_table_store`.

    Raises:
        Fenced: it shall be warmed, and has an owner.
        StoreLocked: another process has it open.
        VolumeFull: no space for a new one.
    """
    layout = layout_of(plan.query)
    return open_table_store(
        plan.settings.state,
        volume,
        *_place(plan, partition),
        windowed=layout.windowed,
        segmented=layout.segmented,
        warms=warms,
    )


def _place(plan: QueryPlan, partition: int) -> tuple[str, str, int]:
    return plan.settings.application_id, plan.state_name, partition


def tombstones_kept_ms(plan: QueryPlan, admin: Admin) -> int:
    """How long the query's changelog keeps tombstones, in ms.

    The topic's own setting may have been lowered since the job created the topic.
    """
    wanted = plan.settings.state.delete_retention_ms
    found = admin.config(plan.changelog).get("delete.retention.ms")
    return min(wanted, int(found)) if found is not None else wanted


def from_snapshot(
    plan: QueryPlan,
    partition: int,
    volume: Volume | None,
    store: TableStore,
    kept_ms: int,
    told: Callable[[int], None] = lambda _: None,
) -> tuple[TableStore, str]:
    """Exchanges a lost store for its newest good snapshot, if there is one.

    A store is lost if it is empty, or was away for longer than tombstones are kept.

    Args:
        kept_ms: see `tombstones_kept_ms`.
        told: see `Archive.fetch`.

    Returns:
        The store to use, and what was found, in words; empty: nobody has looked.

    Raises:
        VolumeFull: no space for the snapshot.
    """
    uri, since_ms = plan.settings.snapshots.uri, int(time.time() * 1000) - kept_ms
    if not uri or volume is None or not _is_lost(store, since_ms):
        return store, ""
    name, found = store_name(*_place(plan, partition)), "no snapshot"
    archive, began = Archive(uri, name), time.monotonic()
    try:
        for manifest in archive.snapshots(plan.changelog_topic_id):
            if manifest.position.written_ms < since_ms:
                found = "no snapshot that is young enough"
                continue
            found = "no snapshot that is good"
            folder = volume.scratch(f"fetched/{name}")
            if _fetched(archive, manifest, folder, told):
                reached(SnapshotStep.FETCHED, plan.query.id, partition)
                store.close()
                volume.adopt_store(folder, *_place(plan, partition))
                store = open_store(plan, partition, volume)
                if store.position is not None:
                    return store, _told(manifest, time.monotonic() - began)
    except SnapshotsUnavailable as error:
        _LOG.error("%s: %s", name, error)
        found = "the snapshots are out of reach"
    return store, found


def _fetched(
    archive: Archive, manifest: Manifest, folder: Path, told: Callable[[int], None]
) -> bool:
    """Whether the folder has all files of the snapshot, and they are good."""
    try:
        archive.fetch(manifest, folder, told)
    except SnapshotDamaged as error:
        _LOG.error("A snapshot of %s is passed over: %s", manifest.store, error)
        return False
    return True


def _told(manifest: Manifest, seconds: float) -> str:
    age_s = time.time() - manifest.taken_ms / 1000
    return (
        f"a snapshot of {manifest.size} bytes, {age_s:.0f} s old, at changelog offset "
        f"{manifest.position.offset}, fetched in {seconds:.1f} s"
    )


def _is_lost(store: TableStore, since_ms: int) -> bool:
    return store.position is None or store.position.written_ms < since_ms


def replay(
    plan: QueryPlan,
    store: TableStore,
    reader: PartitionReader,
    kept_ms: int,
    progress: Callable[[RestoreProgress], None],
    *,
    counted: bool = True,
) -> RestoreReport:
    """Brings the store level with the end of the changelog partition that `reader` reads.

    A store with another past than the changelog is wiped and restored in full.

    Args:
        kept_ms: see `tombstones_kept_ms`.
        progress: called after every batch of records.
        counted: see `restore`.

    Raises:
        ChangelogLost: the store has rows, but its changelog is empty.
        HoldfastError: see `restore`.
    """
    try:
        return _restored(plan, store, reader, kept_ms, progress, counted=counted)
    except StoreAhead as ahead:
        name = f"{plan.query.id} state partition {reader.partition}"
        start, end = reader.bounds()
        if start == end and plan.settings.state.on_changelog_loss != "rebuild":
            raise _changelog_lost(f"{name} holds {store.rows} rows", reader, end, ahead) from ahead
        _LOG.error("%s: %s Wiping the store and restoring it in full.", name, ahead)
        store.wipe()
        return _restored(plan, store, reader, kept_ms, progress, counted=counted)


def _restored(
    plan: QueryPlan,
    store: TableStore,
    reader: PartitionReader,
    kept_ms: int,
    progress: Callable[[RestoreProgress], None],
    *,
    counted: bool,
) -> RestoreReport:
    return restore(
        store,
        reader,
        plan.changelog_topic_id,
        now_ms=int(time.time() * 1000),
        delete_retention_ms=kept_ms,
        # The owner checks the changes of CREATE OR REPLACE against the commit marker.
        fingerprint=None if plan.query.replaces else plan.query.fingerprint(),
        batch_records=plan.settings.state.restore_batch_records,
        progress=progress,
        counted=counted,
    )


def _changelog_lost(
    holds: str, reader: PartitionReader, end: int, ahead: StoreAhead
) -> ChangelogLost:
    return ChangelogLost(
        f"{holds}, but its changelog {reader.topic} is empty (offsets {end}..{end}). {ahead.fact}",
        cause="the changelog topic was deleted, or the cluster was replaced without its data",
        action="restore the topic, or set on.changelog.loss=rebuild to drop the stores and "
        "recompute the table from the source's earliest records",
    )
