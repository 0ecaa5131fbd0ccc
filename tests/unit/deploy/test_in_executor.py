"""An executor's pod answers for what only it reaches: its database, and its snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from holdfast.chaos.faults.remote_store_faults import RemoteStoreTarget
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.kubernetes.in_executor import InExecutor, PodSnapshots, PodStores
from holdfast.chaos.targets.kubernetes.scripts import REMOTE_STORES, SNAPSHOT_FILES
from holdfast.chaos.targets.kubernetes.stores import release_stores
from holdfast.config.settings import RemoteSettings
from holdfast.deploy.kubernetes.client import Executed
from holdfast.errors import Refused, Retriable
from holdfast.types.components import REMOTE_STORE
from holdfast.types.stores import StoreDigest
from tests.simulation.fakes.database import Database, FakeStores
from tests.unit.chaos.test_nemesis import Place
from tests.unit.deploy.fake_kube import JOB, NAME, FakeKube

Answers = dict[str, Callable[..., object]]


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube()
    made.add_job()
    return made


def _answers(kube: FakeKube, module: str, answers: Answers) -> InExecutor:
    """The module in a pod does what these functions do, by its first argument."""

    def answer(_: dict[str, Any], command: Sequence[str]) -> Executed:
        what, properties, *arguments = command[3:]
        assert properties == "/etc/holdfast/job/properties.yaml"
        return Executed(0, orjson.dumps(answers[what](*arguments)).decode(), "")

    kube.answers[module] = answer
    return InExecutor(JOB, NAME, kube)


# -- the database ------------------------------------------------------------------------------


def test_all_stores_of_the_job_are_removed_by_an_executor(kube: FakeKube) -> None:
    database = Database()
    for name in ("movies/ctas_t/0", "movies/ctas_t/1", "other/ctas_t/0"):
        database.open(name, None).write([(b"k", b"v")], [])
    stores = FakeStores(database, RemoteSettings("redis://db:6379"), "movies")
    pods = _answers(kube, REMOTE_STORES, {"list": stores.stores, "remove": stores.delete_all})
    target = RemoteStoreTarget(Place(), lambda: PodStores(pods))
    (victim,) = target.victims(REMOTE_STORE)
    assert target.strike(victim, Fault.EMPTY_STORES) == "2 stores removed"
    assert target.landed(victim, Fault.EMPTY_STORES).landed
    assert list(database.content) == ["other/ctas_t/0"]
    asked = {did[1] for did in kube.did if did[0] == "run"}
    assert asked == {f"{NAME}-executor-0"}, "one of them is enough"


def test_stores_in_a_database_are_read_by_one_executor(kube: FakeKube) -> None:
    store = {"application_id": "app", "query_id": "q", "partition": 0, "rows": 2, "position": 9}
    _answers(kube, REMOTE_STORES, {"digests": lambda: [{**store, "digest": "aa", "volume": -1}]})
    found = release_stores(JOB, NAME, "app", kube, remote=True)
    assert found == {("q", 0): [StoreDigest("app", "q", 0, 2, 9, "aa", -1)]}


def test_without_an_executor_nothing_is_seen_and_nothing_lands(kube: FakeKube) -> None:
    pods = _answers(kube, REMOTE_STORES, {"list": lambda: [["app", "q", 0]]})
    target = RemoteStoreTarget(Place(), lambda: PodStores(pods))
    assert target.victims(REMOTE_STORE)
    for name in ("executor-0", "executor-1"):
        kube.there[JOB, f"{NAME}-{name}"]["metadata"]["deletionTimestamp"] = "now"
    assert target.victims(REMOTE_STORE) == []
    with pytest.raises(Retriable, match="No executor of movies runs"):
        PodStores(pods).delete_all()


@pytest.mark.parametrize(("status", "told"), [(1, "failed in .*: no password"), (None, "ended")])
def test_a_module_that_fails_is_told(kube: FakeKube, status: int | None, told: str) -> None:
    kube.answers[REMOTE_STORES] = lambda *_: Executed(status, "", "no password\n")
    with pytest.raises(Retriable, match=told):
        PodStores(InExecutor(JOB, NAME, kube)).stores()


def test_a_release_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused):
        PodStores(InExecutor(JOB, NAME, FakeKube())).stores()


# -- snapshots ---------------------------------------------------------------------------------


def test_snapshots_are_asked_for_in_an_executor(kube: FakeKube) -> None:
    answers: Answers = {
        "list": lambda: ["a/manifests/1.json"],
        "damage": lambda: ["a/files/x", "a/files/y"],
        "wrong": lambda *paths: list(paths[1:]),
    }
    snapshots = PodSnapshots(_answers(kube, SNAPSHOT_FILES, answers))
    assert snapshots.newest() == ["a/manifests/1.json"]
    damaged = snapshots.damage()
    assert snapshots.wrong(damaged) == ["a/files/y"]
