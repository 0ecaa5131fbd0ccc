"""The loss of a database's rows: all stores of the job go, and only with them the fault lands."""

from __future__ import annotations

import pytest

from holdfast.chaos.faults.remote_store_faults import RemoteStoreTarget
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.local import nemesis
from holdfast.config.settings import RemoteSettings
from holdfast.errors import Refused, Retriable
from holdfast.types.components import DRIVER, EXECUTOR, REMOTE_STORE
from tests.simulation.fakes.database import Database, FakeStores
from tests.unit.chaos.test_nemesis import Place

_SETTINGS = RemoteSettings("redis://db:6379")


def _target(database: Database) -> RemoteStoreTarget:
    return RemoteStoreTarget(Place(), lambda: FakeStores(database, _SETTINGS, "app"))


def _filled(*names: str) -> Database:
    database = Database()
    for name in names:
        database.open(name, None).write([(b"k", b"v")], [])
    return database


def test_all_stores_of_the_job_are_removed_and_no_others() -> None:
    database = _filled("app/ctas_t/0", "app/ctas_t/1", "other/ctas_t/0")
    target = _target(database)
    (victim,) = target.victims(REMOTE_STORE)
    assert not target.landed(victim, Fault.EMPTY_STORES).landed
    assert target.strike(victim, Fault.EMPTY_STORES) == "2 stores removed"
    assert target.landed(victim, Fault.EMPTY_STORES).landed
    assert list(database.content) == ["other/ctas_t/0"]
    assert target.victims(REMOTE_STORE) == []
    database.open("app/ctas_t/0", None)
    (later,) = target.victims(REMOTE_STORE)
    assert later.identity != victim.identity


def test_without_a_store_there_is_nothing_to_remove() -> None:
    target = _target(_filled("app/ctas_t/0"))
    (victim,) = target.victims(REMOTE_STORE)
    target.strike(victim, Fault.EMPTY_STORES)
    with pytest.raises(Retriable, match="no store in its database yet"):
        target.strike(victim, Fault.EMPTY_STORES)


def test_executors_without_volumes_have_none_of_their_faults() -> None:
    target = _target(_filled("app/ctas_t/0"))
    assert target.faults[REMOTE_STORE] == {Fault.EMPTY_STORES}
    assert target.faults[EXECUTOR].isdisjoint({Fault.LOSE_VOLUME, Fault.OLD_VOLUME})
    (victim,) = target.victims(REMOTE_STORE)
    with pytest.raises(Refused, match="kill cannot be done to a database"):
        target.strike(victim, Fault.KILL)


def test_other_components_are_the_inner_targets() -> None:
    target = _target(_filled())
    (driver, *_) = target.victims(DRIVER)
    assert "stores" not in target.strike(driver, Fault.KILL)
    assert target.landed(driver, Fault.KILL).landed


def test_processes_are_not_offered_what_is_done_to_other_components() -> None:
    elsewhere = {Fault.RESCALE, Fault.EMPTY_STORES, Fault.DAMAGE_SNAPSHOT}
    elsewhere |= {Fault.ADD_PARTITION, Fault.RECREATE_TOPIC}
    for component, faults in nemesis._FAULTS.items():
        assert faults.isdisjoint(elsewhere), component
