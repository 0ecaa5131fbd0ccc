"""Pods of a job on Kubernetes, as the console tells them: who may see them, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.deploy.kubernetes.release_pods import PodsOfRelease
from holdfast.serve.console.app import Console
from holdfast.serve.console.jobs import Beside
from tests.support.console.world import JOB, World
from tests.support.servers.kubernetes_api import in_a_pod
from tests.support.servers.release_cluster import OOM_KILLED, Cluster, pod
from tests.unit.serve.console.test_app import GUEST, Asking

DRIVER = f"{JOB}-driver-0"
SECRET = "password=hunter2"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    ended = {"terminated": OOM_KILLED}
    made = Cluster(
        {DRIVER: pod(DRIVER, "driver", 1, lastState=ended)},
        {f"{JOB}-driver": 1},
        {DRIVER: f"a line\n{SECRET}\n", f"previous/{DRIVER}": "java.lang.OutOfMemoryError\n"},
    )
    with in_a_pod(made, tmp_path, monkeypatch):
        yield made


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    world = World()
    serving = world.serving(tmp_path)
    return Asking(world, serving, Console(serving, Beside(pods=PodsOfRelease(JOB))))


def test_the_job_is_known_by_its_release_though_its_driver_never_answered(
    asking: Asking, cluster: Cluster
) -> None:
    (job,) = asking.get("/console/api/jobs").json
    assert (job["application_id"], job["on_kubernetes"], job["answers"]) == (JOB, True, False)
    told = asking.get("/console/api/pods").json
    assert (told["release"], told["refused"]) == (JOB, None)
    (one,) = told["pods"]
    assert (one["name"], one["restarts"], one["ended"]["reason"]) == (DRIVER, 1, "OOMKilled")


def test_the_end_of_a_log_and_of_that_before_the_restart(asking: Asking, cluster: Cluster) -> None:
    path = f"/console/api/pods/{DRIVER}/log"
    assert asking.get(path).json == {"pod": DRIVER, "lines": ["a line", SECRET]}
    assert asking.get(f"{path}?previous=1").json["lines"] == ["java.lang.OutOfMemoryError"]
    assert asking.get(f"{path}?previous=x").status == 400


@pytest.mark.parametrize("path", ["pods", f"pods/{DRIVER}/log"])
def test_only_who_may_read_every_table_sees_pods_and_logs(
    asking: Asking, cluster: Cluster, path: str
) -> None:
    answer = asking.get(f"/console/api/{path}", client=GUEST)
    assert (answer.status, SECRET.encode() in answer.body) == (403, False)
    assert cluster.asked == [], "the cluster was not asked"


def test_without_the_right_the_page_is_told_what_is_missing(
    asking: Asking, cluster: Cluster
) -> None:
    cluster.rules = ()
    answer = asking.get("/console/api/pods")
    assert (answer.status, answer.json["pods"]) == (200, [])
    assert "cannot get resource" in answer.json["refused"]["fact"]
    assert "serve.console.pods=true" in answer.json["refused"]["action"]
    assert asking.get("/console/api/jobs").status == 200, "the rest is shown"


def test_what_all_clients_ask_is_asked_of_the_cluster_once_in_a_while(
    asking: Asking, cluster: Cluster
) -> None:
    for _ in range(20):
        asking.get("/console/api/pods")
    # Three StatefulSets and a pod; looks are 3 s old at most.
    assert len(cluster.asked) <= 2 * 4


@pytest.mark.parametrize("name", ["other-driver-0", "..%2fsecrets", f"{DRIVER}%3fx"])
def test_no_other_log_can_be_asked_for(asking: Asking, cluster: Cluster, name: str) -> None:
    assert asking.get(f"/console/api/pods/{name}/log").status in (400, 404)
    assert cluster.asked == []


def test_outside_kubernetes_there_are_none(tmp_path: Path) -> None:
    world = World()
    serving = world.serving(tmp_path)
    asking = Asking(world, serving, Console(serving))
    told = asking.get("/console/api/pods").json
    assert told == {"release": "", "pods": [], "refused": None}
    assert asking.get("/console/api/jobs").json == []
    assert asking.get(f"/console/api/pods/{DRIVER}/log").status == 400
