"""Deletes an input topic under a running job and makes it again; the judge loses nothing of it.

1. hold the load, and wait until every query that reads the topic has committed all of it;
2. stop the driver, for a job that looks for a topic that is not there refuses to go on;
3. keep all of its records (`topic_archive`);
4. delete the topic, make it again with the same partitions and settings;
5. let the load go on: the first time, and every second one after it, with more records than there
   were before, so that the offsets of the old topic are in the new one; then let the driver go on.
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
from holdfast.types.topology import Query, Topology

__all__ = ["TopicRemaker"]

_COMMITTED_S = 300.0
_STOPPED_S = 60.0
_POLL_S = 0.2
_MORE = 1.2  # times as many records as before: topic partitions do not get the same share each
_AT_ONCE_MAX = 300_000


@dataclass(frozen=True)
class TopicRemaker:
    """Owns what a run does to topics that it makes again; `folder` is the run's."""

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
        """Does it; returns what was done in words.

        Args:
            place: where the job's driver is.

        Raises:
            HoldfastError: it could not be done; whether the topic is there again is in its words.
        """
        gate = LoadGate(self.folder)
        try:
            gate.hold()
            self._await_committed(place, topic)
            return self._remade(place, topic, gate)
        finally:
            gate.open()

    def landed(self, topic: str, before: str) -> Landing:
        """Has a query committed offsets of another topic of that name than the one with that id?"""
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
        """Of the whole load, so that the one topic gets that many and more."""
        return min(int(records * _MORE) * len(input_sources(self.topology)), _AT_ONCE_MAX)


@contextmanager
def _stopped(place: Target) -> Iterator[None]:
    """The driver is stopped meanwhile.

    Raises:
        Retriable: there is none that could be.
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
    """Does a commit marker have offsets of the topic with that id?"""
    if "source" not in marker:  # of a query without state
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
