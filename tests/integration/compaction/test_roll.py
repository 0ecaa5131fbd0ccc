"""The record that rolls a segment is never visible to read-committed readers."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.compaction.apply.roll import ROLL_KEY, roll
from holdfast.local.broker import BrokerStatus
from holdfast.tasks.plan import QueryPlan
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.reader import PartitionReader
from tests.integration.transport.settling import await_settled
from tests.simulation.histories.checks import check_exact
from tests.simulation.jobs import one_table as history

SEED = 11
KEYS = len(history.expected(SEED))


@pytest.fixture
def plan(kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path) -> QueryPlan:
    return history.plan_of(kafka.bootstrap_servers, kafka_topic_name("app")[-60:], tmp_path)


def _rolled(plan: QueryPlan) -> tuple[int, int]:
    """Rolls the changelog; its end before and after."""
    client, changelog = plan.settings.client(), plan.changelog
    # No cleaner comes between two readings of these tests.
    settings = {"segment.ms": "1", "min.compaction.lag.ms": "3600000"}
    TopicSettings(client).alter(changelog, settings)
    before = await_settled(Admin(client), changelog)[0][1]
    roll(client, plan.settings.application_id, changelog, [0])
    return before, Admin(client).end_offsets(changelog)[0]


def test_a_live_state_task_goes_on_over_rolled_segments(plan: QueryPlan, tmp_path: Path) -> None:
    task, _ = history.open_task(plan, tmp_path)
    for number in range(history.BATCHES):
        before, after = _rolled(plan)
        assert after > before, "a record and the mark of its end take offsets"
        task.process(history.batch_of(number), history.payload_of(plan, SEED, number))
    task.close()
    check_exact(plan, SEED)


def test_neither_a_reader_nor_a_restore_sees_it(plan: QueryPlan, tmp_path: Path) -> None:
    task, _ = history.open_task(plan, tmp_path / "a")
    history.apply_all(task, plan, SEED)
    task.close()
    await_settled(Admin(plan.settings.client()), plan.changelog)
    committed = _records(plan)
    _rolled(plan)
    assert _records(plan) == committed
    assert ROLL_KEY not in {key for key, _ in committed}

    task, tail = history.open_task(plan, tmp_path / "a")
    assert (tail.restored_records, tail.rows) == (0, KEYS)
    task.close()
    task, full = history.open_task(plan, tmp_path / "b")
    assert (full.restored_records, full.rows) == (len(committed), KEYS)
    assert task.marker is not None
    assert task.marker.batch_id == history.BATCHES - 1
    task.close()


_KILLED = """
import os, signal, sys
from holdfast.compaction.apply import roll
from holdfast.transport.producer import TransactionalProducer
def die(self): os.kill(os.getpid(), signal.SIGKILL)
TransactionalProducer.abort = die
roll.roll({"bootstrap.servers": sys.argv[1]}, sys.argv[2], sys.argv[3], [0])
"""


def test_a_roll_that_was_killed_holds_a_store_up_and_no_more(
    plan: QueryPlan, tmp_path: Path
) -> None:
    task, _ = history.open_task(plan, tmp_path)
    task.process(history.batch_of(0), history.payload_of(plan, SEED, 0))
    task.close()
    settings = plan.settings
    asked = [settings.bootstrap_servers, settings.application_id, plan.changelog]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *asked], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    admin = Admin(settings.client())
    high, stable = admin.high_watermarks(plan.changelog), admin.end_offsets(plan.changelog)
    assert high != stable, "its transaction is open"
    task, _ = history.open_task(plan, tmp_path)
    history.apply_all(task, plan, SEED)
    task.close()
    check_exact(plan, SEED)


def _records(plan: QueryPlan) -> list[tuple[bytes | None, bytes | None]]:
    reader = PartitionReader(plan.settings.client(), plan.changelog, 0)
    chunks = list(reader.read(*reader.bounds()))
    reader.close()
    return [pair for c in chunks for pair in zip(c.keys, c.values, strict=True)]
