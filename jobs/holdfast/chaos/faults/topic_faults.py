"""Faults of a job's input topics, on any target: adds the component `topic` to a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdfast.chaos.faults.target import Landing, Target, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.faults.wrapped import WrappedTarget
from holdfast.errors import Refused, Retriable
from holdfast.transport.cluster.admin import TopicInfo
from holdfast.types.components import TOPIC
from holdfast.types.statements.topology import Topology

__all__ = ["TopicAdmin", "TopicTarget", "topics_of"]

_FAULTS = frozenset({Fault.ADD_PARTITION, Fault.RECREATE_TOPIC})


class TopicAdmin(Protocol):
    """The Kafka requests that topic faults need; see `Admin`."""

    def describe(self, name: str) -> TopicInfo | None: ...

    def add_partitions(self, name: str, partitions: int) -> None: ...

    def high_watermarks(self, topic: str) -> dict[int, int]: ...


def topics_of(topology: Topology) -> tuple[str, ...]:
    """The topics of declared streams that the job reads but does not write, in a fixed order.

    Tables' topics are left out: a key that moves to another partition has two histories there.
    """
    written = {query.sink.topic for query in topology.queries}
    tables = {s.topic for s in topology.sources if s.kind == "TABLE"}
    read = {s.topic for q in topology.queries for s in q.sources if s.kind == "STREAM"}
    return tuple(sorted(read - written - tables))


class Remaker(Protocol):
    """Deletes topics and recreates them; see `TopicRemaker`."""

    def remake(self, place: Target, topic: str) -> str: ...

    def landed(self, topic: str, before: str) -> Landing: ...


class TopicTarget(WrappedTarget):
    """A target that can hit the job's input topics as well.

    A topic's identity is its id and its number of partitions: an incarnation ends when either
    changes.  Faults of topics are not healed; the judge checks that the job reads what is new.

    Args:
        inner: the target where the job runs; handles all other components.
        topics: the topics that may be hit.
        admin: makes the client for the topics of the job's Kafka, at the first use.
        remaker: deletes and recreates topics; or the reason why that is impossible here, in words.
    """

    def __init__(
        self,
        inner: Target,
        topics: Sequence[str],
        admin: Callable[[], TopicAdmin],
        remaker: Remaker | str = "",
    ) -> None:
        super().__init__(inner, TOPIC)
        self._topics, self._admin = tuple(topics), admin
        self._remaker = remaker

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """The inner target's faults, and the faults of topics."""
        can = _FAULTS if not isinstance(self._remaker, str) else _FAULTS - {Fault.RECREATE_TOPIC}
        return {**self._inner.faults, TOPIC: can} if self._topics else self._inner.faults

    @property
    def notes(self) -> Mapping[Fault, str]:
        """The inner target's notes, and why no topic is recreated here."""
        why = self._remaker if isinstance(self._remaker, str) else ""
        return {**self._inner.notes, Fault.RECREATE_TOPIC: why} if why else self._inner.notes

    def victims(self, component: str) -> list[Victim]:
        """Topics by name; other components from the inner target.

        Raises:
            Refused: the component is unknown here.
        """
        if component != TOPIC:
            return self._inner.victims(component)
        found = ((topic, self._admin().describe(topic)) for topic in self._topics)
        return [Victim(TOPIC, topic, _identity(info)) for topic, info in found if info is not None]

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Adds a partition, or recreates the topic; leaves all else to the inner target.

        Raises:
            Retriable: the topic is not the chosen one any more.
            Refused: the fault is not one for topics.
            HoldfastError: see `TopicRemaker.remake`.
        """
        if victim.component != TOPIC:
            return self._inner.strike(victim, fault)
        if fault not in self.faults[TOPIC]:
            raise Refused(f"{fault.value} cannot be done to a topic here.")
        info = self._admin().describe(victim.name)
        if info is None or _identity(info) != victim.identity:
            raise Retriable(f"{victim.name} is not the topic that was chosen, {victim.identity}.")
        if fault is Fault.RECREATE_TOPIC and not isinstance(self._remaker, str):
            return self._remaker.remake(self._inner, victim.name)
        self._admin().add_partitions(victim.name, info.partitions + 1)
        return f"{victim.name} was given partition {info.partitions}"

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Whether the new partition exists and holds records (an empty one proves nothing), or the
        job has committed offsets of a recreated topic.
        """
        if victim.component != TOPIC:
            return self._inner.landed(victim, fault)
        topic_id, _, count = victim.identity.rpartition("/")
        if fault is Fault.RECREATE_TOPIC and not isinstance(self._remaker, str):
            return self._remaker.landed(victim.name, topic_id)
        before = int(count)
        ends = self._admin().high_watermarks(victim.name)
        new = {p: end for p, end in ends.items() if p >= before}
        told = ", ".join(f"partition {p} holds {end} offsets" for p, end in sorted(new.items()))
        written = bool(new) and all(new.values())
        return Landing(written, f"{victim.name}: {told or 'no new partition'}")


def _identity(info: TopicInfo) -> str:
    return f"{info.topic_id}/{info.partitions}"
