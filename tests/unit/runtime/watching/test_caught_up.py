"""When a job that stops once it has caught up may stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.errors import KafkaUnavailable
from holdfast.runtime.watching.caught_up import CaughtUp
from holdfast.sql.plan.topology import compile_text
from holdfast.types.ids import Place
from holdfast.types.statements.topology import Query

_SQL = """
CREATE STREAM sales (k VARCHAR KEY, v INT) WITH (KAFKA_TOPIC='sales', VALUE_FORMAT='JSON');
CREATE STREAM large AS SELECT * FROM sales WHERE v > 10 EMIT CHANGES;
CREATE TABLE totals AS SELECT k, COUNT(*) AS n FROM large GROUP BY k EMIT CHANGES;
"""


@dataclass
class _Run:
    query: Query
    held: bool = False
    held_back: bool = False
    done: dict[Place, int] = field(default_factory=dict)

    @property
    def source_topics(self) -> tuple[str, ...]:
        return tuple(s.topic for s in self.query.sources)

    def caught_up(self, ends: Mapping[Place, int]) -> bool:
        return all(self.done.get(place, 0) >= end for place, end in ends.items())


@dataclass
class _Broker:
    ends_of: dict[str, int]
    away: bool = False

    def ends(self, topics: Iterable[str]) -> dict[Place, int]:
        if self.away:
            raise KafkaUnavailable("Kafka does not answer.")
        return {(topic, 0): self.ends_of[topic] for topic in topics}

    written = ends


def _world() -> tuple[_Broker, _Run, _Run]:
    large, totals = compile_text(_SQL).queries
    return _Broker({"sales": 5, "LARGE": 0}), _Run(large), _Run(totals)


def test_it_waits_for_what_was_there_and_for_what_was_made_of_it() -> None:
    broker, large, totals = _world()
    goal = CaughtUp(broker)
    assert not goal.reached([large, totals])
    broker.ends_of = {"sales": 9, "LARGE": 3}  # sales goes on: what came later is not waited for
    large.done = {("sales", 0): 5}
    assert not goal.reached([large, totals])
    totals.done = {("LARGE", 0): 3}
    assert goal.reached([large, totals])


def test_a_query_on_hold_is_not_waited_for() -> None:
    broker, large, totals = _world()
    large.held = True
    assert CaughtUp(broker).reached([large, totals])


def test_results_that_are_held_back_are_waited_for_unless_nobody_lets_them_go() -> None:
    broker, large, totals = _world()
    large.done, totals.done, totals.held_back = {("sales", 0): 5}, {("LARGE", 0): 0}, True
    goal = CaughtUp(broker)
    assert not goal.reached([large, totals])
    large.held = True
    assert goal.reached([large, totals])
    large.held = totals.held_back = False
    assert goal.reached([large, totals])


def test_a_broker_that_does_not_answer_ends_nothing() -> None:
    broker, large, totals = _world()
    broker.away = True
    goal = CaughtUp(broker)
    assert not goal.reached([large, totals])
    broker.away = False
    assert not goal.reached([large, totals])
    large.done = {("sales", 0): 5}
    broker.away = True
    assert not goal.reached([large, totals])
    broker.away = False
    assert goal.reached([large, totals])
