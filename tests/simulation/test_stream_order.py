"""SIGKILL after every step of a stateless batch, on the real broker; the second batch dies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable

import orjson
import pytest

from holdfast.errors import OffsetOverlap
from holdfast.local.broker import BrokerStatus
from holdfast.tasks.plan import StreamPlan
from holdfast.tasks.steps import Step
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import PartitionReader
from tests.integration.transport.settling import await_settled
from tests.simulation import stream

STEPS = [s for s in Step if s not in {Step.RESTORING, Step.WRITTEN}]  # there is no store


def _values(plan: StreamPlan) -> list[int]:
    client, topic = plan.settings.client(), plan.query.sink.topic
    bounds = await_settled(Admin(client), topic)[0]
    reader = PartitionReader(client, topic, 0)
    try:
        chunks = list(reader.read(*bounds))
    finally:
        reader.close()
    return [orjson.loads(v)["V"] for c in chunks for v in c.values if v is not None]


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.name.lower())
def test_a_kill_after_this_step_changes_nothing(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], step: Step
) -> None:
    application_id = kafka_topic_name("app")
    plan = stream.plan_of(kafka.bootstrap_servers, application_id)
    told = {
        "bootstrap": kafka.bootstrap_servers, "application_id": application_id, "step": step.value,
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.simulation.stream", json.dumps(told)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, f"the kill did not land: {ended.stderr}"
    done = 0 if step is Step.OPENED else 2 if step is Step.COMMITTED else 1
    task = stream.open_task(plan)
    first = max(0, done - 1)  # a driver never goes further back than the batch in hand
    reports = [stream.apply(task, batch) for batch in range(first, stream.BATCHES)]
    assert [r.skipped for r in reports].count(True) == (1 if done else 0)
    task.close()
    assert _values(plan) == list(range(stream.BATCHES * stream.SIZE))


def test_a_gap_in_the_source_offsets_is_refused(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str]
) -> None:
    task = stream.open_task(stream.plan_of(kafka.bootstrap_servers, kafka_topic_name("app")))
    stream.apply(task, 0)
    with pytest.raises(OffsetOverlap, match=r"offsets 20\.\.30.*marker of csas_s is at 10"):
        stream.apply(task, 2)
    task.close()
