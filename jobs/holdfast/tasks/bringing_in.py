"""Writes the tables of a savepoint into the changelogs of another job, exactly once.

A state partition's rows and its first commit marker are one transaction, under the transactional id
of its later owners: it is brought in whole or not at all, and whoever comes later fences whoever
comes earlier.  The marker carries the savepoint's source offsets, so the job goes on from there.

With another number of state partitions rows move.  A key's state partition is its hash modulo that
number, so with P before and P' now a *share* is closed in itself, for each k < gcd(P, P'):

    P = 4, P' = 6       share 0: 0, 2 -> 0, 2, 4        share 1: 1, 3 -> 1, 3, 5
"""

from __future__ import annotations

import math
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa

from holdfast.errors import IncompatibleStatement, StoreCorrupted
from holdfast.state import open_copy
from holdfast.state.changelog import FORMAT_VERSION, MARKER_KEY, CommitMarker, data_keys
from holdfast.state.markers import last_marker
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.savepoints import SavedStore
from holdfast.state.table_store import TableStore
from holdfast.state.volume import Volume
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.processors.homes import homes, merged
from holdfast.tasks.processors.layout import layout_of
from holdfast.tasks.steps import SavepointStep, reached
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.partitioner import PARTITIONER, state_partitions
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import OffsetRange, state_transactional_id
from holdfast.types.statement_facts import statement_facts
from holdfast.types.topology import JoinStep

__all__ = ["BroughtIn", "Origin", "Share", "bring_in", "shares"]

# Brokers allow it by default: the rows of a state partition are one transaction.
_TRANSACTION_MS = 900_000
_ENDED_S = 20.0
_AT_ONCE = 8  # transactions at a time; each has a client of its own
_PIECE = 5_000  # rows


@dataclass(frozen=True)
class Origin:
    """The part of a savepoint that one query begins with.

    Attributes:
        reference: the savepoint, see `Savepoint.reference`.
        folder: its folder, see `folder_of`, and the query's in it.
        stores: of all former state partitions.
        source: the offsets from which the query goes on, as an empty range.
        kept: the source topics that are the same as the savepoint's; the others have other records.
    """

    reference: str
    folder: str
    stores: tuple[SavedStore, ...]
    source: OffsetRange
    kept: frozenset[str]


@dataclass(frozen=True)
class Share:
    """Former state partitions, and those of now that get their rows and no others."""

    old: tuple[int, ...]
    new: tuple[int, ...]


@dataclass(frozen=True)
class BroughtIn:
    """The state partitions of a share that were brought in by this call, and their rows."""

    share: Share
    partitions: tuple[int, ...]
    rows: int


def shares(old: int, new: int) -> list[Share]:
    """The shares by which `old` state partitions become `new` ones."""
    count = math.gcd(old, new)
    return [Share(tuple(range(k, old, count)), tuple(range(k, new, count))) for k in range(count)]


def bring_in(plan: QueryPlan, origin: Origin, share: Share, volume: Volume) -> BroughtIn:
    """Writes a share's rows into the changelog, for state partitions without a commit marker.

    Raises:
        SnapshotDamaged: a file of the savepoint is not what its document says.
        SnapshotsUnavailable: the place of the savepoint does not answer.
        IncompatibleStatement: a state partition has committed something else.
        Retriable: do it again; what was brought in stays.
    """
    work = _Work(plan, origin, share, volume)
    done: list[int] = []
    rows = 0
    try:
        for at in range(0, len(share.new), _AT_ONCE):
            with ExitStack() as stack:
                targets = work.targets(share.new[at : at + _AT_ONCE], stack)
                if targets:
                    work.write(targets)
                done += targets
                rows += sum(target.rows for target in targets.values())
    finally:
        work.clean()
    return BroughtIn(share, tuple(done), rows)


@dataclass
class _Target:
    """A state partition whose transaction is open; `keys` and `values` are not sent yet."""

    producer: TransactionalProducer
    rows: int = 0
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)

    def add(self, key: bytes, row: bytes) -> None:
        self.keys.append(key)
        self.values.append(row)

    def send(self, changelog: str, partition: int) -> None:
        self.producer.send(changelog, partition, data_keys(self.keys), self.values)
        self.rows += len(self.keys)
        self.keys.clear()
        self.values.clear()


class _Work:
    """Owns the fetched stores of a share until `clean`."""

    def __init__(self, plan: QueryPlan, origin: Origin, share: Share, volume: Volume) -> None:
        self._plan = plan
        self._origin = origin
        self._share = share
        self._root = volume.scratch(f"brought/{secrets.token_hex(8)}")
        step = plan.query.step
        # The state partitions of a broadcast join have the same rows.
        alike = isinstance(step, JoinStep) and step.broadcast
        self._old = share.old[:1] if alike else share.old
        self._fetched: dict[int, Path] = {}

    def clean(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    # -- which --------------------------------------------------------------------------------

    def targets(self, partitions: Sequence[int], stack: ExitStack) -> dict[int, _Target]:
        """Fences former owners; a state partition with a commit marker is done already."""
        found = {}
        for partition in partitions:
            producer = stack.enter_context(self._producer(partition))
            producer.init()
            if self._is_free(partition):
                found[partition] = _Target(producer)
        return found

    def _producer(self, partition: int) -> TransactionalProducer:
        settings = self._plan.settings
        name = state_transactional_id(settings.application_id, self._plan.query.id, partition)
        return TransactionalProducer(settings.client(), name, _TRANSACTION_MS)

    def _is_free(self, partition: int) -> bool:
        plan, client = self._plan, self._plan.settings.client()
        shared_admin(client).await_ended(plan.changelog, partition, _ENDED_S)
        with closing(PartitionReader(client, plan.changelog, partition, exists=True)) as reader:
            marker = last_marker(reader, *reader.bounds())
        if marker is not None and marker.savepoint != self._origin.reference:
            raise IncompatibleStatement(
                f"{plan.query.id} state partition {partition} began with "
                f"{marker.savepoint or 'no savepoint'}, not with {self._origin.reference}.",
                cause="the job has run before, or the savepoint was made again under its name",
                action="leave savepoint.from out to go on with the state that the job has, or "
                "begin under a new application.id",
            )
        return marker is None

    # -- rows ---------------------------------------------------------------------------------

    def write(self, targets: Mapping[int, _Target]) -> None:
        """Sends and commits the rows of some state partitions."""
        plan = self._plan
        markers = []
        everywhere: dict[bytes, list[bytes]] = {}
        for target in targets.values():
            target.producer.begin()
        for old in self._old:
            with closing(self._opened(old)) as store:
                markers.append(_marker_of(store, old))
                for keys, rows in _pieces(store):
                    self._spread(keys, rows, targets, everywhere)
        for key, row in merged(plan.query, everywhere).items():
            for target in targets.values():
                target.add(key, row)
        for partition, target in targets.items():
            self._finish(partition, target, markers)

    def _spread(
        self,
        keys: Sequence[bytes],
        rows: Sequence[bytes],
        targets: Mapping[int, _Target],
        everywhere: dict[bytes, list[bytes]],
    ) -> None:
        """Sends rows to the state partitions that they belong to.

        Args:
            everywhere: collects those that belong to all, from several former state partitions.
        """
        of = homes(self._plan.query, keys)
        places = state_partitions(pa.array(of, pa.binary()), self._plan.state_partitions)
        for key, row, home, place in zip(keys, rows, of, places.tolist(), strict=True):
            if home is not None:
                if (target := targets.get(place)) is not None:
                    target.add(key, row)
                elif place not in self._share.new:
                    raise _astray(self._plan.query.id, key, place, self._share)
            elif len(self._old) > 1:
                everywhere.setdefault(key, []).append(row)
            else:
                for target in targets.values():
                    target.add(key, row)
        for partition, target in targets.items():
            target.send(self._plan.changelog, partition)

    def _finish(self, partition: int, target: _Target, markers: Sequence[CommitMarker]) -> None:
        plan, query_id = self._plan, self._plan.query.id
        target.send(plan.changelog, partition)
        reached(SavepointStep.SENT, query_id, partition)
        first = partition == self._share.new[0]
        marker = self._marker(partition, target.rows, markers, counts=first)
        target.producer.send_marker(plan.changelog, partition, MARKER_KEY, marker.to_bytes())
        target.producer.commit()
        reached(SavepointStep.BROUGHT_IN, query_id, partition)

    def _marker(
        self, partition: int, rows: int, markers: Sequence[CommitMarker], *, counts: bool
    ) -> CommitMarker:
        """The first commit marker of a state partition.

        Args:
            counts: whether it takes over the share's counts; only one may, or they would grow.
        """
        plan, query = self._plan, self._plan.query
        stream_time = max(marker.stream_time_ms for marker in markers)
        newest = max(_newest(marker) for marker in markers)
        watermarks = [m.watermark_ms for m in markers if m.watermark_ms is not None]
        found = CommitMarker(
            format_version=FORMAT_VERSION,
            application_id=plan.settings.application_id,
            query_id=query.id,
            state_partition=partition,
            state_partitions=plan.state_partitions,
            partitioner=PARTITIONER,
            fingerprint=query.fingerprint(),
            canonical=query.canonical(),
            source=self._origin.source,
            stream_time_ms=stream_time,
            batch_id=max(marker.batch_id for marker in markers),
            origin=_origins(markers, self._origin),
            facts=statement_facts(query),
            watermark_ms=max(watermarks) if watermarks else None,
            newest_ms=newest if newest > stream_time else None,
            rows=rows,
            savepoint=self._origin.reference,
        )
        if not counts:
            return found
        return replace(
            found,
            records=sum(marker.records for marker in markers),
            dropped_late=sum(marker.dropped_late for marker in markers),
            dropped_null_key=sum(marker.dropped_null_key for marker in markers),
        )

    # -- stores -------------------------------------------------------------------------------

    def _opened(self, old: int) -> TableStore:
        folder = self._fetched.get(old) or self._fetch(old)
        layout = layout_of(self._plan.query)
        return open_copy(folder, windowed=layout.windowed, segmented=layout.segmented)

    def _fetch(self, old: int) -> Path:
        plan, folder = self._plan, self._root / str(old)
        archive = Archive(plan.settings.snapshots.uri, f"{self._origin.folder}/{old}")
        saved = next(store for store in self._origin.stores if store.partition == old)
        archive.fetch(saved.manifest, folder, lambda _: None)
        self._fetched[old] = folder
        return folder


def _pieces(store: TableStore) -> Iterator[tuple[list[bytes], list[bytes]]]:
    pairs = store.scan()
    while some := list(islice(pairs, _PIECE)):
        yield [key for key, _ in some], [row for _, row in some]


def _marker_of(store: TableStore, old: int) -> CommitMarker:
    if store.marker is None:
        raise StoreCorrupted(
            f"The saved store of state partition {old} has no commit marker.",
            cause="it is not the store that the savepoint was made of.",
            action="take another savepoint.",
        )
    return store.marker


def _newest(marker: CommitMarker) -> int:
    return marker.stream_time_ms if marker.newest_ms is None else marker.newest_ms


def _origins(markers: Sequence[CommitMarker], origin: Origin) -> tuple[tuple[str, int, int], ...]:
    """The first offset of each place; a topic that has other records begins where it stands."""
    if not any(marker.origin for marker in markers):
        return ()
    found = {
        (topic, partition): at
        for topic, partition, at in (each for marker in markers for each in marker.origin)
        if topic in origin.kept
    }
    others = {p: at for p, at in origin.source.ends().items() if p[0] not in origin.kept}
    return tuple(sorted((topic, p, at) for (topic, p), at in {**found, **others}.items()))


def _astray(query_id: str, key: bytes, place: int, share: Share) -> StoreCorrupted:
    return StoreCorrupted(
        f"A row of {query_id} (state key of {len(key)} bytes) belongs to state partition {place}, "
        f"and was stored in one of {share.old}, whose rows go to {share.new}.",
        cause="the savepoint was written by a version with another layout of state keys.",
        action="take a savepoint with this version.",
    )
