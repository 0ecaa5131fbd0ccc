"""Restores one standby from its changelog, whatever state its store is in."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from holdfast.config.settings import StateSettings
from holdfast.errors import StoreAhead
from holdfast.serve.follow.standby import Standby
from holdfast.state.restore import READ_AHEAD, RestoreProgress, restore
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import PartitionReader

__all__ = ["Cancelled", "Restorer"]

_LOG = logging.getLogger(__name__)
_TOMBSTONES_MS = 86_400_000  # Kafka's default of delete.retention.ms


class Cancelled(Exception):
    """The standby is no longer needed."""


class Restorer:
    """Restores standbys.  Thread-safe."""

    def __init__(self, client: Mapping[str, str], settings: StateSettings, admin: Admin) -> None:
        self._client = READ_AHEAD | dict(client)
        self._settings = settings
        self._admin = admin

    def level(self, standby: Standby, topic_id: str, cancelled: Callable[[], bool]) -> None:
        """Replay the records that the store lacks.

        A store with another past than the changelog is wiped and restored in full.

        Raises:
            Cancelled: `cancelled` returned True.
            ChangelogLost: the changelog has lost its head, so no store can be restored from it.
            IncompatibleStatement: the changelog belongs to another statement.
            TopicMissing, KafkaUnavailable, Refused: see `restore`.
        """
        table = standby.table
        reader = PartitionReader(self._client, table.topic, standby.partition)
        try:
            try:
                self._replay(standby, reader, topic_id, cancelled)
            except StoreAhead as error:
                _LOG.error("%s is restored in full: %s", standby.name, error.fact)
                standby.error = error.fact
                standby.store.wipe()
                self._replay(standby, reader, topic_id, cancelled)
        finally:
            reader.close()

    def _replay(
        self,
        standby: Standby,
        reader: PartitionReader,
        topic_id: str,
        cancelled: Callable[[], bool],
    ) -> None:
        table = standby.table

        def progress(now: RestoreProgress) -> None:
            standby.seen_end(now.end)
            if cancelled():
                raise Cancelled

        standby.seen_end(reader.bounds()[1])
        report = restore(
            standby.store,
            reader,
            topic_id,
            now_ms=int(time.time() * 1000),
            delete_retention_ms=self._tombstones_kept_ms(table.topic),
            fingerprint=table.fingerprint,
            batch_records=self._settings.restore_batch_records,
            progress=progress,
            other_topic=None if table.has_markers else standby.rows_of,
        )
        if report.records:
            _LOG.info(
                "%s restored: %d records in %.1f s (%s)",
                standby.name,
                report.records,
                report.seconds,
                report.reason,
            )

    def _tombstones_kept_ms(self, topic: str) -> int:
        return int(self._admin.config(topic).get("delete.retention.ms", _TOMBSTONES_MS))
