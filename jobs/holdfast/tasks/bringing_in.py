"""Writes the tables of a savepoint into the changelogs of another job, exactly once.

A state partition's rows and its first commit marker are one transaction, under the transactional id
of its later owners: it is brought in whole or not at all, and whoever comes later fences whoever
comes earlier.  The marker carries the savepoint's source offsets, so the job goes on from there.

With another number of state partitions rows move, share by share: see `holdfast.tasks.heirs`.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgpack

from holdfast.errors import IncompatibleStatement, SnapshotDamaged, StoreCorrupted
from holdfast.state import open_copy
from holdfast.state.changelog import DATA_PREFIX, MARKER_KEY, CommitMarker, data_key
from holdfast.state.elements import state_key_of
from holdfast.state.files import error_kind
from holdfast.state.markers import last_marker
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.savepoints import SavedStore
from holdfast.state.table_store import TableStore
from holdfast.state.volume import Volume
from holdfast.tasks.heirs import Beginnings, Share, heirs
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.processors.homes import merged
from holdfast.tasks.processors.layout import layout_of
from holdfast.tasks.steps import SavepointStep, reached
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import OffsetRange, state_transactional_id

__all__ = ["Origin", "bring_in"]

# Brokers allow it by default: the rows of a state partition are one transaction.
_TRANSACTION_MS = 900_000
_ENDED_S = 20.0
_ROWS, _BYTES = 5_000, 16 << 20  # of a piece, whichever is less


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


def bring_in(plan: QueryPlan, origin: Origin, share: Share, volume: Volume) -> int:
    """Writes a share's rows into the changelog, for state partitions without a commit marker.

    The rows are put into a file per state partition first, so that the time of a transaction only
    depends on its own rows.

    Returns:
        The number of rows written by this call.

    Raises:
        StoreCorrupted: a file of the savepoint is not what its document says.
        SnapshotsUnavailable: the place of the savepoint does not answer.
        IncompatibleStatement: a state partition has committed something else.
        VolumeFull: no space for the savepoint's stores and their rows.
        Retriable: do it again; what was brought in stays.
    """
    work = _Work(plan, origin, share, volume)
    try:
        if all(map(work.is_done, share.new)):
            return 0
        work.sort()
        return sum(map(work.write, share.new))
    except SnapshotDamaged as error:
        raise _damaged(error, origin) from error
    finally:
        work.clean()


class _Work:
    """Owns the scratch folder of a share until `clean`: fetched stores, and rows by heir."""

    def __init__(self, plan: QueryPlan, origin: Origin, share: Share, volume: Volume) -> None:
        self._plan = plan
        self._origin = origin
        self._share = share
        self._root = volume.scratch(f"brought/{secrets.token_hex(8)}")
        self._stores = [store for store in origin.stores if store.partition in share.old]
        self._markers = [store.commit() for store in self._stores]
        self._everywhere: dict[bytes, bytes] = {}  # rows of every state partition

    def clean(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def is_done(self, partition: int) -> bool:
        """Whether a state partition has a commit marker.

        Raises:
            IncompatibleStatement: it has begun with something else.
        """
        plan, client = self._plan, self._plan.settings.client()
        with closing(PartitionReader(client, plan.changelog, partition, exists=True)) as reader:
            marker = last_marker(reader, *reader.bounds())
        if marker is not None and marker.savepoint != self._origin.reference:
            raise IncompatibleStatement(
                f"{plan.query.id} state partition {partition} began with "
                f"{marker.savepoint or 'no savepoint'}, not with {self._origin.reference}.",
                cause="another driver of this job has begun with something else",
                action="begin under a new application.id",
            )
        return marker is not None

    # -- rows by heir -------------------------------------------------------------------------

    def sort(self) -> None:
        """Puts the rows of the former state partitions into the files of their heirs."""
        query = self._plan.query
        everywhere: dict[bytes, list[bytes]] = {}
        with _on_volume(self._root), ExitStack() as stack:
            self._root.mkdir(parents=True)
            files = {p: stack.enter_context(self._file(p).open("wb")) for p in self._share.new}
            # Those of a broadcast join have the same rows: one is enough, and every heir gets it.
            for saved in self._stores[:1] if query.is_broadcast else self._stores:
                folder = self._root / f"{saved.partition}.store"
                with closing(self._fetched(saved, folder)) as store:
                    for keys, rows in store.records(_ROWS, _BYTES):
                        if query.is_broadcast:
                            for file in files.values():
                                file.write(msgpack.packb((keys, rows)))
                        else:
                            self._spread(keys, rows, files, everywhere)
                shutil.rmtree(folder)
        self._everywhere = merged(query, everywhere) if everywhere else {}

    def _spread(
        self,
        keys: list[bytes],
        rows: list[bytes],
        files: Mapping[int, BinaryIO],
        everywhere: dict[bytes, list[bytes]],
    ) -> None:
        """Puts rows into the files of their heirs; `everywhere` collects those of all heirs."""
        plan = self._plan
        parts: dict[int, tuple[list[bytes], list[bytes]]] = {}
        state_keys = list(map(state_key_of, keys))
        of = heirs(plan.query, self._share, plan.state_partitions, state_keys)
        for key, row, heir in zip(keys, rows, of, strict=True):
            if heir is not None:
                part = parts.setdefault(heir, ([], []))
                part[0].append(key)
                part[1].append(row)
            else:
                everywhere.setdefault(state_key_of(key), []).append(row)
        for heir, part in parts.items():
            files[heir].write(msgpack.packb(part))

    def _file(self, partition: int) -> Path:
        return self._root / f"{partition}.rows"

    def _fetched(self, saved: SavedStore, folder: Path) -> TableStore:
        plan, layout = self._plan, layout_of(self._plan.query)
        archive = Archive(plan.settings.snapshots.uri, f"{self._origin.folder}/{saved.partition}")
        archive.fetch(saved.manifest, folder, lambda _: None)
        store = open_copy(folder, windowed=layout.windowed, segmented=layout.segmented)
        if store.marker is None or store.marker.to_bytes().decode() != saved.marker:
            store.close()
            raise SnapshotDamaged(
                f"The saved store of state partition {saved.partition} has another commit marker "
                "than its document.",
                action="none",
            )
        return store

    # -- transactions -------------------------------------------------------------------------

    def write(self, partition: int) -> int:
        """Commits the rows of a state partition, unless somebody has; returns their number."""
        plan, settings = self._plan, self._plan.settings
        name = state_transactional_id(
            settings.application_id, plan.query.id, partition, plan.generation
        )
        with TransactionalProducer(settings.client(), name, _TRANSACTION_MS) as producer:
            producer.init()  # nobody else commits from here on
            shared_admin(settings.client()).await_ended(plan.changelog, partition, _ENDED_S)
            if self.is_done(partition):
                return 0
            producer.begin()
            rows = 0
            for keys, values in self._sorted(partition):
                producer.send(plan.changelog, partition, keys, values)
                rows += sum(key.startswith(DATA_PREFIX) for key in keys)
            reached(SavepointStep.SENT, plan.query.id, partition)
            marker = self._marker(partition, rows).to_bytes()
            producer.send_marker(plan.changelog, partition, MARKER_KEY, marker)
            producer.commit()
        reached(SavepointStep.BROUGHT_IN, plan.query.id, partition)
        return rows

    def _sorted(self, partition: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        if self._everywhere:
            yield list(map(data_key, self._everywhere)), list(self._everywhere.values())
        with _on_volume(self._root), self._file(partition).open("rb") as file:
            yield from msgpack.Unpacker(file, max_buffer_size=0)

    def _marker(self, partition: int, rows: int) -> CommitMarker:
        """The first commit marker of a state partition."""
        origin = self._origin
        begun = _origins(self._markers, origin)
        heirs = Beginnings(
            self._plan, self._share, self._markers, origin.source, begun, origin.reference
        )
        return heirs.marker(partition, rows)


@contextmanager
def _on_volume(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise error_kind(error)(
            f"The rows of a savepoint could not be kept in {folder}: {error}.",
            action="give the volume space for the savepoint's stores and their rows; nothing is "
            "lost.",
        ) from error


def _damaged(error: SnapshotDamaged, origin: Origin) -> StoreCorrupted:
    return StoreCorrupted(
        f"The savepoint {origin.reference} cannot be brought in: {error.fact}",
        cause=error.cause,
        action="put the file back from a copy of the place; or begin with another savepoint, under "
        "a new application.id.",
    )


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
