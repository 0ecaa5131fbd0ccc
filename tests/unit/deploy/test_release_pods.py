"""Pods of a release as the Kubernetes API tells them, over TLS, and ends of their logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.deploy.kubernetes.release_pods import PodsOfRelease
from holdfast.errors import HoldfastError, Refused, Retriable
from tests.support.servers.kubernetes_api import in_a_pod
from tests.support.servers.release_cluster import OOM_KILLED, Cluster, pod

DRIVER, EXECUTOR, GONE = "movies-driver-0", "movies-executor-0", "movies-executor-1"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A driver that was restarted, an executor, another that is away; pods of other releases."""
    pods = [
        pod(DRIVER, "driver", 2, lastState={"terminated": OOM_KILLED}),
        pod(EXECUTOR, "executor"),
        pod("others-driver-0", "driver"),
    ]
    made = Cluster(
        {one["metadata"]["name"]: one for one in pods},
        {"movies-driver": 1, "movies-executor": 2, "others-driver": 1},
        {DRIVER: "one\ntwo\n", f"previous/{DRIVER}": "java.lang.OutOfMemoryError\n"},
    )
    with in_a_pod(made, tmp_path, monkeypatch):
        yield made


def _told(name: str = DRIVER) -> dict[str, Any]:
    return {one["name"]: dict(one) for one in PodsOfRelease("movies").all()}[name]


def test_every_pod_that_shall_be_there_is_told(cluster: Cluster) -> None:
    told = [(one["name"], one["component"]) for one in PodsOfRelease("movies").all()]
    assert told == [(DRIVER, "driver"), (EXECUTOR, "executor"), (GONE, "executor")]
    assert not [path for path in cluster.asked if "labelSelector" in path or path.endswith("pods")]


def test_a_pod_says_how_often_and_why_it_was_restarted(cluster: Cluster) -> None:
    told = _told()
    assert (told["state"], told["ready"], told["restarts"]) == ("Running", True, 2)
    assert told["ended"] == {
        "reason": "OOMKilled", "exit_code": 137, "ms": 1_795_896_005_000, "why": "",
    }  # fmt: skip
    assert (told["created_ms"], told["node"]) == (1_795_892_400_000, "worker-1")
    assert _told(EXECUTOR)["ended"] is None, "the sidecar's restarts are not the executor's"
    assert _told(EXECUTOR)["restarts"] == 0
    assert _told(GONE)["state"] == "missing"


def test_a_pod_that_refuses_to_go_on_says_why(cluster: Cluster) -> None:
    message = "some line\nError: the statement does not fit\nWhat to do: take it back\n"
    ended = {"reason": "Error", "exitCode": 2, "finishedAt": "2026-11-28T20:00:05Z"}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}}
    cluster.pods[DRIVER] = pod(
        DRIVER, "driver", 3, ready=False, state=waits,
        lastState={"terminated": ended | {"message": message}},
    )  # fmt: skip
    told = _told()
    assert (told["state"], told["why"]) == ("CrashLoopBackOff", "back-off 40s restarting")
    assert told["ended"]["why"] == "the statement does not fit\nWhat to do: take it back"


def test_what_keeps_a_pod_from_its_node_is_told(cluster: Cluster) -> None:
    why = "0/3 nodes are available: 3 Insufficient memory."
    cluster.pods[DRIVER]["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": why}],
    }
    told = _told()
    assert (told["state"], told["why"], told["restarts"]) == ("Pending", why, 0)
    assert told["ended"] is None


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"status": {"phase": "Failed", "reason": "Evicted", "message": "low on disk"}}, "Evicted"),
        ({"metadata": {"name": DRIVER, "deletionTimestamp": "2026-11-28T20:00:00Z"}},
         "Terminating"),
        ({"status": {"phase": "Pending", "initContainerStatuses": [
            {"name": "wait", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"name": "more", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}},
         "ImagePullBackOff"),
    ],
    ids=["evicted", "ending", "init"],
)  # fmt: skip
def test_states_have_kubectl_s_words(cluster: Cluster, change: dict[str, Any], state: str) -> None:
    cluster.pods[DRIVER] |= change
    assert _told()["state"] == state


def test_a_log_is_the_container_s_own_and_ends_where_it_ends(cluster: Cluster) -> None:
    pods = PodsOfRelease("movies")
    assert pods.log(DRIVER, 1000, previous=False) == "one\ntwo\n"
    assert pods.log(DRIVER, 5, previous=False) == "two\n"
    assert pods.log(DRIVER, 1000, previous=True) == "java.lang.OutOfMemoryError\n"


@pytest.mark.parametrize("width", [90, 4_000, 40_000, 400_000, 3_000_000])
def test_the_end_of_a_large_log_is_told_whatever_its_lines_are(
    cluster: Cluster, width: int
) -> None:
    count = 12_000_000 // width
    lines = [f"{n:08} {'x' * (width - 10)}\n" for n in range(count)]
    cluster.logs[DRIVER] = "".join(lines) + "the end\n"
    told = PodsOfRelease("movies").log(DRIVER, 64 << 10, previous=False)
    assert len(told) <= 64 << 10
    if width < 400_000:  # of five lines that are longer than the limit the end is not sent
        assert told.endswith("the end\n")
    if width < 40_000:
        assert told.splitlines()[0] in {line.rstrip("\n") for line in [*lines, "the end\n"]}


def test_bytes_that_are_no_text_stop_nothing(cluster: Cluster) -> None:
    cluster.logs[DRIVER] = "\x00ééé\n"
    assert PodsOfRelease("movies").log(DRIVER, 4, previous=False) == "\ufffdé\n"


@pytest.mark.parametrize(
    "name",
    ["others-driver-0", "movies-driver-0/log", "../secrets/movies-spark", "movies-driver-0?x=1",
     "movies-driver-0%2flog", "movies-preflight-0", "movies-driver-", "", "movies-driver-٣",
     "movies-driver-0\n"],
)  # fmt: skip
def test_nothing_but_pods_of_the_release_is_asked_for(cluster: Cluster, name: str) -> None:
    with pytest.raises(Refused, match="is no pod of movies"):
        PodsOfRelease("movies").log(name, 100, previous=False)
    assert cluster.asked == []


def test_a_pod_that_is_away_and_a_log_that_is_not_kept_are_told(cluster: Cluster) -> None:
    pods = PodsOfRelease("movies")
    with pytest.raises(Refused, match="no such pod at the moment"):
        pods.log(GONE, 100, previous=False)
    with pytest.raises(HoldfastError, match=f'in pod "{EXECUTOR}" not found'):
        pods.log(EXECUTOR, 100, previous=True)


def test_without_the_role_it_says_what_is_missing_and_how_to_turn_it_on(cluster: Cluster) -> None:
    cluster.rules = ()
    with pytest.raises(Refused, match=r'cannot get resource "statefulsets"') as refused:
        PodsOfRelease("movies").all()
    assert "serve.console.pods=true" in refused.value.action
    with pytest.raises(Refused, match=r'cannot get resource "pods/log"'):
        PodsOfRelease("movies").log(DRIVER, 100, previous=False)


def test_a_pod_that_the_role_does_not_name_hides_no_other(cluster: Cluster) -> None:
    cluster.rules = [
        {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": [DRIVER], "verbs": ["get"]},
    ]
    assert _told()["state"] == "Running"
    assert (_told(EXECUTOR)["state"], "is forbidden" in _told(EXECUTOR)["refused"]) == (
        "unknown", True,
    )  # fmt: skip


def test_an_api_that_does_not_answer_is_no_empty_release(cluster: Cluster) -> None:
    cluster.silent = True
    with pytest.raises(Retriable, match="etcd leader changed"):
        PodsOfRelease("movies").all()


def test_without_an_account_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for ask in (PodsOfRelease("movies").all,
                lambda: PodsOfRelease("movies").log(DRIVER, 100, previous=False)):  # fmt: skip
        with pytest.raises(Refused, match="no account of the cluster") as refused:
            ask()
        assert "serve.console.pods=true" in refused.value.action
