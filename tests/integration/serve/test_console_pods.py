"""The console's page of a job on Kubernetes in a real browser; the API answers over TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.deploy.kubernetes.release_pods import PodsOfRelease
from holdfast.local.probe import free_port
from holdfast.serve.console.app import Console
from holdfast.serve.console.jobs import Beside
from tests.support.browser import Chromium, Page
from tests.support.console.world import JOB, World
from tests.support.serve.http_world import served
from tests.support.servers.kubernetes_api import in_a_pod
from tests.support.servers.release_cluster import OOM_KILLED, Cluster, pod

DRIVER, EXECUTOR = f"{JOB}-driver-0", f"{JOB}-executor-0"


def _cluster() -> Cluster:
    refused = {"reason": "Error", "exitCode": 2, "finishedAt": "2026-11-28T20:00:05Z"}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}}
    pods = [
        pod(DRIVER, "driver", 2, lastState={"terminated": OOM_KILLED}),
        pod(EXECUTOR, "executor", 4, ready=False, state=waits,
            lastState={"terminated": refused | {"message": "Error: no space left"}}),
    ]  # fmt: skip
    logs = {
        DRIVER: "INFO all is well\nERROR <b>nothing</b> is\n",
        f"previous/{DRIVER}": "java.lang.OutOfMemoryError\n",
    }
    sets = {f"{JOB}-driver": 1, f"{JOB}-executor": 2}
    return Cluster({one["metadata"]["name"]: one for one in pods}, sets, logs)


def _says(page: Page, text: str) -> None:
    page.wait(f"document.querySelector('main').innerText.includes({text!r})", f"says {text!r}")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_pods_their_ends_and_their_logs(
    chromium: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    world, cluster = World(), _cluster()
    beside = Beside([f"http://127.0.0.1:{free_port()}"], pods=PodsOfRelease(JOB))
    mounts = {"/console": Console(world.serving(tmp_path), beside)}
    with (
        in_a_pod(cluster, tmp_path, monkeypatch),
        served(tmp_path, mounts=mounts, world=world) as server,
        chromium.page(width=size[0], height=size[1]) as page,
    ):
        page.open(f"{server.url}/console/#/jobs")
        page.wait("document.getElementById('health').innerText === 'driver does not answer'")
        for text in ("OOMKilled", "with status 137", "CrashLoopBackOff", "no space left",
                     "there is none", f"{JOB}-executor-1"):  # fmt: skip
            _says(page, text)
        wide = "document.documentElement.scrollWidth"
        assert page.run(wide) <= size[0], "nothing is wider than the screen"
        page.click(f'a[aria-label="Log of {DRIVER}"]')
        _says(page, "ERROR <b>nothing</b> is")
        assert page.count(".log .invalid") == 1
        page.open(f"{server.url}/console/#/jobs")
        page.wait(f"document.querySelector('a[aria-label=\"before restart of {DRIVER}\"]')")
        page.click(f'a[aria-label="before restart of {DRIVER}"]')
        _says(page, "OutOfMemoryError")
        cluster.rules = ()
        page.open(f"{server.url}/console/#/jobs")
        _says(page, "Pods and their logs are not shown")
        _says(page, "serve.console.pods=true")
        assert page.troubles == []
