"""The loss of a volume with standbys: when it can be done, and what shows the takeover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.chaos.faults.standby_faults import StandbyTarget
from holdfast.chaos.faults.words import Fault
from holdfast.errors import Refused, Retriable
from holdfast.types.components import DRIVER, STANDBY
from holdfast.types.status import JobStatus, PartitionStatus, QueryStatus, StandbyStatus
from tests.unit.chaos.test_nemesis import Place

LEVEL = {0: ("a", [("b", 0)]), 1: ("b", [("a", 7)])}


class Standbys(Place):
    """A place whose driver tells of state partitions: by number the volume, and the standbys."""

    partitions: dict[int, tuple[str, Sequence[tuple[str, int]]]]

    def job_status(self) -> dict[str, Any] | None:
        states = tuple(
            PartitionStatus(
                number,
                volume=volume,
                standbys=tuple(StandbyStatus("", volume=v, lag=lag) for v, lag in standbys),
            )
            for number, (volume, standbys) in self.partitions.items()
        )
        query = QueryStatus("T", "t", state_partitions=states)
        return JobStatus("app", queries={"ctas_t": query}).as_json()


@pytest.fixture
def place() -> Standbys:
    place = Standbys()
    place.partitions = dict(LEVEL)
    return place


@pytest.mark.parametrize("standbys", [[], [("b", -1)], [("a", 0)]])
def test_nothing_is_lost_before_every_standby_is_level(
    place: Standbys, standbys: list[tuple[str, int]]
) -> None:
    target = StandbyTarget(place)
    (victim,) = target.victims(STANDBY)
    place.partitions[0] = ("a", standbys)
    assert target.victims(STANDBY) == []
    with pytest.raises(Retriable, match="has a standby that is level"):
        target.strike(victim, Fault.LOSE_VOLUME)
    assert place.log == []


def test_a_job_without_standbys_or_status_has_no_victim(place: Standbys) -> None:
    place.partitions = {}
    assert StandbyTarget(place).victims(STANDBY) == []
    assert StandbyTarget(Place()).victims(STANDBY) == []


def test_it_lands_when_a_standby_has_taken_over(place: Standbys) -> None:
    target = StandbyTarget(place)
    (victim,) = target.victims(STANDBY)
    assert not target.landed(victim, Fault.LOSE_VOLUME).landed
    target.strike(victim, Fault.LOSE_VOLUME)
    (struck,) = place.log
    assert struck.startswith("lose-volume executor ")
    assert not target.landed(victim, Fault.LOSE_VOLUME).landed, "the owner came back by itself"
    place.partitions[0] = ("c", [("a", 0)])
    assert not target.landed(victim, Fault.LOSE_VOLUME).landed, "somebody else has it"
    place.partitions[0] = ("b", [("a", -1)])
    landing = target.landed(victim, Fault.LOSE_VOLUME)
    assert landing.landed
    assert landing.evidence.endswith("ctas_t 0 was taken over on volume b")
    place.partitions[0] = ("a", [("b", 0)])
    assert target.landed(victim, Fault.LOSE_VOLUME) == landing, "it has moved back since"
    assert target.recovered([victim])


def test_an_owner_that_lives_was_not_hit(place: Standbys) -> None:
    place.deaf = frozenset({Fault.LOSE_VOLUME})
    target = StandbyTarget(place)
    (victim,) = target.victims(STANDBY)
    target.strike(victim, Fault.LOSE_VOLUME)
    place.partitions[0] = ("b", [("a", 0)])
    assert not target.landed(victim, Fault.LOSE_VOLUME).landed


def test_other_faults_and_components_are_not_its_own(place: Standbys) -> None:
    target = StandbyTarget(place)
    assert target.faults[STANDBY] == {Fault.LOSE_VOLUME}
    with pytest.raises(Refused, match="kill cannot be done to standbys"):
        target.strike(target.victims(STANDBY)[0], Fault.KILL)
    (driver,) = target.victims(DRIVER)
    target.strike(driver, Fault.KILL)
    assert target.landed(driver, Fault.KILL).landed
