"""Begins a job with a savepoint: its tables, and the offsets from which it goes on.

Every step may be repeated: what is committed stays as it is.  The job's queries start only when all
of them are done, and a later start finds in the commit markers that they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from holdfast.config.settings import Settings
from holdfast.errors import IncompatibleStatement, Refused
from holdfast.runtime.insertions import take_over_insertions
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.state.changelog import CommitMarker
from holdfast.state.markers import last_markers
from holdfast.state.snapshots.savepoints import (
    SavedQuery,
    Savepoint,
    SavepointPlace,
    folder_of,
    split_reference,
)
from holdfast.tasks.bringing_in import Origin, shares
from holdfast.tasks.compatibility import check_saved
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import OffsetRange, Place, changelog_topic
from holdfast.types.topology import AggregateStep, Emit, Query

__all__ = ["begin_with_savepoint", "savepoint_to_bring_in"]

_LOG = logging.getLogger(__name__)


def begin_with_savepoint(admin: Admin, settings: Settings, runs: Sequence[QueryRun]) -> None:
    """Brings the savepoint of `savepoint.from` in, if this is the job's first start.

    Raises:
        Refused: see `savepoint_to_bring_in`.
        SinkOwned: another job still writes a sink.
        HoldfastError: start again; what was brought in stays.
    """
    queries = [run_.query for run_ in runs]
    savepoint = savepoint_to_bring_in(admin, settings, queries)
    if savepoint is None:
        return
    for run_ in runs:
        # Nobody else may write them any more: offsets are taken from their ends.
        run_.claim_sink()
    take_over_insertions(admin, settings, [name.encode() for name in savepoint.insertions])
    offsets = _Offsets(admin, savepoint, queries)
    for run_ in runs:
        saved = savepoint.query(run_.query.id)
        if saved is not None and saved.sources:
            _LOG.info("%s begins with savepoint %s", run_.query.id, savepoint.reference)
            run_.bring_in(offsets.origin(saved, run_.query))


def savepoint_to_bring_in(
    admin: Admin, settings: Settings, queries: Sequence[Query]
) -> Savepoint | None:
    """The savepoint with which a job has to begin; None: with none, or it has begun with it.

    Raises:
        Refused: there is no such savepoint, or the job has state of its own.
        IncompatibleStatement: the statements cannot go on with it.
        SnapshotsUnavailable, SnapshotDamaged: it cannot be read.
    """
    if not settings.snapshots.start_from:
        return None
    if _begun(settings, [m for query in queries for m in _markers(admin, settings, query)]):
        return None
    application_id, name = split_reference(settings.snapshots.start_from)
    savepoint = SavepointPlace(settings.snapshots.uri, application_id).read(name)
    _check_fits(savepoint, queries, settings.state.partitions)
    return savepoint


def _markers(admin: Admin, settings: Settings, query: Query) -> list[CommitMarker | None]:
    """The last commit markers of a query with state; None for each that is missing."""
    changelog = changelog_topic(settings.application_id, query.id)
    found = admin.describe(changelog) if query.stateful else None
    if found is None:
        return [None] * settings.state.partitions if query.stateful else []
    return last_markers(settings.client(), changelog, found.partitions)


def _begun(settings: Settings, markers: Sequence[CommitMarker | None]) -> bool:
    """Whether all of it was brought in before.

    Raises:
        Refused: the job has begun with something else.
    """
    wanted = settings.snapshots.start_from
    known = [marker for marker in markers if marker is not None]
    ours = [marker for marker in known if marker.savepoint.rpartition("@")[0] == wanted]
    if known and not ours:
        other = next((marker.savepoint for marker in known if marker.savepoint), "no savepoint")
        raise Refused(
            f"The job {settings.application_id} has state that began with {other}, not with "
            f"{wanted}.",
            cause="savepoint.from is for the first start of a job.",
            action="leave it out to go on with that state, or begin under a new application.id.",
        )
    return bool(markers) and len(known) == len(markers)


def _check_fits(savepoint: Savepoint, queries: Sequence[Query], state_partitions: int) -> None:
    by_id = {query.id: query for query in queries}
    topics = _own_topics(savepoint, queries)
    lacking = [saved for saved in savepoint.queries if saved.sources and saved.id not in by_id]
    if lacking:
        raise IncompatibleStatement(
            f"The savepoint {savepoint.reference} has {', '.join(s.id for s in lacking)}, the job "
            f"has {', '.join(by_id) or 'no queries'}.",
            cause="a statement was left out, or its table has another name.",
            action="keep the names of tables and streams, and give sinks other topics with "
            "KAFKA_TOPIC; a table that is not wanted can be terminated later.",
        )
    for saved in savepoint.queries:
        query = by_id.get(saved.id)
        if query is None or not saved.sources:
            continue
        check_saved(saved.canonical, saved.facts, topics, query)
        _check_final(saved, query, state_partitions)


def _check_final(saved: SavedQuery, query: Query, state_partitions: int) -> None:
    """Windows close by the time of their state partition: those that join must agree on it."""
    step = query.step
    if not isinstance(step, AggregateStep) or step.emit is not Emit.FINAL:
        return
    for share in shares(saved.state_partitions, state_partitions) if saved.stores else ():
        times = {saved.stores[old].stream_time_ms for old in share.old}
        if len(times) > 1:
            raise IncompatibleStatement(
                f"{query.id} has EMIT FINAL, and its state partitions {share.old} stand at "
                f"{len(times)} event times: as one they would emit windows twice, or never.",
                cause=f"state.partitions was {saved.state_partitions}, is {state_partitions}.",
                action=f"set state.partitions to a multiple of {saved.state_partitions}.",
            )


def _own_topics(savepoint: Savepoint, queries: Sequence[Query]) -> dict[str, str]:
    """The job's own topics by those of the savepoint's job."""
    by_id = {query.id: query for query in queries}
    return {
        saved.sink_topic: by_id[saved.id].sink.topic
        for saved in savepoint.queries
        if saved.id in by_id
    }


class _Offsets:
    """Finds the offsets from which queries go on.

    Offsets of topics that other programs write stay as they are.  Of a topic that the job writes
    itself everything up to the savepoint was read; the new job's own begins behind that.
    """

    def __init__(self, admin: Admin, savepoint: Savepoint, queries: Sequence[Query]) -> None:
        self._admin = admin
        self._savepoint = savepoint
        self._own = _own_topics(savepoint, queries)
        self._internal = {query.sink.topic for query in queries if query.sink.internal}

    def origin(self, saved: SavedQuery, query: Query) -> Origin:
        """The origin of a query in the savepoint."""
        savepoint, source = self._savepoint, saved.source()
        topics = [self._own.get(topic, topic) for topic in source.topics]
        ends: dict[Place, int] = {}
        ids: dict[str, str] = {}
        for was, now in zip(source.topics, topics, strict=True):
            if was in self._own:
                found = self._admin.look(now)
                ids[now] = found.topic_id
                behind = 0 if now in self._internal else 1
                ends |= {(now, p): bounds[behind] for p, bounds in found.bounds.items()}
            else:
                ids[now] = source.ids.get(was, "")
                ends |= {place: at for place, at in source.ends().items() if place[0] == was}
        folder = folder_of(savepoint.application_id, savepoint.name)
        return Origin(
            savepoint.reference,
            f"{folder}/{query.id}",
            saved.stores,
            OffsetRange.over(topics, ends, ends, ids),
            frozenset(topic for topic in source.topics if topic not in self._own),
        )
