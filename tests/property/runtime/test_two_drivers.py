"""Drivers at once, stopped at any step: every state partition takes every record in once.

The model has markers and records only.  Its decisions are the engine's own: `start_point`,
`pieces`, `batch_end`, `covered` and what `OffsetRange.after` makes of a marker.  Fencing makes the
comparison with a marker and the commit one step, as here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import OffsetOverlap
from holdfast.ingest.offsets import batch_end
from holdfast.runtime.queries.batches.levelling import pieces
from holdfast.runtime.queries.start import SourceState, start_point
from holdfast.state.changelog import FORMAT_VERSION, CommitMarker, origin_after
from holdfast.tasks.state_task import covered
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import Planned

TOPICS = ("s", "t")
LIMIT = 7  # offsets a batch may hold
STEPS = 150


@dataclass
class Kafka:
    """Source logs, and what the query's topics hold."""

    logs: dict[Place, tuple[int, int]]
    markers: list[CommitMarker | None]
    group: dict[Place, int] = field(default_factory=dict)
    taken: list[dict[Place, list[int]]] = field(default_factory=list)

    def commit(self, partition: int, source: OffsetRange, batch_id: int) -> None:
        """Steps 1 to 4 of a state task.

        Raises:
            OffsetOverlap: as the state task's.
        """
        last = self.markers[partition]
        if covered(last, source, f"state partition {partition}"):
            return
        self.markers[partition] = CommitMarker(
            FORMAT_VERSION, "app", "q", partition, len(self.markers), "p", "f", "c",
            source.after(last.source if last is not None else None), 0, batch_id,
            origin=origin_after(last, source),
        )  # fmt: skip
        starts = source.starts()
        for place, end in source.ends().items():
            self.taken[partition].setdefault(place, []).extend(range(starts[place], end))


@dataclass
class Driver:
    """Prepares, then takes batch after batch; each `yield` is where another may come between."""

    kafka: Kafka
    rng: random.Random

    def life(self) -> Iterator[None]:
        while True:
            try:
                yield from self._run()
            except OffsetOverlap:
                yield

    def settled(self) -> None:
        """Alone, until it has read everything."""
        for _ in self._run(endless=False):
            pass

    def plan(
        self, begin: Mapping[Place, int], target: Mapping[Place, int] | None = None
    ) -> Planned:
        logs = self.kafka.logs
        bounds = logs if target is None else {p: (logs[p][0], at) for p, at in target.items()}
        return Planned(batch_end(begin, bounds, self.rng.choice((LIMIT, 3 * LIMIT, None))))

    def _some(self, begin: Mapping[Place, int], end: Mapping[Place, int]) -> dict[Place, int]:
        """Any part of a batch is a batch."""
        logs, left = self.kafka.logs, self.rng.random() < 0.5
        held = {p for p in end if left and self.rng.random() < 0.5}
        return {p: begin.get(p, logs[p][0]) if p in held else at for p, at in end.items()}

    def _run(self, *, endless: bool = True) -> Iterator[None]:
        kafka = self.kafka
        shown = dict(kafka.group)
        yield  # what the group shows may be old, the markers are read after every fence
        initial = {place: low for place, (low, _) in kafka.logs.items()}
        sources = SourceState(initial, initial, {})
        start = start_point("q", kafka.markers, sources, shown, rebuild=False)
        for level in start.levels:
            for source, _ in pieces(level, self):
                yield from self._everywhere(source, start.batch_id - 1, level.state_partitions)
        done, batch_id = start.offsets, start.batch_id
        everyone = frozenset(range(len(kafka.markers)))
        while True:
            end = self.plan(done).end
            end = self._some(done, end) if endless else end
            # New topic partitions alone are no batch: `QueryRun.join`.
            done = {**{place: kafka.logs[place][0] for place in end}, **done}
            yield
            if end != done:
                starts = {place: done[place] for place in end}
                source = OffsetRange.over(TOPICS, starts, end)
                yield from self._everywhere(source, batch_id, everyone)
                done, batch_id = end, batch_id + 1
                kafka.group = dict(done)
            elif not endless:
                return

    def _everywhere(
        self, source: OffsetRange, batch_id: int, partitions: frozenset[int]
    ) -> Iterator[None]:
        order = sorted(partitions)
        self.rng.shuffle(order)
        for partition in order:
            self.kafka.commit(partition, source, batch_id)
            yield


def _produce(kafka: Kafka, rng: random.Random) -> None:
    """More records, or a new source topic partition; a few of those begin above 0."""
    topic = rng.choice(TOPICS)
    known = [place for place in kafka.logs if place[0] == topic]
    if rng.random() < 0.4:
        low = rng.choice((0, 0, 5))
        kafka.logs[topic, len(known)] = (low, low + rng.randint(0, 20))
    else:
        place = rng.choice(known)
        low, high = kafka.logs[place]
        kafka.logs[place] = (low, high + rng.randint(1, 20))


def _history(rng: random.Random, drivers: int, state_partitions: int) -> Kafka:
    logs = {(topic, 0): (0, rng.randint(0, 30)) for topic in TOPICS}
    kafka = Kafka(logs, [None] * state_partitions, taken=[{} for _ in range(state_partitions)])
    lives: dict[int, Iterator[None]] = {}
    for _ in range(STEPS):
        move = rng.random()
        who = rng.randrange(drivers)
        if move < 0.06:
            lives.pop(who, None)  # killed
        elif move < 0.15:
            _produce(kafka, rng)
        else:
            next(lives.setdefault(who, Driver(kafka, rng).life()))
    Driver(kafka, rng).settled()
    return kafka


@given(st.integers(0, 1 << 32), st.integers(1, 3), st.integers(1, 4))
@example(760907, 2, 3)  # a topic partition without a record comes before the first record
@example(1842, 1, 4)  # a topic partition that begins above 0 and holds nothing
@settings(deadline=None)
def test_every_state_partition_takes_every_record_in_once(
    seed: int, drivers: int, state_partitions: int
) -> None:
    kafka = _history(random.Random(seed), drivers, state_partitions)
    whole = {place: list(range(*bounds)) for place, bounds in kafka.logs.items()}
    for partition, taken in enumerate(kafka.taken):
        assert {place: found for place, found in taken.items() if found} == {
            place: records for place, records in whole.items() if records
        }, f"state partition {partition}"
    # A topic partition without a record need not be in a batch of every state partition.
    ends = {place: high for place, (low, high) in kafka.logs.items() if low < high}
    for marker in kafka.markers:
        if marker is not None:
            assert {p: at for p, at in marker.source.ends().items() if p in ends} == ends
