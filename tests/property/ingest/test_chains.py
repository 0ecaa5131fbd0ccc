"""The law of chains: what a table counts straight from a topic it counts behind other queries.

Queries are the real planner, the real book of cuts and the real processor over logs in memory.
A query that writes commits a batch piece by piece, each piece with the batch's whole span of time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.ingest import planner
from holdfast.ingest.cuts import CutBook
from holdfast.ingest.planner import Planner
from holdfast.types.ids import Place
from holdfast.types.ingest import IngestOptions, Planned
from holdfast.types.statements.topology import Emit, Source, Window, WindowKind
from holdfast.types.times import FOREVER, NO_TIME
from tests.support.jobs.grouped_rows import Grouped, Record, query_of

WINDOW = Window(WindowKind.TUMBLING, 100, 100, 10, 110)
SINK_PARTITIONS = 3
CLOSING = 100_000  # ms: newer than all others


@dataclass
class Topic:
    """A topic; each record's time is its event time."""

    name: str
    logs: dict[Place, list[Record]]
    _newest: dict[Place, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        logs, self.logs = self.logs, {place: [] for place in self.logs}
        self._newest = {place: [] for place in logs}
        for place, log in logs.items():
            for record in log:
                self.append(place, record)

    def append(self, place: Place, record: Record) -> None:
        newest = self._newest[place]
        newest.append(max(record[2], newest[-1] if newest else record[2]))
        self.logs[place].append(record)

    def bounds(self) -> dict[Place, tuple[int, int]]:
        return {place: (0, len(log)) for place, log in self.logs.items()}

    def first_at(self, time_ms: int) -> dict[Place, int]:
        found = {place: bisect_left(newest, time_ms) for place, newest in self._newest.items()}
        return {place: at for place, at in found.items() if at < len(self._newest[place])}

    def ends(self) -> dict[Place, int]:
        return {place: len(log) for place, log in self.logs.items()}


def empty(name: str) -> Topic:
    return Topic(name, {(name, p): [] for p in range(SINK_PARTITIONS)})


class _Reader(Planner):
    """A planner of a topic in memory."""

    def __init__(self, topic: Topic, limit: int, cuts: str) -> None:
        source = Source(topic.name, "STREAM", topic.name, (), ())
        super().__init__(IngestOptions(source, {}, (), max_offsets_per_trigger=limit, cuts=cuts))
        self._topic = topic

    def _first_at(self, time_ms: int) -> dict[Place, int]:
        return self._topic.first_at(time_ms)

    def ahead(self, done: Mapping[Place, int]) -> Planned:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(planner, "bounds_of", lambda _: self._topic.bounds())
            return self.plan(done)

    def next(self, done: Mapping[Place, int]) -> Planned | None:
        planned = self.ahead(done)
        return None if planned.end == done else planned


@dataclass
class Writer:
    """A query that passes every record on; its progress is one offset per source partition."""

    name: str
    source: Topic
    sink: Topic
    limit: int
    grouped: bool  # by key, as queries with state write; else by source partition
    done: dict[Place, int]

    def pieces(self, planned: Planned) -> Iterator[None]:
        """Commits a batch piece by piece."""
        if not self.grouped:
            for place in self.source.logs:
                self._write(self.source.logs[place][self.done[place] : planned.end[place]])
                self.done[place] = planned.end[place]
                yield
            return
        taken = [
            r for p in self.source.logs for r in self.source.logs[p][self.done[p] : planned.end[p]]
        ]
        for group in range(2):
            self._write([r for r in taken if crc32(str(r[0]).encode()) // 7 % 2 == group])
            if not group:
                yield
        self.done = dict(planned.end)
        yield

    def _write(self, records: list[Record]) -> None:
        for record in records:
            place = self.sink.name, crc32(str(record[0]).encode()) % SINK_PARTITIONS
            self.sink.append(place, record)


@dataclass
class Chain:
    """Queries one behind the other, a final table at the end, and their driver."""

    source: Topic
    limits: tuple[int, ...]
    grouped: tuple[bool, ...]
    home: Path
    table: Grouped = field(default_factory=lambda: Grouped(query_of(WINDOW, Emit.FINAL)))

    def __post_init__(self) -> None:
        self.writers: list[Writer] = []
        topic = self.source
        for n, grouped in enumerate(self.grouped):
            sink = empty(f"t{n}")
            begin = dict.fromkeys(topic.logs, 0)
            self.writers.append(Writer(f"q{n}", topic, sink, self.limits[n], grouped, begin))
            topic = sink
        self.last, self.done = topic, dict.fromkeys(topic.logs, 0)
        self.restart()

    def restart(self) -> None:
        """A new driver knows no cut."""
        ids = {w.sink.name: frozenset({w.name}) for w in self.writers}
        self.book = CutBook(self.home / "cuts.json", ids)
        cuts = str(self.book.file)
        self.readers = [
            _Reader(w.source, w.limit, cuts if n else "") for n, w in enumerate(self.writers)
        ]
        self.reader = _Reader(self.last, self.limits[-1], cuts)

    def write(self, n: int, *, dies_after: int | None = None) -> bool:
        """A batch of a writer; the driver may die after so many pieces of it."""
        writer = self.writers[n]
        planned = self.readers[n].next(writer.done)
        if planned is None:
            self._idle(n)
            return False
        pieces = writer.pieces(planned)
        for piece, _ in enumerate(pieces):
            if piece == dies_after and writer.done != planned.end:
                if writer.grouped:  # brought level: the rest of that very batch
                    list(pieces)
                self.restart()
                return True
        reached = NO_TIME if planned.reached_ms is None else planned.reached_ms
        self.book.ended(writer.name, reached, writer.sink.ends())
        return True

    def _idle(self, n: int) -> None:
        writer = self.writers[n]
        above = self.book.last(writer.source.name)
        ready = not n or (above is not None and above.watermark_ms == FOREVER)
        if ready and writer.done == writer.source.ends():
            self.book.ended(writer.name, FOREVER, writer.sink.ends())

    def read(self) -> bool:
        """A batch of the table."""
        planned = self.reader.ahead(self.done)
        records = [
            r for p, log in self.last.logs.items() for r in log[self.done[p] : planned.end[p]]
        ]
        assert planned.watermark_ms is not None
        if planned.end == self.done and not self._moves_time(planned.watermark_ms):
            return False
        self.table.feed(records, planned.watermark_ms)
        self.done = dict(planned.end)
        return True

    def _moves_time(self, watermark_ms: int) -> bool:
        return min(self.table.newest, watermark_ms) > self.table.stream_time

    def finish(self) -> None:
        going = True
        while going:
            going = any([*(self.write(n) for n in range(len(self.writers))), self.read()])


def straight(source: Topic, limit: int) -> Grouped:
    """The table without anything in between."""
    table = Grouped(query_of(WINDOW, Emit.FINAL))
    reader, done = _Reader(source, limit, ""), dict.fromkeys(source.logs, 0)
    while (planned := reader.next(done)) is not None:
        assert planned.watermark_ms is None
        turns: list[tuple[int, int, int, Record]] = []
        for number, (place, log) in enumerate(source.logs.items()):
            turn = NO_TIME
            for offset in range(done[place], planned.end[place]):
                turn = max(turn, log[offset][2])
                turns.append((turn, number, offset, log[offset]))
        table.feed([record for *_, record in sorted(turns, key=lambda each: each[:3])])
        done = dict(planned.end)
    return table


@st.composite
def sources(draw: st.DrawFn) -> Topic:
    """Topics whose records are in order but for less than the grace; one partition is idle."""
    partitions = draw(st.one_of(st.integers(1, 5), st.just(64)))
    idle = draw(st.integers(0, partitions)) if partitions > 1 else partitions
    logs: dict[Place, list[Record]] = {}
    for p in range(partitions):
        count = (
            0 if p == idle else draw(st.sampled_from([1, 3, 12, 40] if partitions < 6 else [1, 3]))
        )
        seed = draw(st.integers(0, 10_000))
        times = [n * 2_000 // count + (seed + n * 7) % 11 for n in range(count)]
        log: list[Record] = [(f"k{(seed + n) % 5}", n, t) for n, t in enumerate(times)]
        logs["a", p] = log if p == idle else [*log, (f"z{p}", 0, CLOSING)]
    return Topic("a", logs)


Moves = list[tuple[str, int]]
_MOVES: st.SearchStrategy[Moves] = st.lists(
    st.tuples(st.sampled_from(["write", "die", "read", "restart"]), st.integers(0, 7)), max_size=25
)


@settings(deadline=None)
@given(
    source=sources(),
    limits=st.lists(st.sampled_from([7, 20, 60, 0]), min_size=3, max_size=3).map(tuple),
    grouped=st.lists(st.booleans(), min_size=1, max_size=2).map(tuple),
    moves=_MOVES,
)
def test_a_chain_drops_no_more_than_a_query_straight_from_the_topic(
    source: Topic,
    limits: tuple[int, ...],
    grouped: tuple[bool, ...],
    moves: Moves,
    tmp_path_factory: Any,
) -> None:
    expected = straight(source, limits[0])
    chain = Chain(source, limits, grouped, tmp_path_factory.getbasetemp())
    for move, number in moves:
        if move == "read":
            chain.read()
        elif move == "restart":
            chain.restart()
        else:
            dies_after = number // 2 if move == "die" else None
            chain.write(number % len(chain.writers), dies_after=dies_after)
    chain.finish()
    told, counts = expected.table(), chain.table.table()
    assert {place: counts[place][0] >= row[0] for place, row in told.items()} == dict.fromkeys(
        told, True
    )
    assert chain.table.dropped_late <= expected.dropped_late
    if not expected.dropped_late:
        assert {k: v[:2] for k, v in counts.items()} == {k: v[:2] for k, v in told.items()}
