"""Engines as they were: each takes one mend back, and the history that shows it must fail again.

| mutant                      | what is taken back                                                |
|-----------------------------|-------------------------------------------------------------------|
| marker-replaced             | a commit marker keeps the places that its batch does not have     |
| emptied-partition-accepted  | a changelog partition without its markers is refused              |
| grace-unchecked             | another GRACE PERIOD than the rows were told by is refused        |
| headless-changelog-accepted | a changelog whose first records were deleted is refused           |
| levelled-too-far            | a state partition is brought as far as the others and no further  |
| topic-ids-ignored           | offsets belong to a topic id                                      |
| chain-without-cuts          | a reader of another query's topic ends its batches at cuts        |
| jump-tells-nothing          | every window that closes is told, however far stream time jumps   |

Mends of values (NaN, -0.0, sums of DECIMAL) are taken back in `test_judged_values.py`, those that
real processes show in `tests/chaos/mutants.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from holdfast.ingest.planner import Planner
from holdfast.runtime.queries import query_run, sources, stateful
from holdfast.runtime.queries.batches import cutting, levelling
from holdfast.runtime.queries.start import _Found
from holdfast.state import restore
from holdfast.tasks import compatibility, state_task
from holdfast.tasks.processors.aggregates.records import _Closing
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import Planned

__all__ = ["UNDONE"]

Patch = pytest.MonkeyPatch


def _marker_replaced(patch: Patch) -> None:
    real = state_task.covered

    def of_its_own_places(marker: Any, batch: OffsetRange, where: str) -> bool:
        if marker is not None:
            ends = batch.ends()
            known = {p: at for p, at in marker.source.ends().items() if p in ends}
            marker = replace(marker, source=OffsetRange.over(batch.topics, known, known))
        return real(marker, batch, where)

    patch.setattr(state_task, "covered", of_its_own_places)
    patch.setattr(OffsetRange, "after", lambda self, last: self)


def _emptied_partition_accepted(patch: Patch) -> None:
    patch.setattr(_Found, "refuse_losses", lambda self, group: None)


def _headless_changelog_accepted(patch: Patch) -> None:
    real = restore._plan
    patch.setattr(restore, "_plan", lambda *args, whole: real(*args, whole=False))


def _levelled_too_far(patch: Patch) -> None:
    class Beyond:
        def __init__(self, planner: Planner) -> None:
            self._planner = planner

        def plan(
            self, begin: Mapping[Place, int], target: Mapping[Place, int] | None = None
        ) -> Planned:
            return self._planner.plan(begin)

    real = levelling.pieces
    patch.setattr(stateful, "pieces", lambda level, plans: real(level, Beyond(plans)))


def _grace_unchecked(patch: Patch) -> None:
    parts = {part: what for part, what in compatibility._PARTS.items() if part != "windows"}
    patch.setattr(compatibility, "_PARTS", parts)


def _topic_ids_ignored(patch: Patch) -> None:
    real = sources.source_state
    patch.setattr(query_run, "source_state", lambda *args: replace(real(*args), ids={}))


def _chain_without_cuts(patch: Patch) -> None:
    patch.setattr(cutting.Cutting, "file_for", lambda self, query: "")


def _jump_tells_nothing(patch: Patch) -> None:
    real = _Closing.order

    def within_retention(self: _Closing, frame: Any) -> Any:
        return real(replace(self, window=replace(self.window, final_within_retention=True)), frame)

    patch.setattr(_Closing, "order", within_retention)


UNDONE: dict[str, Callable[[Patch], None]] = {
    "marker-replaced": _marker_replaced,
    "emptied-partition-accepted": _emptied_partition_accepted,
    "headless-changelog-accepted": _headless_changelog_accepted,
    "levelled-too-far": _levelled_too_far,
    "grace-unchecked": _grace_unchecked,
    "topic-ids-ignored": _topic_ids_ignored,
    "chain-without-cuts": _chain_without_cuts,
    "jump-tells-nothing": _jump_tells_nothing,
}
