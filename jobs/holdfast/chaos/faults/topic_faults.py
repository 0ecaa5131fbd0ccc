"""Faults of a job's input topics, wherever the job runs: a target with one component more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from holdfast.chaos.faults.target import Hook, Landing, QueryServers, Target, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.errors import Refused, Retriable
from holdfast.transport.cluster.admin import TopicInfo
from holdfast.types.components import TOPIC
from holdfast.types.topology import Topology

__all__ = ["TopicAdmin", "TopicTarget", "topics_of"]

_FAULTS = frozenset({Fault.ADD_PARTITION, Fault.RECREATE_TOPIC})


class TopicAdmin(Protocol):
    """What is asked of Kafka; see `Admin`."""

    def describe(self, name: str) -> TopicInfo | None: ...

    def add_partitions(self, name: str, partitions: int) -> None: ...

    def high_watermarks(self, topic: str) -> dict[int, int]: ...


def topics_of(topology: Topology) -> tuple[str, ...]:
    """The topics of declared streams that the job reads and does not write, in a fixed order.

    A table's topic is left out: a key that moves to another partition has two histories there.
    """
    written = {query.sink.topic for query in topology.queries}
    tables = {s.topic for s in topology.sources if s.kind == "TABLE"}
    read = {s.topic for q in topology.queries for s in q.sources if s.kind == "STREAM"}
    return tuple(sorted(read - written - tables))


class Remaker(Protocol):
    """Deletes topics and makes them again; see `TopicRemaker`."""

    def remake(self, place: Target, topic: str) -> str: ...

    def landed(self, topic: str, before: str) -> Landing: ...


class TopicTarget:
    """A target whose job's input topics can be hit as well.

    A topic's identity is its id and its number of partitions: an incarnation ends when either
    changes.  What it does to a topic is not taken back.

    Args:
        inner: where the job runs; it does all that is not done to topics.
        topics: that may be hit.
        admin: makes what is asked for the topics of the job's Kafka, at the first use.
        remaker: deletes topics and makes them again; or why that cannot be done here, in words.
    """

    def __init__(
        self,
        inner: Target,
        topics: Sequence[str],
        admin: Callable[[], TopicAdmin],
        remaker: Remaker | str = "",
    ) -> None:
        self._inner, self._topics, self._admin = inner, tuple(topics), admin
        self._remaker = remaker

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """Those of the place, and of the topics."""
        can = _FAULTS if not isinstance(self._remaker, str) else _FAULTS - {Fault.RECREATE_TOPIC}
        return {**self._inner.faults, TOPIC: can} if self._topics else self._inner.faults

    @property
    def notes(self) -> Mapping[Fault, str]:
        """Those of the place, and why no topic is made again here."""
        why = self._remaker if isinstance(self._remaker, str) else ""
        return {**self._inner.notes, Fault.RECREATE_TOPIC: why} if why else self._inner.notes

    @property
    def hook(self) -> Hook | None:
        return self._inner.hook

    def is_dev_namespace(self) -> bool:
        return self._inner.is_dev_namespace()

    def victims(self, component: str) -> list[Victim]:
        """Topics by name; all others as the place has them.

        Raises:
            Refused: the component is unknown here.
        """
        if component != TOPIC:
            return self._inner.victims(component)
        found = ((topic, self._admin().describe(topic)) for topic in self._topics)
        return [Victim(TOPIC, topic, _identity(info)) for topic, info in found if info is not None]

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Adds a partition, or makes the topic again; all else is the place's.

        Raises:
            Retriable: the topic is another one by now.
            Refused: the fault is not one of topics.
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
        """The new partition is there and holds records: an empty one proves nothing.  Of a topic
        that was made again: the job has committed offsets of it.
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

    def heal(self, victim: Victim, fault: Fault) -> None:
        """A partition is not taken away again."""
        if victim.component != TOPIC:
            self._inner.heal(victim, fault)

    def heal_all(self) -> list[str]:
        return self._inner.heal_all()

    def recovered(self, victims: Sequence[Victim]) -> bool:
        """Is the job all there?  That it reads what is new the judge will say."""
        return self._inner.recovered([v for v in victims if v.component != TOPIC])

    def refusal(self) -> str:
        return self._inner.refusal()

    def query_servers(self) -> QueryServers:
        return self._inner.query_servers()

    def job_status(self) -> dict[str, Any] | None:
        return self._inner.job_status()


def _identity(info: TopicInfo) -> str:
    return f"{info.topic_id}/{info.partitions}"
