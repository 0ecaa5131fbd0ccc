"""A table is served from its next generation once no answer can be older than before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from holdfast.serve.contract import PartitionState
from holdfast.serve.follow.generations import GenerationsOfJobs
from holdfast.serve.tables import candidates
from holdfast.sql import compile_text
from tests.unit.serve.follow.test_catalog import COUNTS, STREAM

TABLE = candidates(compile_text(STREAM + COUNTS), "app").tables[0].of(1).made(2)
LEVEL = PartitionState(0, 100, 100)


class Changelog:
    """`Admin` of a changelog that grows between two questions for its end."""

    def __init__(self) -> None:
        self.asked = 0

    def end_offsets(self, topic: str) -> dict[int, int]:
        assert topic == TABLE.topic
        self.asked += 1
        return dict.fromkeys(range(2), 99 + self.asked)


def _reached(*states: PartitionState | None) -> bool:
    """Whether partition 1 is reached on these servers; partition 0 is."""
    generations = GenerationsOfJobs(cast("Any", Changelog()), {})

    def of(partition: int) -> Iterable[PartitionState | None]:
        return states if partition else [LEVEL]

    return generations.is_reached(TABLE, of)


@pytest.mark.parametrize(
    ("states", "reached"),
    [
        ([LEVEL], True),
        ([None, LEVEL], True),
        ([], False),
        ([None], False),
        ([replace(LEVEL, restoring=True)], False),
        # It does not answer.
        ([replace(LEVEL, restoring=True, position=3), LEVEL], True),
        # It was level while the generation was copied, and lacks what came last: it would answer.
        ([replace(LEVEL, position=99)], False),
        ([LEVEL, replace(LEVEL, position=99)], False),
        ([replace(LEVEL, position=101, end=101)], True),
    ],
)
def test_whoever_answers_has_what_the_generation_before_had(
    states: list[PartitionState | None], reached: bool
) -> None:
    assert _reached(*states) is reached


def test_the_goal_does_not_move_on_with_the_changelog() -> None:
    changelog = Changelog()
    generations = GenerationsOfJobs(cast("Any", changelog), {})
    assert not generations.is_reached(TABLE, lambda _: [replace(LEVEL, position=99)])
    assert generations.is_reached(TABLE, lambda _: [LEVEL])
    assert changelog.asked == 1
