"""A stateless query in miniature, and a process that dies after one of its steps."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable

import pyarrow as pa

from holdfast.config.settings import Settings
from holdfast.ingest.records import RecordDecoder
from holdfast.ingest.used_columns import used_columns
from holdfast.state.topics.source_progress import PROGRESS_CONFIG
from holdfast.tasks.plan import StreamPlan, TaskReport, Whereabouts
from holdfast.tasks.steps import AnyStep, Step, observe
from holdfast.tasks.stream_task import StreamTask
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import Chunk
from holdfast.types.columns.schema import BIGINT, STRING, Column
from holdfast.types.ids import progress_topic
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import (
    ProjectStep,
    Query,
    Sink,
    Source,
)
from tests.support.values.expressions import source_column

BATCHES = 3
SIZE = 10
KEY, VALUE = Column("K", STRING), Column("V", BIGINT)
STEP = ProjectStep((source_column(KEY),), (source_column(VALUE),))


def query_of(source: str, sink: str) -> Query:
    return Query(
        "csas_s", "", Source("S", "STREAM", source, (KEY,), (VALUE,)), None, STEP,
        Sink("OUT", "STREAM", sink, (KEY,), (VALUE,)),
    )  # fmt: skip


def plan_of(bootstrap: str, application_id: str) -> StreamPlan:
    settings = Settings(application_id, bootstrap, transaction_timeout_ms=10_000)
    admin = Admin(settings.client())
    source, sink = f"{application_id}-in", f"{application_id}-out"
    for topic in (source, sink):
        admin.ensure_topic(topic, 1, -1, {})
    query = query_of(source, sink)
    progress = progress_topic(application_id, query.id)
    admin.ensure_topic(progress, 1, -1, PROGRESS_CONFIG)
    return StreamPlan(settings, query, 1, progress, 1)


def payload(batch: int) -> Callable[[], list[pa.RecordBatch]]:
    """Gives the decoded records of a batch when it is called."""
    values = range(batch * SIZE, batch * SIZE + SIZE)
    chunk = Chunk(
        keys=[b"k%d" % v for v in values],
        values=[b'{"V": %d}' % v for v in values],
        offsets=list(values),
        timestamps=list(values),
        position=values.stop,
        headers=[[] for _ in values],
    )
    query = query_of("in", "out")
    options = IngestOptions(query.source, {}, used_columns(query), query)
    return lambda: [RecordDecoder(options).decode(chunk, 0)[0]]


def open_task(plan: StreamPlan) -> StreamTask:
    task = StreamTask(plan, 0, Whereabouts("test", -1, os.getpid(), 0))
    task.open()
    return task


def apply(task: StreamTask, batch: int) -> TaskReport:
    return task.process(batch * SIZE, batch * SIZE + SIZE, payload(batch))


def main() -> None:
    told = json.loads(sys.argv[1])
    crash = Step(told["step"])
    seen: Counter[AnyStep] = Counter()

    def die(step: AnyStep, _query: str, _partition: int) -> None:
        seen[step] += 1
        if step is crash and seen[step] == (1 if step is Step.OPENED else 2):
            os.kill(os.getpid(), signal.SIGKILL)

    observe(die)
    task = open_task(plan_of(told["bootstrap"], told["application_id"]))
    for batch in range(BATCHES):
        apply(task, batch)


if __name__ == "__main__":
    main()
