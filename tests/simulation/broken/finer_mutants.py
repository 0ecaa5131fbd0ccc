"""Broken engines that only a simulation finds soon: their moment is rare, or heals by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import CommitUnknown
from holdfast.runtime.queries import stateful
from holdfast.runtime.queries.start import StartPoint, start_point
from holdfast.runtime.rescaling import attempt as rescale_attempt
from holdfast.runtime.savepoints import attempt
from holdfast.state import restore
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.manifest import SnapshotFile
from holdfast.state.snapshots.savepoints import SavedQuery
from holdfast.tasks import bringing_in, replay, state_task, stream_task
from holdfast.tasks.rescaling import switch
from holdfast.types.ids import OffsetRange
from tests.chaos.mutants import patches
from tests.simulation.broken.element_mutants import (
    element_lost,
    element_not_restored,
    element_not_sent,
    elements_not_brought_in,
    elements_not_rescaled,
)
from tests.simulation.broken.remote_mutants import (
    loss_unnoticed,
    torn_write_unnoticed,
    zombie_writes,
)
from tests.simulation.histories.faults import DATABASE, Kind
from tests.simulation.histories.world import History, Mutate
from tests.simulation.jobs.statements import STATELESS

__all__ = ["FINER", "Finer"]


@dataclass(frozen=True)
class Finer:
    """A mutant, and the histories, perhaps of a family, that have a chance to find it.

    Attributes:
        first: the seed that is tried before all others, because it found it when last looked for.
    """

    mutate: Mutate
    worth: Callable[[History], bool]
    family: str = ""
    first: int = 0


def _missed_tombstones(patch: pytest.MonkeyPatch) -> None:
    real = restore.restore

    def forgiving(*args: Any, **facts: Any) -> restore.RestoreReport:
        return real(*args, **{**facts, "delete_retention_ms": 1 << 60})

    patch.setattr(replay, "restore", forgiving)
    patch.setattr(restore, "_wrong_count", _uncounted)


def _half_restore(patch: pytest.MonkeyPatch) -> None:
    real = restore._Replay._move

    def to_the_end(self: Any, offset: int, written_ms: int, marker: Any) -> None:
        real(self, self._plan.end, written_ms, marker)

    patch.setattr(restore._Replay, "_move", to_the_end)
    patch.setattr(restore, "_wrong_count", _uncounted)


def _uncounted(store: Any) -> str:
    """Rows that are too many, or too few, would be seen and restored."""
    return ""


def _level_left_out(patch: pytest.MonkeyPatch) -> None:
    def ahead(*args: Any, **facts: Any) -> StartPoint:
        return replace(start_point(*args, **facts), levels=())

    patch.setattr(stateful, "start_point", ahead)


def _unknown_taken_for_success(patch: pytest.MonkeyPatch) -> None:
    for module in (state_task, stream_task):
        base: Any = vars(module)["TransactionalProducer"]

        class Hopeful(base):  # type: ignore[misc]  # the fake one
            known = 0

            def commit(self) -> int | None:
                try:
                    self.known = super().commit() or 0
                except CommitUnknown:
                    self._failed = False
                return self.known

        patch.setattr(module, "TransactionalProducer", Hopeful)


def _fenced_after_restore(patch: pytest.MonkeyPatch) -> None:
    base: Any = vars(state_task)["TransactionalProducer"]

    class Late(base):  # type: ignore[misc]  # the fake one
        fenced = False

        def init(self) -> None:
            """Not yet."""

        def begin(self) -> None:
            if not self.fenced:
                super().init()
                self.fenced = True
            super().begin()

    patch.setattr(state_task, "TransactionalProducer", Late)


def _as_on_processes(name: str) -> Mutate:
    """One that `make chaos-mutants` runs, too."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        for owner, attribute, value in patches(name):
            patch.setattr(owner, attribute, value)

    return mutate


def _snapshot_unchecked(patch: pytest.MonkeyPatch) -> None:
    def fetch(self: Archive, file: SnapshotFile, path: Path, told: Any) -> None:
        path.write_bytes(b"".join(self._pieces(f"{self._path}/files/{file.sha256}")))

    patch.setattr(Archive, "_fetch", fetch)


def _savepoint_misses_rows(patch: pytest.MonkeyPatch) -> None:
    real = bringing_in._Work._sorted

    def without_first(work: Any, partition: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        yield from ((keys[1:], rows[1:]) for keys, rows in real(work, partition))

    patch.setattr(bringing_in._Work, "_sorted", without_first)


def _savepoint_of_two_moments(patch: pytest.MonkeyPatch) -> None:
    """Copies of a former attempt count, too: a state partition may have moved since."""
    patch.setattr(attempt, "secrets", SimpleNamespace(token_hex=lambda _: "always-the-same"))
    patch.setattr(attempt.Attempt, "_discard", lambda _: None)
    real = attempt._manifests_in

    def from_anybody(report: Any, wanted: set[Any]) -> dict[Any, Any]:
        known = {(copy.query_id, copy.partition) for copy in report.copies}
        return real(report, known)

    patch.setattr(attempt, "_manifests_in", from_anybody)


def _savepoint_behind(patch: pytest.MonkeyPatch) -> None:
    """The new job reads the last record of each topic partition again."""
    real = SavedQuery.source

    def source(self: SavedQuery) -> OffsetRange:
        ends = {place: max(at - 1, 0) for place, at in real(self).ends().items()}
        return OffsetRange.over(real(self).topics, ends, ends, real(self).ids)

    patch.setattr(SavedQuery, "source", source)


def _rescale_without_fence(patch: pytest.MonkeyPatch) -> None:
    """The former generation says at its state partition 0 alone that the state has moved."""
    real = switch.Former._move_one

    def only_the_first(self: Any, partition: int, *to: Any) -> None:
        if partition == 0:
            real(self, partition, *to)

    patch.setattr(switch.Former, "_move_one", only_the_first)


def _rescale_undecided_is_moved(patch: pytest.MonkeyPatch) -> None:
    """Any state partition that says that the state has moved is believed."""

    def believed(plan: Any) -> Any:
        found = (switch._last(plan, p)[1] for p in range(plan.state_partitions))
        return next((m.moved for m in found if m is not None and m.moved is not None), None)

    for module in (stateful, rescale_attempt):
        patch.setattr(module, "settled", believed)


def _any(history: History) -> bool:
    return bool(history.faults)


def _damaged(history: History) -> bool:
    return history.has(Kind.DAMAGE_SNAPSHOT)


def _away(history: History) -> bool:
    absent = any(f.kind is Kind.ABSENCE for f in history.faults)
    return absent and history.executors > 1 and history.statement in {"windows", "late"}


def _restoring(history: History) -> bool:
    return any(f.at == "RESTORING" for f in history.faults) and history.statement not in STATELESS


def _with_elements(history: History) -> bool:
    return history.statement in {"extremes", "windows"}


def _of_several(history: History) -> bool:
    return history.drivers > 1


def _at_the_database(history: History) -> bool:
    return any(fault.at == DATABASE for fault in history.faults)


def _stopped_there(history: History) -> bool:
    return history.has(Kind.PAUSE)


def _flushed(history: History) -> bool:
    return history.has(Kind.FLUSH)


FINER = {
    "missed-tombstones": Finer(_missed_tombstones, _away, "clocks"),
    "half-restore": Finer(_half_restore, _restoring),
    "level-left-out": Finer(_level_left_out, _any),
    "unknown-taken-for-success": Finer(_unknown_taken_for_success, _any, first=35),
    "fenced-after-restore": Finer(_fenced_after_restore, _any),
    "standby-misses-rows": Finer(_as_on_processes("standby-misses-rows"), _any, "standbys"),
    "snapshot-misses-rows": Finer(_as_on_processes("snapshot-misses-rows"), _any, "snapshots"),
    "snapshot-unchecked": Finer(_snapshot_unchecked, _damaged, "snapshots", 1_274),
    "savepoint-misses-rows": Finer(_savepoint_misses_rows, _any, "savepoints"),
    "savepoint-of-two-moments": Finer(_savepoint_of_two_moments, _any, "savepoints", 286),
    "rescale-misses-the-tail": Finer(_as_on_processes("rescale-misses-the-tail"), _any, "rescales"),
    "rescale-without-fence": Finer(_rescale_without_fence, _of_several, "rescales"),
    "rescale-undecided-is-moved": Finer(_rescale_undecided_is_moved, _any, "rescales"),
    "torn-write-unnoticed": Finer(torn_write_unnoticed, _at_the_database, "remote", 24),
    "remote-zombie-writes": Finer(zombie_writes, _stopped_there, "remote", 35),
    "remote-loss-unnoticed": Finer(loss_unnoticed, _flushed, "remote", 26),
    "savepoint-behind": Finer(_savepoint_behind, _any, "savepoints"),
    "element-lost": Finer(element_lost, _with_elements),
    "element-not-sent": Finer(element_not_sent, _with_elements),
    "element-not-restored": Finer(element_not_restored, _with_elements),
    "elements-not-rescaled": Finer(elements_not_rescaled, _with_elements, "rescales"),
    "elements-not-brought-in": Finer(elements_not_brought_in, _with_elements, "savepoints"),
}
