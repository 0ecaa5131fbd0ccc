"""A state task goes on with the store that a standby on its volume has open."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.state.volume import Volume, claim
from holdfast.tasks import state_task
from holdfast.tasks.plan import QueryPlan, Whereabouts
from holdfast.tasks.standbys import Standbys
from holdfast.tasks.state_task import StateTask
from tests.simulation.jobs import one_table as history

SEED = 7


@pytest.fixture
def plan(kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path) -> QueryPlan:
    return history.plan_of(kafka.bootstrap_servers, kafka_topic_name("app"), tmp_path, partitions=1)


@pytest.fixture
def volumes(tmp_path: Path) -> Iterator[tuple[Volume, Volume]]:
    """The owner's, and the standby's."""
    found = (claim(tmp_path, expected=2, wait_s=5.0), claim(tmp_path, expected=2, wait_s=5.0))
    yield found
    for volume in found:
        volume.release()


def _task(plan: QueryPlan, volume: Volume) -> StateTask:
    return StateTask(plan, 0, volume, Whereabouts("test", volume.ordinal, os.getpid(), 0))


def _process(plan: QueryPlan, task: StateTask, number: int) -> int:
    """One batch; the rows that the state partition has then."""
    payload = history.payload_of(plan, SEED, number)
    return task.process(history.batch_of(number), payload).rows


def _written(plan: QueryPlan, volume: Volume) -> int:
    """The rows that an owner on this volume leaves."""
    owner = _task(plan, volume)
    owner.open()
    rows = _process(plan, owner, 0)
    owner.close()
    return rows


def _followed(plan: QueryPlan, volume: Volume) -> Standbys:
    standbys = Standbys(threaded=False)
    standbys.keep({(plan.state_name, 0): plan}, {}, volume)
    standbys.turn()
    return standbys


def test_the_open_store_of_a_standby_is_not_opened_again(
    plan: QueryPlan, volumes: tuple[Volume, Volume], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = _task(plan, volumes[0])
    owner.open()
    _process(plan, owner, 0)
    standbys = _followed(plan, volumes[1])
    rows = _process(plan, owner, 1)  # nothing of it is in the standby yet
    owner.close()
    with monkeypatch.context() as patched:
        patched.delattr(state_task, "open_store")
        heir = _task(plan, volumes[1])
        assert heir.open(0, standbys.take(plan.state_name, 0)).rows == rows
    _process(plan, heir, 2)
    written = heir.marker
    heir.close()
    assert standbys.take(plan.state_name, 0) is None
    again = _task(plan, volumes[1])
    opened = again.open()
    again.close()
    assert (opened.marker, opened.restored_records) == (written, 0)


def test_a_store_whose_restore_was_interrupted_is_opened_anew(
    plan: QueryPlan, volumes: tuple[Volume, Volume]
) -> None:
    rows = _written(plan, volumes[0])
    standbys = _followed(plan, volumes[1])
    store = standbys._standbys[plan.state_name, 0].store
    assert store is not None
    store.begin_load()
    store.load([], [], position=store.position, marker=store.marker)  # type: ignore[arg-type]
    assert standbys.take(plan.state_name, 0) is None
    heir = _task(plan, volumes[1])
    assert heir.open().rows == rows
    heir.close()


def test_a_task_that_cannot_open_closes_the_store_it_was_given(
    plan: QueryPlan, volumes: tuple[Volume, Volume], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _written(plan, volumes[0])
    heir = _task(plan, volumes[1])
    with monkeypatch.context() as patched:
        patched.delattr(state_task, "TransactionalProducer")
        with pytest.raises(NameError):
            heir.open(0, _followed(plan, volumes[1]).take(plan.state_name, 0))
    heir.close()
    again = _task(plan, volumes[1])
    assert again.open().rows == rows  # nobody holds its lock any more
    again.close()
