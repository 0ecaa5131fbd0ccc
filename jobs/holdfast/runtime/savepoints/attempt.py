"""One attempt to make a savepoint: freeze, have the copies uploaded, write the document."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.errors import HoldfastError, Refused, SnapshotsUnavailable
from holdfast.runtime.insertions import written_insertions
from holdfast.runtime.jvm.failures import from_spark
from holdfast.runtime.queries.query_run import Frozen, QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.stores import copies_told
from holdfast.runtime.savepoints.frozen import Freezer
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.snapshots.savepoints import (
    SavedQuery,
    SavedSource,
    SavedStore,
    Savepoint,
    SavepointPlace,
    folder_of,
)
from holdfast.tasks.plan import TaskReport, Whereabouts
from holdfast.tasks.savepoints import CopiesReport
from holdfast.types.ids import OffsetRange

__all__ = ["Again", "Attempt"]

_LOG = logging.getLogger(__name__)
_FREEZE_S = 60.0  # how long writers may wait for readers
_POLL_S = 0.5
_LOST_S = 20.0  # without word of an executor that is not there
_Key = tuple[str, int]  # query id, state partition


class Again(Exception):
    """The savepoint has to be begun anew: an executor was lost, or state partitions moved."""


class Attempt:
    """Owns the files of one attempt, in a folder of their own.

    Args:
        runs: all queries of the job.
        text: the statements of the job.
        until: when nobody waits for it any more, in monotonic s.
    """

    def __init__(
        self, services: Services, runs: Sequence[QueryRun], name: str, text: str, until: float
    ) -> None:
        settings = services.settings
        self._services = services
        self._runs = runs
        self._name = name
        self._text = text
        self._until = until
        self._token = secrets.token_hex(8)
        self._folder = folder_of(settings.application_id, name, self._token)
        self._place = SavepointPlace(settings.snapshots.uri, settings.application_id)

    def make(self, told: Callable[[str], None]) -> None:
        """Makes the savepoint; if it fails, its files are removed.

        Args:
            told: called with what it is doing, in words.

        Raises:
            Again: another attempt may succeed.
            HoldfastError: no attempt would.
        """
        try:
            self._place.write(self._made(told))
        except BaseException:
            self._discard()
            raise

    def _made(self, told: Callable[[str], None]) -> Savepoint:
        services, settings = self._services, self._services.settings
        insertions = written_insertions(services.admin, settings)
        told("waiting for the batches")
        freezer = Freezer(self._runs, services.turn, services.admin, _FREEZE_S)
        with freezer.hold():
            taken_ms = int(time.time() * 1000)
            found = {run_.query.id: self._frozen(run_) for run_ in self._runs}
            freezer.check(found)
        told("uploading the copies of the stores")
        manifests = self._uploaded(
            {(i, r.partition): r.where for i, one in found.items() for r in one.stores}
        )
        return Savepoint(
            self._name,
            settings.application_id,
            self._token,
            taken_ms,
            self._text,
            tuple(_saved(run_, found[run_.query.id], manifests) for run_ in self._runs),
            tuple(sorted(name.decode() for name in insertions)),
        )

    def _frozen(self, run_: QueryRun) -> Frozen:
        try:
            found = run_.freeze(self._folder)
        except HoldfastError:
            raise
        except Exception as error:
            raise Again(str(from_spark(run_.query.id, error))) from error
        if found is None:
            raise Again(f"the state partitions of {run_.query.id} are not level")
        return found

    def _uploaded(self, wanted: Mapping[_Key, Whereabouts]) -> dict[_Key, Manifest]:
        """The manifests of all copies, once they are uploaded, by the processes that have them."""
        done: dict[_Key, Manifest] = {}
        heard = dict.fromkeys(wanted.values(), time.monotonic())
        while len(done) < len(wanted):
            time.sleep(_POLL_S)
            self._check_time()
            for report in self._told():
                heard[report.where] = time.monotonic()
                _check_followed(report.where, {wanted[key] for key in wanted.keys() - done.keys()})
                mine = {key for key, where in wanted.items() if where == report.where}
                done |= _manifests_in(report, mine)
            known = self._services.cluster.whereabouts()
            for where in {wanted[key] for key in wanted.keys() - done.keys()}:
                if where not in known and time.monotonic() - heard[where] > _LOST_S:
                    raise Again(f"executor {where.executor_id} was lost with its copies")
        return done

    def _told(self) -> Sequence[CopiesReport]:
        try:
            return copies_told(self._services, self._folder)
        except Exception as error:  # noqa: BLE001 - an executor was lost: the others are asked again
            _LOG.info("Not all executors tell of their copies: %s", error)
            return ()

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise Refused(
                "The copies of the stores were not uploaded in the time that somebody waits.",
                cause="they are large for the way to snapshot.uri, or it hangs.",
                action="order the savepoint again, with a longer --timeout.",
            )

    def _discard(self) -> None:
        try:
            self._place.discard(self._name, self._token)
        except HoldfastError as error:
            _LOG.warning("Files of savepoint %s are left: %s", self._name, error.fact)


def _check_followed(told: Whereabouts, wanted: Iterable[Whereabouts]) -> None:
    """Checks that no other process has the volume of one with copies: that one has ended then.

    Its executor may live on, so that nothing else says so.

    Raises:
        Again: its copies are lost.
    """
    for where in wanted:
        if where.volume == told.volume and where != told:
            raise Again(
                f"the Python worker {where.worker_pid} of executor {where.executor_id} has ended, "
                "and its copies with it"
            )


def _manifests_in(report: CopiesReport, wanted: set[_Key]) -> dict[_Key, Manifest]:
    """The manifests of uploaded copies that a process reports.

    Raises:
        Again: it does not have all that it had copied.
        SnapshotsUnavailable: a copy cannot be uploaded.
    """
    told = {(copy.query_id, copy.partition): copy for copy in report.copies}
    if wanted - told.keys():
        raise Again(f"executor {report.where.executor_id} has lost its copies")
    for query_id, partition in wanted:
        if error := told[query_id, partition].error:
            raise SnapshotsUnavailable(
                f"The copy of {query_id} state partition {partition} was not uploaded: {error}",
                action="look at snapshot.uri, and order the savepoint again.",
            )
    found = ((key, told[key].manifest) for key in wanted)
    return {key: manifest for key, manifest in found if manifest is not None}


def _saved(run_: QueryRun, found: Frozen, manifests: Mapping[_Key, Manifest]) -> SavedQuery:
    query = run_.query
    return SavedQuery(
        id=query.id,
        statement=query.statement,
        sink=query.sink.name,
        sink_topic=query.sink.topic,
        internal=query.sink.internal,
        stateful=query.stateful,
        state_partitions=len(found.stores),
        facts=found.facts,
        sources=() if found.source is None else tuple(_sources(found.source)),
        stores=tuple(_store(query.id, report, manifests) for report in found.stores),
    )


def _sources(source: OffsetRange) -> Iterator[SavedSource]:
    for topic in source.topics:
        ends = {p: at for (name, p), at in source.ends().items() if name == topic}
        yield SavedSource(topic, source.ids.get(topic, ""), ends)


def _store(query_id: str, report: TaskReport, manifests: Mapping[_Key, Manifest]) -> SavedStore:
    assert report.marker is not None, "all state partitions of a query have one, or none has"
    manifest = manifests[query_id, report.partition]
    return SavedStore(report.partition, report.rows, report.marker.to_bytes().decode(), manifest)
