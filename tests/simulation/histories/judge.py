"""Judges a simulated history with the real oracle, and its stores against their changelog."""

from __future__ import annotations

import atexit
from collections.abc import Collection, Iterator, Sequence
from functools import cache

import duckdb
import pytest

from holdfast.errors import Retriable
from holdfast.judge.oracle import Oracle, OracleOptions
from holdfast.judge.read.observe import Observer
from holdfast.judge.recompute import recompute
from holdfast.judge.statement import arithmetic
from holdfast.judge.verdict import JobVerdict
from holdfast.state.changelog import DATA_PREFIX, MARKER_KEY
from holdfast.state.digest import content
from holdfast.state.table_store import TableStore
from holdfast.tasks.state_task import StateTask
from holdfast.types.statements.topology import Query, Topology
from holdfast.types.stores import JobStores, StoreDigest
from tests.simulation.fakes.kafka import FakeKafka
from tests.simulation.fakes.spark import Executor
from tests.simulation.histories.job import APPLICATION

__all__ = ["judged", "opened_wrong", "store_faults"]


class _OneEngine:
    """DuckDB for the judge: connecting takes longer than all of its work on so small an input."""

    def __init__(self) -> None:
        self._engine = duckdb.connect(config={"threads": 1})
        arithmetic.register(self._engine)

    def connect(self, config: object) -> duckdb.DuckDBPyConnection:
        return self._engine.cursor()


_engine = cache(_OneEngine)
atexit.register(_engine.cache_clear)


def judged(topology: Topology, executors: Sequence[Executor]) -> JobVerdict:
    """The oracle's verdict; its clients must be the fake ones by now."""

    def stores() -> JobStores:
        owners = _owners(executors).items()
        return {
            (task._plan.state_name, p): [_digest(task, p), *_standbys(task, executors, p)]
            for p, task in owners
        }

    oracle = Oracle(
        APPLICATION,
        Observer({}, APPLICATION),
        options=OracleOptions(60.0, 60.0),
        stores=stores,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recompute, "duckdb", _engine())
        patch.setattr(recompute, "register", lambda engine: None)  # it knows them already
        return oracle.judge(topology)


def store_faults(
    kafka: FakeKafka, query: Query, executors: Sequence[Executor], partitions: int
) -> str:
    """The faults of the open stores, as text; empty if there are none.

    Every state partition's owner holds what its changelog holds at its end.
    """
    tasks = _owners(executors)
    changelog = next((task._plan.changelog for task in tasks.values()), "")
    if changelog not in kafka.topics:
        return "the job has no changelog"
    if "-g" in changelog:  # it was rescaled
        partitions = len(kafka.topics[changelog].logs)
    if sorted(tasks) != list(range(partitions)):
        return f"open state partitions: {sorted(tasks)} of {partitions}"
    ends = [kafka.log(changelog, p).stable_end for p in range(partitions)]
    wrong = [_wrong(kafka, query, tasks[p], p, ends[p]) for p in range(partitions)]
    return "; ".join(filter(None, wrong))


def _owners(executors: Sequence[Executor]) -> dict[int, StateTask]:
    """The open task of each state partition.

    An executor that was the owner before may still have it open, but cannot commit: the store that
    is furthest counts, and in a database the one that is still its own.  So may one of an earlier
    generation: the last one counts.
    """
    tasks: dict[int, StateTask] = {}
    every = [task for executor in executors for task in executor.state_tasks.values()]
    last = max((task._plan.generation for task in every), default=0)
    for task in every:
        p = task._partition
        current = task._plan.generation == last and _is_readable(task)
        if current and (p not in tasks or task.position > tasks[p].position):
            tasks[p] = task
    return tasks


def _is_readable(task: StateTask) -> bool:
    try:
        task._opened()[1].get_many([b""])
    except Retriable:
        return False
    return True


def _digest(task: StateTask, partition: int) -> StoreDigest:
    return _digest_of(task._opened()[1], task._plan.query.id, partition)


def _standbys(
    task: StateTask, executors: Sequence[Executor], partition: int
) -> Iterator[StoreDigest]:
    """The digests of all standbys of a state partition."""
    for executor in executors:
        standby = executor.standbys._standbys.get((task._plan.state_name, partition))
        if standby is not None and standby.store is not None:
            yield _digest_of(standby.store, task._plan.query.id, partition)


def _digest_of(store: TableStore, query_id: str, partition: int) -> StoreDigest:
    _, digest = content(store)
    at = store.position.offset if store.position is not None else 0
    return StoreDigest(APPLICATION, query_id, partition, store.rows, at, digest)


def opened_wrong(kafka: FakeKafka, query: Query, task: StateTask, partition: int) -> str:
    """The fault of a store right after step 0; empty if there is none.

    Later batches would heal some of it: a row whose tombstone was missed is expired once more.

    A newer owner may have gone on beyond what this task opened, and the cleaner after it: of a key
    that it saw there the changelog no longer tells what it was before.  Such a task cannot commit.
    """
    producer, at = task._opened()[0], task.position
    cleaned = kafka.log(task._plan.changelog, partition).cleaned
    fenced = kafka.fenced(producer.transactional_id, producer._epoch)  # type: ignore[attr-defined]
    untold = {key for key, newest in cleaned.items() if newest >= at} if fenced else set()
    return _wrong(kafka, query, task, partition, at, untold)


def _wrong(
    kafka: FakeKafka, query: Query, task: StateTask, partition: int, upto: int,
    untold: Collection[bytes] = frozenset(),
) -> str:  # fmt: skip
    log = kafka.log(task._plan.changelog, partition)
    last = {e.key: e.value for e in log.visible(log.start, upto, 1 << 30)}
    marker = last.pop(MARKER_KEY, None)
    want = {k: v for k, v in last.items() if k and k not in untold and v is not None}
    store = task._opened()[1]
    rows = {DATA_PREFIX + key: row for key, row in store.scan()}
    told = {k: v for k, v in [*rows.items(), *store.scan_elements()] if k not in untold}
    if told != want:
        return f"store {partition}: {len(told)} rows, its changelog {len(want)}, or they differ"
    if store.rows != len(rows):
        return f"store {partition}: {len(rows)} rows, counted {store.rows}"
    if MARKER_KEY not in untold and (store.marker and store.marker.to_bytes()) != marker:
        return f"store {partition}: another commit marker than its changelog"
    return ""
