"""Deletes an input topic under a running job and recreates it; the judge keeps all its records.

1. hold the load, and wait until every query that reads the topic has committed all of it;
2. stop the driver, because a job that finds a topic missing refuses to continue;
3. keep all of its records (`topic_archive`);
4. delete the topic and recreate it with the same partitions and settings;
5. let the load continue, and then the driver: the first time, and every second time after it, with
   more records than there were before, so that the old topic's offsets exist in the new one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.chaos.faults.target import Landing, Target
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.load.load_gate import LoadGate
from holdfast.chaos.load.workload import input_sources
from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, Retriable
from holdfast.judge.read.last_markers import last_markers
from holdfast.judge.read.observe import Observer
from holdfast.judge.read.topic_archive import archives, keep
from holdfast.transport.cluster.admin import Admin, TopicInfo
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.types.components import DRIVER
from holdfast.types.statements.topology import Query, Topology

__all__ = ["TopicRemaker"]

_COMMITTED_S = 300.0
_STOPPED_S = 60.0
_POLL_S = 0.2
_MORE = 1.2  # times the records before: topic partitions do not get equal shares
_AT_ONCE_MAX = 300_000


@dataclass(frozen=True)
class TopicRemaker:
    """Owns the topics that a run recreates; `folder` is the run's."""

    folder: Path
    topology: Topology
    settings: Settings

    @cached_property
    def _admin(self) -> Admin:
        return Admin(self.settings.client())

    @cached_property
    def _observer(self) -> Observer:
        return Observer(self.settings.client(), self.settings.application_id)

    def remake(self, place: Target, topic: str) -> str:
        """Recreates the topic; returns what was done in words.

        Args:
            place: the target where the job's driver runs.

        Raises:
            HoldfastError: it failed; the message says whether the topic exists again.
        """
        gate = LoadGate(self.folder)
        try:
            gate.hold()
            self._await_committed(place, topic)
            return self._remade(place, topic, gate)
        finally:
            gate.open()

    def landed(self, topic: str, before: str) -> Landing:
        """Whether a query has committed offsets of a topic of that name with another id."""
        info = self._admin.describe(topic)
        if info is None or info.topic_id == before:
            return Landing(False, f"{topic} is {'not there' if info is None else 'as it was'}")
        on = [
            query.sink.name
            for query in self._readers(topic)
            if any(_committed(m, topic, info.topic_id) for m in self._markers(query))
        ]
        told = f"{', '.join(on) or 'nobody'} committed offsets of it"
        return Landing(bool(on), f"{topic} had the id {before} and has {info.topic_id}; {told}")

    def _readers(self, topic: str) -> list[Query]:
        return [q for q in self.topology.queries if topic in {s.topic for s in q.sources}]

    def _markers(self, query: Query) -> list[dict[str, Any]]:
        return last_markers(self._observer, self.settings.application_id, query)

    def _await_committed(self, place: Target, topic: str) -> None:
        deadline = time.monotonic() + _COMMITTED_S
        readers = self._readers(topic)
        while not all(self._observer.lag_of(q, topic).caught_up for q in readers):
            if place.refusal() or time.monotonic() >= deadline:
                raise HoldfastError(
                    f"The job has not committed all of {topic} in {_COMMITTED_S:.0f} s, with the "
                    "load held; the topic is as it was.",
                    cause=place.refusal() or "it does not go on",
                )
            time.sleep(_POLL_S)

    def _remade(self, place: Target, topic: str, gate: LoadGate) -> str:
        with _stopped(place):
            before, number = self._admin.look(topic), len(archives(self.folder))
            ends = {p: end for p, (_, end) in before.bounds.items()}
            kept = keep(self.folder, self._observer, topic, before.topic_id, before.bounds)
            made = self._made_anew(topic)
            gate.go_on(0 if number % 2 else self._more_than(sum(ends.values())))
            now = self._admin.high_watermarks(topic)
        return (
            f"{topic} was deleted at {_told(ends)}, kept in {kept.file.name}, and made again "
            f"(id {made.topic_id}); when the driver went on it held {_told(now)}"
        )

    def _made_anew(self, topic: str) -> TopicInfo:
        info = self._admin.describe(topic)
        if info is None:
            raise Retriable(f"There is no topic {topic} that could be deleted.")
        every = TopicSettings(self.settings.client()).of([topic])[topic]
        own = {name: setting.value for name, setting in every.items() if setting.source == "topic"}
        self._admin.delete_topic(topic)
        return self._admin.ensure_topic(topic, info.partitions, info.replicas, own)

    def _more_than(self, records: int) -> int:
        """The records of the whole load that give this topic at least `records` and more."""
        return min(int(records * _MORE) * len(input_sources(self.topology)), _AT_ONCE_MAX)


@contextmanager
def _stopped(place: Target) -> Iterator[None]:
    """Stops the driver inside the block.

    Raises:
        Retriable: there is no driver to stop.
    """
    drivers = place.victims(DRIVER)
    if not drivers:
        raise Retriable("There is no driver that could be stopped meanwhile.")
    try:
        for driver in drivers:
            place.strike(driver, Fault.PAUSE)
        deadline = time.monotonic() + _STOPPED_S
        while not all(place.landed(driver, Fault.PAUSE).landed for driver in drivers):
            if time.monotonic() >= deadline:
                raise HoldfastError(f"The driver is not stopped after {_STOPPED_S:.0f} s.")
            time.sleep(_POLL_S)
        yield
    finally:
        for driver in drivers:
            place.heal(driver, Fault.PAUSE)


def _committed(marker: Mapping[str, Any], topic: str, topic_id: str) -> bool:
    """Whether a commit marker has offsets of the topic with that id."""
    if "source" not in marker:  # the marker of a query without state
        named = (marker.get("topic"), marker.get("topic_id"))
        return named == (topic, topic_id) and int(marker["offset"]) > 0
    parts = [marker["source"], *marker["source"].get("others", ())]
    return any(
        (part["topic"], part.get("topic_id")) == (topic, topic_id)
        and any(int(end) > 0 for _, end in part["end"])
        for part in parts
    )


def _told(offsets: Mapping[int, int]) -> str:
    return ", ".join(f"{p}: {offset}" for p, offset in sorted(offsets.items()))
