"""The fakes beyond the contracts: lost writes, and the retention of tombstones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.errors import KafkaUnavailable, StoreLocked
from holdfast.runtime.queries import feeds
from holdfast.runtime.queries.inputs import Inputs
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.fakes.coroutine import Abandoned, Coroutine
from tests.simulation.fakes.disk import Disk
from tests.simulation.fakes.executors import Bench
from tests.simulation.fakes.log import Fate, Log, Transaction
from tests.simulation.fakes.spark import JobAborted
from tests.simulation.histories.job import install_streams
from tests.simulation.jobs.statements import topology

VOLUME = Path("0")
STORE = VOLUME / "app" / "query" / "0"


@dataclass
class Somebody:
    alive: bool = True


def _counted(disk: Disk) -> int:
    """How many of the batches below are there."""
    return int(disk.peek(STORE, b"n") or b"0")


def _written(seed: int, process: Somebody) -> Disk:
    disk = Disk(random.Random(seed))
    store = disk.open(STORE, process)
    for n in range(1, 11):
        store.write([(b"n", b"%d" % n), (b"k%d" % n, b"")], [])
    return disk


def test_a_killed_process_loses_nothing_and_lets_go() -> None:
    process = Somebody()
    disk = _written(1, process)
    with pytest.raises(StoreLocked):
        disk.open(STORE, Somebody())
    process.alive = False
    assert disk.open(STORE, Somebody()).get_many([b"n"]) == [b"10"]


def test_a_machine_that_crashes_loses_the_last_batches_and_no_half_of_one() -> None:
    left = []
    for seed in range(50):
        process = Somebody()
        disk = _written(seed, process)
        process.alive = False
        disk.crash(VOLUME)
        store = disk.open(STORE, Somebody())
        left.append(_counted(disk))
        assert len(list(store.scan(b"k", None))) == left[-1] + (left[-1] > 0)
    assert min(left) < max(left) == 10


def test_a_lost_volume_is_empty() -> None:
    disk = _written(1, Somebody())
    disk.delete(VOLUME)
    assert disk.paths(VOLUME) == []


def test_a_tombstone_outlives_the_first_cleaning_by_the_retention() -> None:
    log = Log()
    log.append(b"a", b"1", 0)
    log.append(b"a", None, 0)
    log.compact(2, now_s=1000.0, delete_retention_s=60)
    log.compact(2, now_s=1059.0, delete_retention_s=60)
    assert [e.value for e in log.visible(0, 2, 9)] == [None]
    log.compact(2, now_s=1060.0, delete_retention_s=60)
    assert (log.visible(0, 2, 9), log.start, log.end) == ([], 0, 2)


def test_compaction_leaves_open_transactions_alone_and_what_follows_them() -> None:
    log = Log()
    log.append(b"a", b"1", 0)
    log.append(b"a", b"2", 0, Transaction("t", 0, 0.0, 60.0))
    log.append(b"a", b"3", 0)
    log.compact(3, now_s=0.0, delete_retention_s=60)
    assert [e.offset for e in log.entries] == [0, 1, 2]


def test_compaction_takes_aborted_records_away() -> None:
    log = Log()
    log.append(b"a", b"1", 0)
    aborted = Transaction("t", 0, 0.0, 60.0)
    log.append(b"a", b"2", 0, aborted)
    aborted.fate = Fate.ABORTED
    log.conclude(aborted, 0)
    log.compact(3, now_s=0.0, delete_retention_s=60)
    assert [(e.offset, e.value) for e in log.visible(0, 3, 9)] == [(0, b"1")]
    assert log.stable_end == log.end == 3


def test_stores_change_places_and_old_copies_come_back() -> None:
    process = Somebody()
    disk = _written(1, process)
    process.alive = False
    old, other = disk.copy(), VOLUME / "app" / "query" / "1"
    disk.open(other, None).write([(b"n", b"1")], [])
    disk.swap(STORE, other)
    assert (disk.peek(STORE, b"n"), disk.peek(other, b"n")) == (b"1", b"10")
    disk.bring_back(STORE, old[STORE])
    assert disk.peek(STORE, b"n") == b"10"


def test_a_log_that_lost_its_tail_gives_its_offsets_out_anew() -> None:
    log = Log()
    lost = Transaction("t", 0, 0.0, 60.0)
    log.append(b"a", b"1", 1_000)
    log.append(b"b", b"2", 2_000, lost)
    log.delete_from(1)
    log.conclude(lost, 0)
    assert (log.end, log.stable_end) == (1, 1)
    assert log.append(b"c", b"3", 3_000) == 1
    assert (log.first_at(1_001), log.first_at(3_001)) == (1, None)


def test_a_wall_clock_that_jumps_moves_no_other_clock() -> None:
    clock = VirtualTime()
    before = clock.monotonic(), clock.now_ms()
    clock.jump(-3600)
    assert (clock.monotonic(), clock.now_ms()) == before
    assert clock.time() == before[0] - 3600


@pytest.mark.parametrize(("target", "end"), [(None, 8), (3, 3), (9, 8)])
def test_a_batch_is_cut_and_never_goes_beyond_its_target(
    monkeypatch: pytest.MonkeyPatch, target: int | None, end: int
) -> None:
    """Or else what levels one state partition would take in what the others have not begun."""
    bench, place = Bench(monkeypatch), ("s", 0)
    log = bench.kafka.make_topic("s", 1, {}).logs[0]
    for _ in range(10):
        log.append(b"k", b"{}", 0)
    install_streams(monkeypatch, lambda begin, bounds: {place: 8})
    query = topology("totals").queries[0]
    planner = cast("Any", feeds).Planner(Inputs(query, bench.settings).options())
    wanted = None if target is None else {place: target}
    assert planner.plan({place: 0}, wanted).end == {place: end}


class _Stage:
    """Two reading tasks of one blob each, on an executor of their own."""

    def __init__(self, patch: pytest.MonkeyPatch, troubles: int = 0) -> None:
        bench = Bench(patch)
        self.spark = bench._spark
        self.spark.start_driver()
        self.made: list[int] = []
        self._troubles = troubles
        self.places = [each.location for each in self.spark.executors(None)]
        rdd = self.spark.located(None, self.places)
        self.blobs = self.spark.shuffled(rdd, self._read, 1)

    def kept(self) -> list[list[bytes]]:
        """The blobs that the one task gets, in whatever order."""
        return self.spark.on_owners(
            self.blobs, self.places[:1], lambda _, parts: [sorted(parts)], [0]
        )

    def _read(self, index: int, elements: list[int]) -> list[tuple[int, bytes]]:
        assert elements == [index]
        if self._troubles:
            self._troubles -= 1
            raise KafkaUnavailable("nobody answers", action="wait.")
        self.made.append(index)
        return [(0, b"%d" % index)]


def test_blobs_are_made_once_and_again_when_their_executor_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = _Stage(monkeypatch)
    assert stage.made == []
    for _ in range(2):
        assert stage.kept() == [[b"0", b"1"]]
    assert stage.made == [0, 1]
    stage.spark.kill(stage.blobs.made[1][0])
    assert stage.kept() == [[b"0", b"1"]]
    assert stage.made == [0, 1, 1]


def test_a_reading_task_is_tried_again_until_its_job_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _Stage(monkeypatch, troubles=7).kept() == [[b"0", b"1"]]
    with pytest.raises(JobAborted) as aborted:
        _Stage(monkeypatch, troubles=8).kept()
    assert isinstance(aborted.value.cause, KafkaUnavailable)


def test_a_coroutine_that_is_abandoned_unwinds() -> None:
    said: list[str] = []

    def call() -> None:
        try:
            coroutine.pause()
        finally:
            said.append("unwound")

    coroutine = Coroutine(call)
    assert not coroutine.resume()
    coroutine.abandon()
    assert said == ["unwound"]
    with pytest.raises(Abandoned):
        coroutine.outcome()


def test_a_coroutine_stops_and_goes_on_where_it_was() -> None:
    said: list[str] = []

    def call() -> str:
        said.append("before")
        coroutine.pause()
        said.append("after")
        return "done"

    coroutine = Coroutine(call)
    assert not coroutine.resume()
    said.append("meanwhile")
    assert coroutine.resume()
    assert (said, coroutine.outcome()) == (["before", "meanwhile", "after"], "done")
