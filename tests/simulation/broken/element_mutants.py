"""Broken engines that lose elements of a distinct set, each in another place.

| mutant                  | where an element is lost                                             |
|-------------------------|----------------------------------------------------------------------|
| element-lost            | of every third batch with new values, one of them is not kept at all |
| element-not-sent        | it is in the store, and not in the changelog                         |
| element-not-restored    | a restore leaves one of each chunk out                               |
| elements-not-rescaled   | a rescale copies rows without their elements                         |
| elements-not-brought-in | a savepoint's rows come without their elements                       |
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.state import restore
from holdfast.state.changelog import DATA_PREFIX, data_keys
from holdfast.state.restore import LastRows
from holdfast.state.table_store import TableStore
from holdfast.tasks.processors.aggregates.elements import ElementSets
from holdfast.tasks.processors.base import Changes
from holdfast.tasks.rescaling import copier
from holdfast.tasks.state_task import StateTask
from holdfast.transport.reader import Chunk

__all__ = [
    "element_lost",
    "element_not_restored",
    "element_not_sent",
    "elements_not_brought_in",
    "elements_not_rescaled",
]


def _without_one(elements: Any) -> dict[bytes, bytes | None]:
    return dict(itertools.islice(elements.items(), 1, None))


def element_lost(patch: pytest.MonkeyPatch) -> None:
    real, seen = ElementSets.resolved, itertools.count()

    def mutant(self: ElementSets, *batch: Any) -> Any:
        payload, elements = real(self, *batch)
        if elements and next(seen) % 3 == 0:
            elements = _without_one(elements)
        return payload, elements

    patch.setattr(ElementSets, "resolved", mutant)


def element_not_sent(patch: pytest.MonkeyPatch) -> None:
    real = StateTask._produce

    def mutant(self: StateTask, producer: Any, changes: Changes, gone: list[bytes]) -> None:
        sent = replace(changes, elements=_without_one(changes.elements))
        real(self, producer, sent, gone)

    patch.setattr(StateTask, "_produce", mutant)


def element_not_restored(patch: pytest.MonkeyPatch) -> None:
    real = restore.changelog_rows

    def mutant(chunk: Chunk) -> LastRows:
        read = real(chunk)
        return read._replace(elements=_without_one(read.elements))

    patch.setattr(restore, "changelog_rows", mutant)


def elements_not_rescaled(patch: pytest.MonkeyPatch) -> None:
    def only_rows(key: bytes | None) -> bool:
        return key is not None and key.startswith(DATA_PREFIX)

    patch.setattr(copier, "is_row", only_rows)


def elements_not_brought_in(patch: pytest.MonkeyPatch) -> None:
    def only_rows(
        self: TableStore, rows: int, size: int
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        for keys, values in self.pieces(rows, size):
            yield list(data_keys(keys)), values

    patch.setattr(TableStore, "records", only_rows)
