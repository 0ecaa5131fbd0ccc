"""A rescale under fire, on a control topic in memory: who is hit when, and when it is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from holdfast.chaos.faults import rescale_faults
from holdfast.chaos.faults.rescale_faults import RescaleTarget, Rescaling, rescaled_of
from holdfast.chaos.faults.words import Fault
from holdfast.errors import HoldfastError, Refused, Retriable
from holdfast.sql.plan.topology import compile_text
from holdfast.types.components import DRIVER, QUERY
from tests.simulation.fakes.clock import VirtualTime
from tests.unit.chaos.test_nemesis import Place

SQL = """
CREATE STREAM s (k VARCHAR, v BIGINT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE STREAM large AS SELECT * FROM s WHERE v > 9 EMIT CHANGES;
CREATE TABLE counts AS SELECT k, COUNT(*) AS c FROM large GROUP BY k EMIT CHANGES;
CREATE TABLE hourly AS SELECT k, COUNT(*) AS c FROM large WINDOW TUMBLING (SIZE 1 HOUR)
  GROUP BY k EMIT FINAL;
"""
CHANGELOGS = {"app-counts-changelog": 4, "app-counts-g1-changelog": 8}


@dataclass
class Book:
    """The rescales of one query; a job that obeys an order, or not, as soon as it is written."""

    obeys: Callable[[Book, int], None]
    now: Rescaling = field(default_factory=Rescaling)
    ordered: list[int] = field(default_factory=list)

    def of(self, query_id: str) -> Rescaling:
        return self.now

    def order(self, query_id: str, state_partitions: int) -> str:
        self.ordered.append(state_partitions)
        self.obeys(self, state_partitions)
        return self.token

    @property
    def token(self) -> str:
        return f"order {len(self.ordered)}"


def copies(book: Book, _: int) -> None:
    book.now = replace(book.now, copying=1, answered=book.token, doing="copying")


def moves(book: Book, wanted: int) -> None:
    book.now = Rescaling(book.now.generation + 1, wanted, answered=book.token)


def fails(book: Book, _: int) -> None:
    book.now = replace(book.now, copying=1, answered=book.token, failure="the disk is full")


def sleeps(_: Book, __: int) -> None:
    """Nothing is read."""


@pytest.fixture(autouse=True)
def _no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescale_faults, "time", VirtualTime())


def _target(book: Book, place: Place, changelogs: Mapping[str, int] = CHANGELOGS) -> RescaleTarget:
    return RescaleTarget(
        place, "app", ["counts"], lambda: book, lambda topic: changelogs.get(topic, 0)
    )


def test_queries_that_can_shrink_are_hit() -> None:
    assert rescaled_of(compile_text(SQL)) == ("ctas_counts",)


def test_somebody_is_hit_while_the_state_is_copied() -> None:
    book, place = Book(copies), Place()
    target = _target(book, place)
    (victim,) = target.victims(QUERY)
    assert not target.landed(victim, Fault.RESCALE).landed
    did = target.strike(victim, Fault.RESCALE)
    assert did.startswith("counts: from 4 to 8 state partitions; ")
    assert book.ordered == [8]
    (struck,) = place.log
    assert struck.startswith("delete-now ")
    landing = target.landed(victim, Fault.RESCALE)
    assert landing.landed
    assert landing.evidence.endswith(", before or in the switch")
    assert target.victims(QUERY) == [], "it is under way"
    assert not target.recovered([victim]), "it is not decided"
    moves(book, 8)
    assert target.recovered([victim])
    assert target.victims(QUERY) != [victim]


def test_the_next_one_goes_back() -> None:
    book = Book(moves)
    target = _target(book, Place())
    for _ in range(2):
        (victim,) = target.victims(QUERY)
        target.strike(victim, Fault.RESCALE)
        assert target.landed(victim, Fault.RESCALE).evidence.endswith(", after the switch")
    assert book.ordered == [8, 4]


def test_one_that_fails_is_told() -> None:
    target = _target(Book(fails), Place())
    (victim,) = target.victims(QUERY)
    target.strike(victim, Fault.RESCALE)
    with pytest.raises(HoldfastError, match="The rescale of counts has failed: the disk is full"):
        target.recovered([victim])


def test_a_job_that_does_not_begin_is_told() -> None:
    place = Place()
    target = _target(Book(sleeps), place)
    with pytest.raises(HoldfastError, match="has not begun to rescale counts within 60 s"):
        target.strike(target.victims(QUERY)[0], Fault.RESCALE)
    assert place.log == []


def test_a_query_without_a_changelog_is_tried_again() -> None:
    book = Book(moves)
    target = _target(book, Place(), {})
    with pytest.raises(Retriable, match="counts has no changelog"):
        target.strike(target.victims(QUERY)[0], Fault.RESCALE)
    assert book.ordered == []


def test_all_else_is_done_where_the_job_runs() -> None:
    place = Place()
    target = _target(Book(moves), place)
    assert target.faults[QUERY] == {Fault.RESCALE}
    with pytest.raises(Refused, match="kill cannot be done to a query"):
        target.strike(target.victims(QUERY)[0], Fault.KILL)
    (driver,) = target.victims(DRIVER)
    target.strike(driver, Fault.KILL)
    assert target.landed(driver, Fault.KILL).landed
    assert QUERY not in RescaleTarget(place, "app", [], lambda: Book(moves), lambda _: 0).faults
