"""Begins a job with a savepoint: its tables, and the offsets from which it goes on.

The control topic records with which savepoint a job begins, before anything is brought in, and that
all of it is there, before the first batch.  Every step may be repeated: what is committed stays as
it is.  Once all of it is there, nothing is brought in any more, whatever is lost later.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.config.settings import Settings
from holdfast.errors import Refused
from holdfast.runtime.insertions import insertion_names, take_over_insertions
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.savepoints.fitting import check_fits, own_topics
from holdfast.runtime.savepoints.offsets import Offsets, check_offsets
from holdfast.state.markers import last_markers
from holdfast.state.snapshots.savepoints import Savepoint, SavepointPlace, split_reference
from holdfast.state.topics.orders import Beginning, OrderBook
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import changelog_topic, consumer_group, progress_topic
from holdfast.types.statements.topology import Insertion, Query, Topology

__all__ = ["FirstStart"]

_LOG = logging.getLogger(__name__)


class FirstStart:
    """Knows with what a job begins; reads the control topic when it is asked first."""

    def __init__(
        self, admin: Admin, settings: Settings, topology: Topology, book: OrderBook
    ) -> None:
        self._admin = admin
        self._settings = settings
        self._topology = topology
        self._book = book
        self._looked = False

    @property
    def _known(self) -> Beginning | None:
        """The record on the control topic; None: nothing was ever brought in."""
        if not self._looked:
            self._book.refresh()
            self._looked = True
        return self._book.beginning

    @property
    def not_whole(self) -> frozenset[str]:
        """The job's sinks if it begins with a savepoint: they lack what came before."""
        if self._known is None and not self._settings.snapshots.start_from:
            return frozenset()
        return frozenset(query.sink.topic for query in self._topology.queries)

    def look(self) -> Savepoint | None:
        """The savepoint that has to be brought in; None: none, or it has been.

        Raises:
            Refused: there is no such savepoint, or the job has begun with something else.
            IncompatibleStatement: the statements cannot go on with it.
            DataLoss: source records after its offsets are gone.
            SnapshotsUnavailable, SnapshotDamaged: it cannot be read.
        """
        wanted, known = self._settings.snapshots.start_from, self._known
        if known is not None and known.done and wanted not in ("", known.named):
            raise self._begun(f"that began with the savepoint {known.named}")
        if not wanted and known is not None and not known.done:
            raise self._half(known)
        if not wanted or (known is not None and known.done):
            return None
        application_id, name = split_reference(wanted)
        if application_id == self._settings.application_id:
            raise Refused(
                f"{wanted} is a savepoint of this job itself.",
                cause="a job goes on with its own state at every start.",
                action="leave savepoint.from out, or begin under another application.id.",
            )
        savepoint = SavepointPlace(self._settings.snapshots.uri, application_id).read(name)
        if known is None:
            self._check_new()
        elif known.savepoint != savepoint.reference:
            raise self._half(known)
        check_fits(savepoint, self._topology.queries, self._settings.state.partitions)
        check_offsets(self._admin, self._settings, savepoint, self._topology.queries)
        return savepoint

    def bring_in(self, runs: Sequence[QueryRun]) -> None:
        """Brings the savepoint in, if this is the job's first start.

        Raises:
            SinkOwned: another job still writes a sink.
            HoldfastError: see `look`; or start again, what was brought in stays.
        """
        savepoint = self.look()
        if savepoint is None:
            return
        for run_ in runs:
            # Nobody else may write them any more: offsets are taken from their ends.
            run_.claim_sink()
        self._book.begin_with(Beginning(savepoint.reference))
        take_over_insertions(self._admin, self._settings, self._insertions(savepoint))
        offsets = Offsets(self._admin, self._settings, savepoint, self._topology.queries)
        for run_ in runs:
            saved = savepoint.query(run_.query.id)
            if saved is not None and saved.sources:
                _LOG.info("%s begins with savepoint %s", run_.query.id, savepoint.reference)
                run_.bring_in(offsets.origin(saved, run_.query))
        self._book.begin_with(Beginning(savepoint.reference, done=True))

    def _check_new(self) -> None:
        """Checks that the job has committed nothing."""
        for query in self._topology.queries:
            if self._has_begun(query):
                raise self._begun(f"of its own: {query.id} has committed something")

    def _has_begun(self, query: Query) -> bool:
        application_id, client = self._settings.application_id, self._settings.client()
        group = consumer_group(application_id, query.id)
        if any(self._admin.committed(group, source.topic) for source in query.sources):
            return True
        if not query.stateful:
            progress = progress_topic(application_id, query.id)
            known = self._admin.describe(progress) is not None
            return known and any(a < b for a, b in self._admin.bounds(progress).values())
        changelog = changelog_topic(application_id, query.id)
        found = self._admin.describe(changelog)
        return found is not None and any(last_markers(client, changelog, found.partitions))

    def _insertions(self, savepoint: Savepoint) -> list[bytes]:
        """The insertions that are not to be written again, by their names in this job.

        The name of an insertion has that of its topic, and the job's own topics have new names.
        """
        former = {now: was for was, now in own_topics(savepoint, self._topology.queries).items()}
        now = self._topology.insertions
        then = [_into(each, former.get(each.source.topic, each.source.topic)) for each in now]
        pairs = zip(insertion_names(now), insertion_names(then), strict=True)
        renamed: Mapping[str, bytes] = {was.decode(): name for name, was in pairs}
        return [renamed.get(name, name.encode()) for name in savepoint.insertions]

    def _begun(self, state: str) -> Refused:
        return Refused(
            f"The job {self._settings.application_id} has state {state}; it cannot begin with "
            f"{self._settings.snapshots.start_from}.",
            cause="savepoint.from is for the first start of a job.",
            action="leave it out to go on with that state, or begin under a new application.id.",
        )

    def _half(self, known: Beginning) -> Refused:
        return Refused(
            f"The job {self._settings.application_id} has begun with savepoint {known.savepoint}, "
            "and not all of it was brought in.",
            cause="its first start was ended, and savepoint.from was changed since, or the "
            "savepoint was made again under its name.",
            action=f"start it with savepoint.from={known.named} as it was, or begin under a new "
            "application.id.",
        )


def _into(insertion: Insertion, topic: str) -> Insertion:
    return replace(insertion, source=replace(insertion.source, topic=topic))
