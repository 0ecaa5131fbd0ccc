"""Broken engines: each mutant takes one promise of the commit order away.

A proof of exactly-once that does not find every one of them proves nothing.  They are switched on
by tests only: `apply` changes the engine of this process for good, `patches` tells what it would
change.

| mutant              | what is broken                                                          |
|---------------------|-------------------------------------------------------------------------|
| commit-skipped      | every third transaction is aborted and taken for committed              |
| write-before-commit | rows are in the store before the transaction is committed               |
| marker-left-out     | every second transaction has no commit marker                           |
| fencing-left-out    | every producer has a transactional id of its own and fences nobody      |
| skip-rule-off-by-one| a batch that ends where the commit marker does is applied again         |
| stale-restore       | the rows of a changelog's tail are not replayed, its commit marker is   |
| tombstone-ignored   | records without a value are not written                                 |
| sink-time-now       | results are written with the time of sending                            |
| standby-misses-rows | standbys do not replay every third new value of a row                     |
| snapshot-misses-rows| of what came after a snapshot, every third new value is not replayed     |
| rescale-misses-the-tail | what changes after the last look of a copier is not copied          |
| key-of-a-life       | where a key goes depends on the driver that planned its batch           |
| store-of-another    | stores are not asked whose rows they hold, nor of which history         |
| offset-of-another   | a topic that was made again is read on from the old one's offsets       |
| remote-loss-unnoticed| a read of a remote store does not ask whether its rows are still there |

The last seven need what no general simulated history has: standbys, snapshots, a rescale, a driver
that is another process, stores that change places on disk, the driver's own code broken as well
(`IN_DRIVER`), and a database.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from holdfast.runtime.queries import start
from holdfast.state import restore, table_store
from holdfast.state.changelog import MARKER_KEY, CommitMarker
from holdfast.state.remote.store import RemoteStore
from holdfast.state.table_store import TableStore
from holdfast.state.topics.source_progress import SourceProgress
from holdfast.tasks import standbys, state_task, stream_task
from holdfast.tasks.pack import packing
from holdfast.tasks.plan import TaskReport
from holdfast.tasks.processors.base import Changes
from holdfast.tasks.rescaling import copier
from holdfast.tasks.state_task import StateTask
from holdfast.tasks.stream_task import StreamTask
from holdfast.transport.reader import Chunk
from holdfast.types.ids import OffsetRange

__all__ = ["IN_DRIVER", "MUTANTS", "SIMULATED", "Patch", "apply", "patches"]

Patch = tuple[object, str, Any]
"""The patched object, the attribute's name, its new value."""

_PRODUCER = "TransactionalProducer"
_instances = itertools.count()


def _commit_skipped() -> list[Patch]:
    def mutant(base: Any) -> Any:
        class Skipping(base):  # type: ignore[misc]  # of whatever is there now, real or fake
            commits = 0
            known = 0

            def commit(self) -> int | None:
                self.commits += 1
                if self.commits % 3 == 0:
                    self.abort()
                    return self.known
                offset: int | None = super().commit()
                self.known = self.known if offset is None else offset
                return offset

        return Skipping

    return _producers(mutant)


def _write_before_commit() -> list[Patch]:
    produce, apply_ = StateTask._produce, StateTask._apply

    def early(self: StateTask, producer: Any, changes: Changes, expired: list[bytes]) -> None:
        produce(self, producer, changes, expired)
        _, store = self._opened()
        assert store.position is not None, "an open store has a position"
        store.apply(
            changes.keys, changes.rows, created=changes.created, removed=0,
            position=store.position, marker=store.marker,
        )  # fmt: skip

    def late(
        self: StateTask, store: TableStore, changes: Changes, expired: list[bytes],
        marker: CommitMarker, offset: int | None,
    ) -> None:  # fmt: skip
        apply_(self, store, replace(changes, created=[]), expired, marker, offset)

    return [(StateTask, "_produce", early), (StateTask, "_apply", late)]


def _marker_left_out() -> list[Patch]:
    def mutant(base: Any) -> Any:
        class Unmarked(base):  # type: ignore[misc]  # see above
            markers = 0
            known = 0

            def send_marker(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
                self.markers += 1
                if self.markers % 2:
                    super().send_marker(topic, partition, key, value)

            def commit(self) -> int | None:
                offset = super().commit()
                self.known = self.known if offset is None else offset
                return self.known

        return Unmarked

    return _producers(mutant)


def _fencing_left_out() -> list[Patch]:
    def mutant(base: Any) -> Any:
        class Alone(base):  # type: ignore[misc]  # see above
            def __init__(
                self, client: Mapping[str, str], transactional_id: str, timeout_ms: int = 60_000
            ) -> None:
                own = f"{transactional_id}-{os.getpid()}-{next(_instances)}"
                super().__init__(client, own, timeout_ms)

        return Alone

    return _producers(mutant)


def _skip_rule_off_by_one() -> list[Patch]:
    covered, process = state_task.covered, StreamTask.process

    def mutant(marker: CommitMarker | None, batch: OffsetRange, where: str) -> bool:
        if marker is not None and marker.source.ends() == batch.ends():
            return False
        return covered(marker, batch, where)

    def again(self: StreamTask, start: int, end: int, read: Any) -> TaskReport:
        if self._last is not None and self._last.offset == end:
            self._last = replace(self._last, offset=start)
        return process(self, start, end, read)

    return [(state_task, "covered", mutant), (StreamTask, "process", again)]


def _stale_restore() -> list[Patch]:
    base: Any = vars(state_task)["PartitionReader"]

    class Forgetful(base):  # type: ignore[misc]  # see above
        def read(self, start: int, end: int, chunk_records: int = 50_000) -> Iterator[Chunk]:
            for chunk in super().read(start, end, chunk_records):
                yield _markers_of(chunk) if start > 0 else chunk

    def nothing(*_: object) -> SourceProgress | None:
        return None

    return [
        (state_task, "PartitionReader", Forgetful),
        (stream_task, "progress_of", nothing),
        (restore, "_wrong_count", lambda _: ""),  # else lost rows are seen and restored
    ]


def _markers_of(chunk: Chunk) -> Chunk:
    kept = [i for i, key in enumerate(chunk.keys) if key == MARKER_KEY]
    columns = (chunk.keys, chunk.values, chunk.offsets, chunk.timestamps)
    keys, values, offsets, times = ([column[i] for i in kept] for column in columns)
    return Chunk(keys, values, offsets, times, chunk.position)  # type: ignore[arg-type]


def _tombstone_ignored() -> list[Patch]:
    produce = StateTask._produce

    def mutant(self: StateTask, producer: Any, changes: Changes, expired: list[bytes]) -> None:
        kept = [i for i, value in enumerate(changes.sink_values) if value is not None]
        living = replace(
            changes,
            sink_keys=[changes.sink_keys[i] for i in kept],
            sink_values=[changes.sink_values[i] for i in kept],
            sink_timestamps=[changes.sink_timestamps[i] for i in kept],
        )
        produce(self, producer, living, [])

    return [(StateTask, "_produce", mutant)]


def _sink_time_now() -> list[Patch]:
    def mutant(base: Any) -> Any:
        class Untimed(base):  # type: ignore[misc]  # see above
            def send(
                self, topic: str, partitions: Any, keys: Any, values: Any, timestamps_ms: Any = None
            ) -> None:
                super().send(topic, partitions, keys, values)

        return Untimed

    return _producers(mutant)


def _standby_misses_rows() -> list[Patch]:
    real: Any = vars(standbys)["replay"]

    def mutant(plan: Any, store: TableStore, *others: Any, **named: Any) -> Any:
        return real(plan, cast("TableStore", _Forgetful(store)), *others, **named)

    return [(standbys, "replay", mutant)]


def _snapshot_misses_rows() -> list[Patch]:
    real: Any = vars(state_task)["from_snapshot"]

    def mutant(*plan_and_store: Any) -> Any:
        store, source = real(*plan_and_store)
        return (_Forgetful(store) if source.startswith("a snapshot") else store), source

    return [(state_task, "from_snapshot", mutant)]


class _Forgetful:
    """A `TableStore` that keeps every third old row; the number of rows is right."""

    def __init__(self, store: TableStore) -> None:
        self._real = store
        self._seen = itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def replay(self, keys: Sequence[bytes], values: Sequence[bytes | None], **facts: Any) -> None:
        old = self._real.get_many(keys)
        kept = [
            was if was is not None and new is not None and not next(self._seen) % 3 else new
            for was, new in zip(old, values, strict=True)
        ]
        self._real.replay(keys, kept, **facts)


def _rescale_misses_the_tail() -> list[Patch]:
    real = copier.Copier._transaction

    def without_the_rest(self: Any, ends: Any, deadline: Any, heirs: Any = None) -> None:
        real(self, {} if heirs is not None else ends, deadline, heirs)

    return [(copier.Copier, "_transaction", without_the_rest)]


def _key_of_a_life() -> list[Patch]:
    real: Any = vars(packing)["state_partitions"]

    def mutant(keys: Any, count: int) -> Any:
        return (real(keys, count) + os.getsid(0)) % count

    return [(packing, "state_partitions", mutant)]


def _store_of_another() -> list[Patch]:
    def believed(*_: object) -> None:
        """Whatever is there is taken for what should be."""

    def unasked(store: TableStore, reader: Any, bounds: tuple[int, int], records: int) -> Any:
        return "", reader.read(store.position.offset if store.position else 0, bounds[1], records)

    return [
        (table_store, "_check_name", believed),
        # Else another history is seen, and the store is restored.
        (restore, "compared", unasked),
        (restore, "_wrong_count", lambda _: ""),
    ]


def _offset_of_another() -> list[Patch]:
    """As before offsets carried the id of their topic; the id in markers is that of the new one."""

    def nothing_gone(*_: object) -> dict[str, str]:
        return {}

    return [
        (start, "_replaced", nothing_gone),
        (state_task, "_check_ids", lambda *_: None),
        (SourceProgress, "of_other", lambda *_: False),
    ]


def _remote_loss_unnoticed() -> list[Patch]:
    return [(RemoteStore, "_check", lambda *_: None)]


def _producers(mutant: Callable[[Any], Any]) -> list[Patch]:
    modules = (state_task, stream_task)
    return [(module, _PRODUCER, mutant(vars(module)[_PRODUCER])) for module in modules]


_MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "commit-skipped": _commit_skipped,
    "write-before-commit": _write_before_commit,
    "marker-left-out": _marker_left_out,
    "fencing-left-out": _fencing_left_out,
    "skip-rule-off-by-one": _skip_rule_off_by_one,
    "stale-restore": _stale_restore,
    "tombstone-ignored": _tombstone_ignored,
    "sink-time-now": _sink_time_now,
    "standby-misses-rows": _standby_misses_rows,
    "snapshot-misses-rows": _snapshot_misses_rows,
    "rescale-misses-the-tail": _rescale_misses_the_tail,
    "key-of-a-life": _key_of_a_life,
    "store-of-another": _store_of_another,
    "offset-of-another": _offset_of_another,
    "remote-loss-unnoticed": _remote_loss_unnoticed,
}
MUTANTS = tuple(_MUTANTS)
IN_DRIVER = frozenset({"offset-of-another"})
"""Those that break the driver's code, too."""
_OF_FAMILIES = (
    "standby-misses-rows", "snapshot-misses-rows", "rescale-misses-the-tail", "key-of-a-life",
    "store-of-another", "remote-loss-unnoticed", *IN_DRIVER,
)  # fmt: skip
SIMULATED = tuple(name for name in MUTANTS if name not in _OF_FAMILIES)
"""Those that a general simulated history can show."""


def patches(name: str) -> list[Patch]:
    """A mutant's changes to the present engine.

    Raises:
        KeyError: there is no such mutant.
    """
    return _MUTANTS[name]()


def apply(name: str) -> None:
    """Breaks the engine of this process.

    Raises:
        KeyError: there is no such mutant.
    """
    for owner, attribute, value in patches(name):
        setattr(owner, attribute, value)
