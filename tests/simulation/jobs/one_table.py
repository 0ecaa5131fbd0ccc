"""One tiny table, its batches, and a process that applies them and may die on the way.

Run as a program it is an executor in miniature: it opens state partition 0 as a state task does,
skips what the commit marker covers, applies the rest, and kills itself with SIGKILL right after
the step it was told.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa

from holdfast.config.settings import Settings, StateSettings
from holdfast.ingest.records import RecordDecoder
from holdfast.ingest.used_columns import used_columns
from holdfast.state.changelog import changelog_config
from holdfast.state.volume import Volume, claim
from holdfast.tasks.pack import packing
from holdfast.tasks.plan import Batch, QueryPlan, TaskReport, Whereabouts
from holdfast.tasks.state_task import StateTask
from holdfast.tasks.steps import AnyStep, Step, observe
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import Chunk
from holdfast.types.columns.schema import BIGINT, STRING, Column
from holdfast.types.ids import OffsetRange, changelog_topic
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import (
    AggregateCall,
    AggregateStep,
    Query,
    Sink,
    Source,
)
from tests.support.values.expressions import duckdb_column, source_column

SOURCE = Source("S", "STREAM", "s", (), (Column("K", STRING),))
BATCHES = 4


def query(sink_topic: str) -> Query:
    count = AggregateCall("__a0", "COUNT", (), (), BIGINT)
    output = duckdb_column(Column("N", BIGINT), "__a0")
    key = source_column(Column("K", STRING))
    step = AggregateStep((key,), None, (count,), (output,))
    sink = Sink("T", "TABLE", sink_topic, (Column("K", STRING),), (output.column,))
    return Query("ctas_t", "", SOURCE, None, step, sink)


def plan_of(bootstrap: str, application_id: str, root: Path, partitions: int = 1) -> QueryPlan:
    """The plan, with its topics made when they are missing."""
    settings = Settings(
        application_id,
        bootstrap,
        transaction_timeout_ms=10_000,
        state=replace(
            StateSettings(), partitions=partitions, dir=str(root), restore_batch_records=5
        ),
    )
    admin = Admin(settings.client())
    sink_topic = f"{application_id}-sink"
    admin.ensure_topic(sink_topic, 1, -1, {})
    planned = query(sink_topic)
    name = changelog_topic(application_id, planned.id)
    changelog = admin.ensure_topic(name, partitions, -1, changelog_config(settings.state))
    return QueryPlan(settings, planned, changelog.name, changelog.topic_id, 1, str(root))


def batch_counts(seed: int, batch: int) -> Counter[str]:
    """Records per key of one batch."""
    rng = random.Random(seed * 1000 + batch)
    return Counter(f"k{rng.randrange(8)}" for _ in range(rng.randrange(1, 20)))


def expected(seed: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for batch in range(BATCHES):
        total += batch_counts(seed, batch)
    return total


def batch_of(number: int) -> Batch:
    return Batch(number, OffsetRange.of("s", {0: number * 100}, {0: number * 100 + 100}))


def payload_of(plan: QueryPlan, seed: int, number: int) -> pa.Table:
    """The packed records of a batch."""
    keys = list(batch_counts(seed, number).elements())
    chunk = Chunk(
        keys=[None] * len(keys),
        values=[b'{"K": "%s"}' % key.encode() for key in keys],
        offsets=list(range(number * 100, number * 100 + len(keys))),
        timestamps=[number] * len(keys),
        position=number * 100 + 100,
    )
    options = IngestOptions(plan.query.source, {}, used_columns(plan.query), plan.query)
    rows, bad = RecordDecoder(options).decode(chunk, 0)
    assert not bad
    return pa.Table.from_batches([packing.payload_of(rows, plan.query)])


@cache
def _volume(root: Path) -> Volume:
    return claim(root, expected=1, wait_s=5.0)


def open_task(plan: QueryPlan, root: Path) -> tuple[StateTask, TaskReport]:
    """A new state task on the volume below `root`, which this process keeps."""
    volume = _volume(root)
    task = StateTask(plan, 0, volume, Whereabouts("test", volume.ordinal, os.getpid(), 0))
    return task, task.open()


def apply_all(task: StateTask, plan: QueryPlan, seed: int) -> list[TaskReport]:
    """Every batch from the first: what is committed already must be skipped."""
    reports = []
    for number in range(BATCHES):
        done = task.marker.source["s", 0].end if task.marker else 0
        if number * 100 + 100 < done:
            continue  # a driver never goes further back than the last batch
        reports.append(task.process(batch_of(number), payload_of(plan, seed, number)))
    return reports


def main() -> None:
    told = json.loads(sys.argv[1])
    crash = Step(told["step"])
    batch = told["batch"]
    seen: Counter[AnyStep] = Counter()

    def die(step: AnyStep, _query: str, _partition: int) -> None:
        seen[step] += 1
        occurrence = 1 if step in {Step.RESTORING, Step.OPENED} else batch + 1
        if step is crash and seen[step] == occurrence:
            os.kill(os.getpid(), signal.SIGKILL)

    observe(die)
    root = Path(told["root"])
    plan = plan_of(told["bootstrap"], told["application_id"], root)
    task, _ = open_task(plan, root)
    apply_all(task, plan, told["seed"])


if __name__ == "__main__":
    main()
