"""Faults of input topics, on a Kafka in memory: what is hit, and what shows that it landed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from holdfast.chaos.faults.target import Landing, Target
from holdfast.chaos.faults.topic_faults import TopicTarget, topics_of
from holdfast.chaos.faults.words import Fault
from holdfast.errors import Refused, Retriable
from holdfast.sql.plan.topology import compile_text
from holdfast.transport.cluster.admin import TopicInfo
from holdfast.types.components import DRIVER, TOPIC
from tests.unit.chaos.test_nemesis import Place

SQL = """
CREATE STREAM s (k VARCHAR, v BIGINT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE names (k VARCHAR PRIMARY KEY, n VARCHAR)
  WITH (KAFKA_TOPIC='names', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE STREAM large AS SELECT * FROM s WHERE v > 9 EMIT CHANGES;
CREATE TABLE counts AS SELECT k, COUNT(*) AS c FROM large GROUP BY k EMIT CHANGES;
CREATE STREAM named AS SELECT s.k, v, n FROM s LEFT JOIN names ON s.k = names.k EMIT CHANGES;
"""


@dataclass
class Topics:
    """By name the offsets of each partition."""

    ends: dict[str, list[int]] = field(default_factory=lambda: {"in": [7, 8]})

    def describe(self, name: str) -> TopicInfo | None:
        return TopicInfo(name, f"id of {name}", len(self.ends[name]), 1)

    def add_partitions(self, name: str, partitions: int) -> None:
        self.ends[name] += [0] * (partitions - len(self.ends[name]))

    def high_watermarks(self, topic: str) -> dict[int, int]:
        return dict(enumerate(self.ends[topic]))


@dataclass
class Remaking:
    """Makes topics again, and says that the job has taken them over."""

    did: list[str] = field(default_factory=list)

    def remake(self, place: Target, topic: str) -> str:
        self.did.append(topic)
        return f"{topic} was made again"

    def landed(self, topic: str, before: str) -> Landing:
        return Landing(topic in self.did, f"{topic} had {before}")


def _target(topics: Topics) -> TopicTarget:
    return TopicTarget(Place(), ["in"], lambda: topics)


def test_only_declared_streams_that_nobody_here_writes_are_hit() -> None:
    assert topics_of(compile_text(SQL)) == ("in",)


def test_a_partition_has_landed_when_records_are_in_it() -> None:
    topics = Topics()
    target = _target(topics)
    (victim,) = target.victims(TOPIC)
    assert (victim.name, victim.identity) == ("in", "id of in/2")
    assert not target.landed(victim, Fault.ADD_PARTITION).landed
    assert target.strike(victim, Fault.ADD_PARTITION) == "in was given partition 2"
    assert not target.landed(victim, Fault.ADD_PARTITION).landed, "nothing was written to it"
    topics.ends["in"][2] = 3
    landing = target.landed(victim, Fault.ADD_PARTITION)
    assert landing.landed
    assert landing.evidence == "in: partition 2 holds 3 offsets"
    assert target.recovered([victim])


def test_a_topic_that_is_another_one_by_now_is_not_hit() -> None:
    topics = Topics()
    target = _target(topics)
    (victim,) = target.victims(TOPIC)
    target.strike(victim, Fault.ADD_PARTITION)
    with pytest.raises(Retriable, match="is not the topic that was chosen"):
        target.strike(victim, Fault.ADD_PARTITION)
    with pytest.raises(Refused, match="kill cannot be done to a topic"):
        target.strike(target.victims(TOPIC)[0], Fault.KILL)


def test_all_else_is_done_where_the_job_runs() -> None:
    place = Place()
    target = TopicTarget(place, ["in"], Topics)
    assert target.faults[TOPIC] == {Fault.ADD_PARTITION}
    assert target.notes == {}
    assert target.faults[DRIVER] == place.faults[DRIVER]
    (driver,) = target.victims(DRIVER)
    target.strike(driver, Fault.KILL)
    assert place.log == ["kill driver"]
    assert target.landed(driver, Fault.KILL).landed
    assert TOPIC not in TopicTarget(place, [], Topics).faults


def test_a_topic_is_made_again_where_somebody_can() -> None:
    remaker = Remaking()
    target = TopicTarget(Place(), ["in"], Topics, remaker)
    assert target.faults[TOPIC] == {Fault.ADD_PARTITION, Fault.RECREATE_TOPIC}
    (victim,) = target.victims(TOPIC)
    assert not target.landed(victim, Fault.RECREATE_TOPIC).landed
    assert target.strike(victim, Fault.RECREATE_TOPIC) == "in was made again"
    landing = target.landed(victim, Fault.RECREATE_TOPIC)
    assert landing == Landing(True, "in had id of in")
    target.heal(victim, Fault.RECREATE_TOPIC)
    with pytest.raises(Retriable, match="is not the topic that was chosen"):
        target.strike(replace(victim, identity="another/2"), Fault.RECREATE_TOPIC)
    assert remaker.did == ["in"]


def test_where_nobody_can_it_is_said_why() -> None:
    target = TopicTarget(Place(), ["in"], Topics, "the job stops there")
    assert target.faults[TOPIC] == {Fault.ADD_PARTITION}
    assert target.notes == {Fault.RECREATE_TOPIC: "the job stops there"}
    with pytest.raises(Refused, match="recreate-topic cannot be done to a topic here"):
        target.strike(target.victims(TOPIC)[0], Fault.RECREATE_TOPIC)
