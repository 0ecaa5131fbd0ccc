"""An image that cannot be pulled ends a deployment soon, with the kubelet's reason."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast.deploy.kubernetes import in_pod, target
from holdfast.deploy.kubernetes.in_pod import not_pulled, pod_troubles, pods_of
from holdfast.deploy.kubernetes.target import KubernetesDeployment
from holdfast.errors import HoldfastError

BACK_OFF = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "holdfast:typo"'}
# Ends at once when it is interrupted, as helm does; else it would take as long as a time-out.
HELM = """#!/bin/sh
case "$1" in
  version) echo v3.19.0 ;;
  history) echo 'Error: release: not found' >&2; exit 1 ;;
  upgrade) trap 'kill $!; echo interrupted > "$(dirname "$0")/interrupted"; exit 1' TERM
           sleep 30 & wait ;;
esac
"""


def _pod(uid: str, waiting: dict[str, str], *, init: bool = False) -> dict[str, Any]:
    state = {"state": {"waiting": waiting}}
    status = {"initContainerStatuses": [state]} if init else {"containerStatuses": [state]}
    return {"metadata": {"name": f"pod-{uid}", "uid": uid}, "status": status}


class _Cluster:
    """The API's list of pods."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = list(pods)

    def ask(self, path: str, method: str = "GET") -> bytes | None:
        return orjson.dumps({"items": self.pods}) if "/pods?" in path else None


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> _Cluster:
    cluster = _Cluster()
    monkeypatch.setattr(in_pod, "ask", cluster.ask)
    return cluster


@pytest.mark.parametrize("init", [False, True])
def test_a_pod_tells_why_also_if_its_first_container_waits(cluster: _Cluster, init: bool) -> None:
    cluster.pods = [
        _pod("a", BACK_OFF, init=init),
        _pod("b", {"reason": "PodInitializing"}, init=init),
        _pod("c", {"reason": "CrashLoopBackOff"}, init=init),
    ]
    pods = pods_of("here", "movies")
    assert not_pulled(pods) == {"a": f"pod-a: {BACK_OFF['message']}"}
    assert pod_troubles("here", pods) == [
        f"pod-a waits: ImagePullBackOff {BACK_OFF['message']}",
        "pod-c waits: CrashLoopBackOff",
    ]


def _deploy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helm = tmp_path / "helm"
    helm.write_text(HELM)
    helm.chmod(0o755)
    (tmp_path / "Chart.yaml").touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(target, "_PULL_S", 1.0)
    KubernetesDeployment("here", "movies").deploy({}, [], tmp_path, 60.0, lambda _: None)


def test_the_deployment_ends_and_says_why(
    cluster: _Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.pods = [_pod("old", BACK_OFF)]
    looks = 0

    def ask(path: str, method: str = "GET") -> bytes | None:
        nonlocal looks
        looks += "/pods?" in path
        if looks == 2:
            cluster.pods.append(_pod("new", BACK_OFF, init=True))
        return cluster.ask(path)

    monkeypatch.setattr(in_pod, "ask", ask)
    began = time.monotonic()
    with pytest.raises(HoldfastError, match=r"cannot be pulled\. pod-new: Back-off"):
        _deploy(tmp_path, monkeypatch)
    assert time.monotonic() - began < 25, "it has waited for helm"
    assert (tmp_path / "interrupted").exists(), "helm was left to itself"


def test_pods_that_were_there_before_may_be_what_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [_pod("old", BACK_OFF)]
    monkeypatch.setattr(target, "_PULL_S", 0.0)
    target._Pulls(pods).look(pods)
