"""Faults of a job's input topics, wherever the job runs: a target with one component more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from holdfast.chaos.faults import TOPIC, Fault
from holdfast.chaos.target import Hook, Landing, QueryServers, Target, Victim
from holdfast.errors import Refused, Retriable
from holdfast.transport.admin import TopicInfo
from holdfast.types.topology import Topology

__all__ = ["TopicAdmin", "TopicTarget", "topics_of"]

_FAULTS = frozenset({Fault.ADD_PARTITION})


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


class TopicTarget:
    """A target whose job's input topics can be hit as well.

    A topic's identity is its id and its number of partitions: an incarnation ends when either
    changes.  What it does to a topic is not taken back.

    Args:
        inner: where the job runs; it does all that is not done to topics.
        topics: that may be hit.
        admin: makes what is asked for the topics of the job's Kafka, at the first use.
    """

    def __init__(
        self, inner: Target, topics: Sequence[str], admin: Callable[[], TopicAdmin]
    ) -> None:
        self._inner, self._topics, self._admin = inner, tuple(topics), admin

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """Those of the place, and of the topics."""
        return {**self._inner.faults, TOPIC: _FAULTS} if self._topics else self._inner.faults

    @property
    def notes(self) -> Mapping[Fault, str]:
        return self._inner.notes

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
        """Adds a partition; all else is the place's.

        Raises:
            Retriable: the topic is another one by now.
            Refused: the fault is not one of topics.
        """
        if victim.component != TOPIC:
            return self._inner.strike(victim, fault)
        if fault not in _FAULTS:
            raise Refused(f"{fault.value} cannot be done to a topic.")
        info = self._admin().describe(victim.name)
        if info is None or _identity(info) != victim.identity:
            raise Retriable(f"{victim.name} is not the topic that was chosen, {victim.identity}.")
        self._admin().add_partitions(victim.name, info.partitions + 1)
        return f"{victim.name} was given partition {info.partitions}"

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """The new partition is there and holds records: an empty one proves nothing."""
        if victim.component != TOPIC:
            return self._inner.landed(victim, fault)
        before = int(victim.identity.rpartition("/")[2])
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
