"""A state task whose store, changelog or statement has changed since its last start."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import ChangelogLost, HoldfastError, IncompatibleStatement, Retriable
from holdfast.local.broker import BrokerStatus, LocalKafka
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.state_task import StateTask
from holdfast.tasks.steps import AnyStep, Step, observe
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.types.statements.topology import AggregateStep
from tests.simulation.histories.checks import check_exact
from tests.simulation.jobs import one_table as history
from tests.support.values.expressions import condition

SEED = 5
KEYS = len(history.expected(SEED))


@pytest.fixture
def plan(kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path) -> QueryPlan:
    return history.plan_of(kafka.bootstrap_servers, kafka_topic_name("app"), tmp_path)


def _with_state(plan: QueryPlan, **changes: object) -> QueryPlan:
    state = replace(plan.settings.state, **changes)  # type: ignore[arg-type]
    return replace(plan, settings=replace(plan.settings, state=state))


def _run(plan: QueryPlan, root: Path, batches: int = history.BATCHES) -> None:
    task, _ = history.open_task(plan, root)
    for number in range(batches):
        task.process(history.batch_of(number), history.payload_of(plan, SEED, number))
    task.close()


def _again(plan: QueryPlan) -> QueryPlan:
    """Deletes and recreates the changelog."""
    admin = Admin(plan.settings.client())
    admin.delete_topic(plan.changelog)
    return history.plan_of(
        plan.settings.bootstrap_servers, plan.settings.application_id, Path(plan.state_dir)
    )


def test_a_lost_volume_is_restored_in_full(plan: QueryPlan, tmp_path: Path) -> None:
    _run(plan, tmp_path)
    shutil.rmtree(tmp_path / "0")
    task, report = history.open_task(plan, tmp_path)
    assert report.restored_records >= KEYS
    assert report.rows == KEYS
    assert task.marker is not None
    assert task.marker.batch_id == history.BATCHES - 1
    task.close()


def test_the_memory_backend_lives_from_its_changelog(plan: QueryPlan, tmp_path: Path) -> None:
    plan = _with_state(plan, backend="memory")
    _run(plan, tmp_path)
    task, report = history.open_task(plan, tmp_path)
    assert (report.rows, report.restored_records >= KEYS) == (KEYS, True)
    task.close()


@pytest.mark.parametrize("lowered", ["the job's", "the topic's"])
def test_a_store_away_for_too_long_is_restored_in_full(
    plan: QueryPlan, tmp_path: Path, lowered: str
) -> None:
    _run(plan, tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    task, _ = history.open_task(plan, tmp_path / "a")
    number = history.BATCHES
    task.process(history.batch_of(number), history.payload_of(plan, SEED, number))
    task.close()
    if lowered == "the job's":
        plan = _with_state(plan, delete_retention_ms=1)
    else:
        settings = TopicSettings(plan.settings.client())
        settings.alter(plan.changelog, {"delete.retention.ms": "1"})
    time.sleep(0.01)
    task, report = history.open_task(plan, tmp_path / "b")
    assert "away" in report.restore_reason
    assert report.restored_records > KEYS
    task.close()


def test_a_lost_changelog_is_refused_until_told_to_rebuild(plan: QueryPlan, tmp_path: Path) -> None:
    _run(plan, tmp_path)
    plan = _again(plan)
    with pytest.raises(ChangelogLost, match=f"holds {KEYS} rows.*is empty"):
        history.open_task(plan, tmp_path)
    task, report = history.open_task(_with_state(plan, on_changelog_loss="rebuild"), tmp_path)
    assert (report.rows, task.marker) == (0, None)
    task.close()


def test_a_replaced_changelog_wins_over_the_store(plan: QueryPlan, tmp_path: Path) -> None:
    _run(plan, tmp_path / "old")
    plan = _again(plan)
    _run(plan, tmp_path / "new", batches=1)
    task, report = history.open_task(plan, tmp_path / "old")
    assert report.rows == len(history.batch_counts(SEED, 0))
    assert task.marker is not None
    assert task.marker.batch_id == 0
    task.close()


def test_another_statement_is_refused(plan: QueryPlan, tmp_path: Path) -> None:
    _run(plan, tmp_path)
    step = plan.query.step
    assert isinstance(step, AggregateStep)
    call = replace(step.aggregates[0], args=(step.keys[0].expression,))
    other = replace(plan.query, step=replace(step, aggregates=(call,)))
    with pytest.raises(IncompatibleStatement):
        history.open_task(replace(plan, query=other), tmp_path)


def test_create_or_replace_may_give_the_rows_another_filter(
    plan: QueryPlan, tmp_path: Path
) -> None:
    _run(plan, tmp_path)
    filtered = replace(plan.query, filter=condition("K > 'k'", "K"))
    with pytest.raises(IncompatibleStatement):
        history.open_task(replace(plan, query=filtered), tmp_path)
    new = replace(filtered, statement="CREATE OR REPLACE TABLE …")
    task, report = history.open_task(replace(plan, query=new), tmp_path)
    assert report.rows == KEYS
    assert task.marker is not None
    assert task.marker.fingerprint == plan.query.fingerprint()
    task.close()


def test_another_number_of_state_partitions_is_refused(plan: QueryPlan, tmp_path: Path) -> None:
    _run(plan, tmp_path)
    with pytest.raises(IncompatibleStatement, match=r"state\.partitions was 1, is 2"):
        history.open_task(_with_state(plan, partitions=2), tmp_path)


def test_a_commit_without_an_answer_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    """The broker is stopped in the middle of a commit, for longer than the commit waits."""
    own = LocalKafka(tmp_path / "kafka")
    broker = own.start(port=0)
    try:
        plan = history.plan_of(broker.bootstrap_servers, "app", tmp_path / "v")
        settings = replace(plan.settings, transaction_timeout_ms=3_000)
        plan = replace(plan, settings=settings)
        task, _ = history.open_task(plan, tmp_path / "v")
        task.process(history.batch_of(0), history.payload_of(plan, SEED, 0))
        _stop_broker_at(Step.MARKED, broker.pid, seconds=6.0)
        with pytest.raises(Retriable):
            task.process(history.batch_of(1), history.payload_of(plan, SEED, 1))
        observe(None)
        task.close()
        task = _open_when_possible(plan, tmp_path / "v")
        history.apply_all(task, plan, SEED)
        assert task.describe().rows == KEYS
        task.close()
        check_exact(plan, SEED)
    finally:
        observe(None)
        own.wipe()


def _stop_broker_at(step: Step, pid: int, seconds: float) -> None:
    def stop(at: AnyStep, _query: str, _partition: int) -> None:
        if at is step:
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()

    observe(stop)


def _open_when_possible(plan: QueryPlan, root: Path) -> StateTask:
    deadline = time.monotonic() + 60
    while True:
        try:
            return history.open_task(plan, root)[0]
        except HoldfastError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
