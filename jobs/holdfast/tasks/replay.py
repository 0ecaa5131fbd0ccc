"""Opens the store of a state partition and brings it level with its changelog.

The owner does this once, before it takes batches; a standby does it again and again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from holdfast.errors import ChangelogLost, StoreAhead
from holdfast.state import open_table_store
from holdfast.state.restore import RestoreProgress, RestoreReport, restore
from holdfast.state.table_store import TableStore
from holdfast.state.volume import Volume
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.processors.layout import layout_of
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import PartitionReader

__all__ = ["open_store", "replay", "tombstones_kept_ms"]

_LOG = logging.getLogger(__name__)


def open_store(plan: QueryPlan, partition: int, volume: Volume | None) -> TableStore:
    """The store of one state partition on this volume; empty if there was none.

    Raises:
        StoreLocked: another process has it open.
        VolumeFull: no space for a new one.
    """
    layout = layout_of(plan.query)
    return open_table_store(
        plan.settings.state,
        volume,
        plan.settings.application_id,
        plan.query.id,
        partition,
        windowed=layout.windowed,
        segmented=layout.segmented,
    )


def tombstones_kept_ms(plan: QueryPlan, admin: Admin) -> int:
    """How long the query's changelog keeps tombstones, in ms.

    The topic's own setting may have been lowered since the job created the topic.
    """
    wanted = plan.settings.state.delete_retention_ms
    found = admin.config(plan.changelog).get("delete.retention.ms")
    return min(wanted, int(found)) if found is not None else wanted


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
