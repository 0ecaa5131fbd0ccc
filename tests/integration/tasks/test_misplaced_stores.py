"""A state task that finds the store of another one in its place does not count on from it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.state.volume import claim
from holdfast.tasks.plan import QueryPlan, Whereabouts
from holdfast.tasks.state_task import StateTask
from tests.simulation.jobs import one_table as history

SEEDS = (5, 6)


@pytest.fixture
def plan(kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path) -> QueryPlan:
    return history.plan_of(
        kafka.bootstrap_servers, kafka_topic_name("app"), tmp_path, partitions=len(SEEDS)
    )


def test_two_stores_that_were_swapped_on_disk_are_restored(
    plan: QueryPlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    volume = claim(tmp_path, expected=1, wait_s=5.0)
    where = Whereabouts("test", volume.ordinal, os.getpid(), 0)

    def run(partition: int, batches: range) -> int:
        """Batches of one state partition; the rows that it has then."""
        task = StateTask(plan, partition, volume, where)
        rows = task.open().rows
        for number in batches:
            payload = history.payload_of(plan, SEEDS[partition], number)
            rows = task.process(history.batch_of(number), payload).rows
        task.close()
        return rows

    first = [run(p, range(2)) for p in (0, 1)]
    stores = [volume.store_path(plan.settings.application_id, plan.query.id, p) for p in (0, 1)]
    shutil.move(stores[0], tmp_path / "aside")
    shutil.move(stores[1], stores[0])
    shutil.move(tmp_path / "aside", stores[1])
    assert [run(p, range(0)) for p in (0, 1)] == first
    assert caplog.text.count("holds rows of") == 2
    volume.release()
