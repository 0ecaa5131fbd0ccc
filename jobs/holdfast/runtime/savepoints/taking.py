"""Makes the savepoints that are ordered on the control topic, beside the batches."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.errors import HoldfastError, InvalidConfig, Refused, SnapshotsUnavailable
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
from holdfast.state.topics.orders import OrderBook, SavepointOrder, SavepointTold
from holdfast.tasks.plan import TaskReport
from holdfast.tasks.savepoints import Attempt, CopyTold
from holdfast.types.ids import OffsetRange
from holdfast.types.topology import Topology

__all__ = ["SavepointMaker"]

_LOG = logging.getLogger(__name__)
_FREEZE_S = 60.0  # how long writers may wait for readers
_POLL_S = 0.5
_LOST_S = 20.0  # without word of a copy: its executor is gone
_ATTEMPTS = 3
_AGAIN_S = 1.0
_Key = tuple[str, int]  # query id, state partition


class _Again(Exception):
    """The savepoint has to be begun anew: an executor was lost, or state partitions moved."""


@dataclass
class _Making:
    """A savepoint that is being made; the thread writes, the main loop reads."""

    name: str
    order: SavepointOrder
    told: SavepointTold
    published: SavepointTold | None = None


class SavepointMaker:
    """Owns the thread that makes savepoints, one after the other."""

    def __init__(self, services: Services, book: OrderBook, topology: Topology) -> None:
        settings = services.settings
        self._services = services
        self._book = book
        self._topology = topology
        self._place = SavepointPlace(settings.snapshots.uri, settings.application_id)
        self._making: _Making | None = None

    def look(self, runs: Sequence[QueryRun]) -> None:
        """Called on every iteration of the main loop, after the orders have been read."""
        if self._making is None:
            self._begin(runs)
        if self._making is not None:
            self._publish(self._making)

    def _begin(self, runs: Sequence[QueryRun]) -> None:
        for name, order in self._book.savepoint_orders.items():
            told = self._book.savepoints_told.get(name)
            if told is not None and told.token == order.token and not told.doing:
                continue
            making = _Making(name, order, SavepointTold(order.token, "waiting for the batches"))
            self._making = making
            work = threading.Thread(
                target=self._run, args=(making, tuple(runs)), name="savepoint", daemon=True
            )
            work.start()
            return

    def _publish(self, making: _Making) -> None:
        told = making.told
        if told != making.published:
            try:
                self._book.tell_savepoint(making.name, told)
            except HoldfastError as error:
                _LOG.warning("Nobody learns of savepoint %s yet: %s", making.name, error.fact)
                return
            making.published = told
        if not told.doing:
            self._making = None

    # -- in the thread ------------------------------------------------------------------------

    def _run(self, making: _Making, runs: Sequence[QueryRun]) -> None:
        token = making.order.token
        try:
            self._check(making)
            if not self._place.has(making.name):
                self._make(making, runs)
            making.told = SavepointTold(token)
        except HoldfastError as error:
            _LOG.warning("Savepoint %s was not made: %s", making.name, error)
            self._discard(making.name)
            making.told = SavepointTold(token, "", error.fact, error.cause, error.action)
        except Exception as error:  # noqa: BLE001 - whoever waits for it learns of it
            _LOG.exception("Savepoint %s was not made", making.name)
            self._discard(making.name)
            making.told = SavepointTold(token, "", f"{type(error).__name__}: {error}")

    def _check(self, making: _Making) -> None:
        settings = self._services.settings
        if not settings.snapshots.uri:
            raise InvalidConfig(
                f"The job {settings.application_id} has no place for savepoints.",
                action="deploy it with snapshot.uri, a place that driver and executors can reach.",
            )
        late_s = time.time() - making.order.until_ms / 1000
        if late_s > 0:
            raise Refused(
                f"The order is {late_s:.0f} s too late: nobody waits for it any more.",
                cause="the job was not running when the savepoint was ordered.",
                action="order it again.",
            )

    def _make(self, making: _Making, runs: Sequence[QueryRun]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                savepoint = self._attempt(making, runs)
            except _Again as again:
                _LOG.warning("Savepoint %s begins anew: %s", making.name, again)
                if attempt == _ATTEMPTS:
                    raise Refused(
                        f"The savepoint was not made in {_ATTEMPTS} attempts: {again}.",
                        cause="executors are lost again and again, or another driver is at work.",
                        action="see that the job runs steadily, and order it again.",
                    ) from again
                time.sleep(_AGAIN_S)
            else:
                self._place.write(savepoint)
                return

    def _attempt(self, making: _Making, runs: Sequence[QueryRun]) -> Savepoint:
        services, settings = self._services, self._services.settings
        folder = folder_of(settings.application_id, making.name)
        attempt = Attempt(folder, secrets.token_hex(8))
        freezer = Freezer(runs, services.turn, services.admin, _FREEZE_S)
        with freezer.hold():
            taken_ms = int(time.time() * 1000)
            found = {run_.query.id: self._frozen(run_, attempt) for run_ in runs}
            freezer.check(found)
            insertions = written_insertions(services.admin, settings)
        making.told = replace(making.told, doing="uploading the copies of the stores")
        wanted = {(i, store.partition) for i, one in found.items() for store in one.stores}
        manifests = self._uploaded(attempt, wanted)
        return Savepoint(
            making.name,
            settings.application_id,
            taken_ms,
            self._topology.text,
            tuple(_saved(run_, found[run_.query.id], manifests) for run_ in runs),
            tuple(sorted(name.decode() for name in insertions)),
        )

    def _frozen(self, run_: QueryRun, attempt: Attempt) -> Frozen:
        try:
            found = run_.freeze(attempt)
        except HoldfastError:
            raise
        except Exception as error:
            raise _Again(str(from_spark(run_.query.id, error))) from error
        if found is None:
            raise _Again(f"the state partitions of {run_.query.id} are not level")
        return found

    def _uploaded(self, attempt: Attempt, wanted: set[_Key]) -> dict[_Key, Manifest]:
        """The manifests of all copies, once they are uploaded."""
        done: dict[_Key, Manifest] = {}
        heard = dict.fromkeys(wanted, time.monotonic())
        while wanted - done.keys():
            for told in self._told(attempt):
                key = told.query_id, told.partition
                heard[key] = time.monotonic()
                if told.error:
                    raise SnapshotsUnavailable(
                        f"The copy of {told.query_id} state partition {told.partition} was not "
                        f"uploaded: {told.error}",
                        action="look at snapshot.uri, and order the savepoint again.",
                    )
                if told.manifest is not None:
                    done[key] = told.manifest
            oldest = min((heard[key] for key in wanted - done.keys()), default=time.monotonic())
            if time.monotonic() - oldest > _LOST_S:
                raise _Again("an executor was lost with its copies")
            time.sleep(_POLL_S)
        return done

    def _told(self, attempt: Attempt) -> Sequence[CopyTold]:
        services = self._services
        try:
            return copies_told(services.cluster, services.context, attempt)
        except Exception as error:  # noqa: BLE001 - an executor was lost: the others are asked again
            _LOG.info("Not all executors tell of their copies: %s", error)
            return ()

    def _discard(self, name: str) -> None:
        """Removes what an unfinished savepoint has left."""
        if not self._services.settings.snapshots.uri:
            return
        try:
            if not self._place.has(name):
                self._place.delete(name)
        except HoldfastError as error:
            _LOG.warning("Files of savepoint %s are left: %s", name, error.fact)


def _saved(run_: QueryRun, found: Frozen, manifests: Mapping[_Key, Manifest]) -> SavedQuery:
    query = run_.query
    first = found.stores[0].marker if found.stores else None
    return SavedQuery(
        id=query.id,
        statement=query.statement,
        sink=query.sink.name,
        sink_topic=query.sink.topic,
        internal=query.sink.internal,
        stateful=query.stateful,
        state_partitions=len(found.stores),
        canonical=first.canonical if first is not None else "",
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
    return SavedStore(report.partition, report.rows, report.marker.stream_time_ms, manifest)
