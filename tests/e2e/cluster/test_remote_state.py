"""A job whose stores are in a Redis of the cluster: its executors have no volumes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster.kube import (
    CONTAINER_SECURITY,
    IMAGE,
    POD_SECURITY,
    kubectl,
    long_test,
    objects,
    run_dag,
    until,
)
from tests.e2e.cluster.release import PARTITIONS, Release

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

JOB = Release("remote")
REDIS = "e2e-redis"
PASSWORD = "canary-of-the-store"
ROUND = 3_000
_LABELS = {"app.kubernetes.io/name": REDIS}
_OBJECTS: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": REDIS},
        "stringData": {"password": PASSWORD},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": REDIS},
        "spec": {"selector": _LABELS, "ports": [{"port": 6379}]},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": REDIS, "labels": _LABELS},
        "spec": {
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "securityContext": POD_SECURITY,
            "containers": [
                {
                    "name": "redis",
                    "image": f"holdfast-redis:{IMAGE.partition(':')[2]}",
                    "args": ["--bind", "0.0.0.0", "--requirepass", "$(PASSWORD)"],
                    "env": [
                        {
                            "name": "PASSWORD",
                            "valueFrom": {"secretKeyRef": {"name": REDIS, "key": "password"}},
                        }
                    ],
                    "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
                    "securityContext": {**CONTAINER_SECURITY, "readOnlyRootFilesystem": True},
                }
            ],
        },
    },
]


@pytest.fixture(scope="module")
def redis(cli_pod: str) -> Iterator[str]:
    _forget()
    made = {"apiVersion": "v1", "kind": "List", "items": _OBJECTS}
    kubectl("apply", "-f", "-", text=json.dumps(made))
    kubectl("wait", "--for=condition=Ready", f"pod/{REDIS}", "--timeout=60s")
    yield f"redis://{REDIS}:6379/0"
    _forget()


def _forget() -> None:
    what = (f"pod/{REDIS}", f"service/{REDIS}", f"secret/{REDIS}")
    kubectl("delete", *what, "--ignore-not-found", "--grace-period=0", "--force")


@pytest.fixture(scope="module")
def job(redis: str) -> Iterator[Release]:
    JOB.clear()
    properties = {
        "state.backend": "remote",
        "state.remote.uri": redis,
        "state.cleanup.delay.ms": 1_000,
        "acceptable.recovery.lag": 10,
    }
    JOB.install(properties, {"remoteState": {"existingSecret": REDIS}})
    yield JOB
    JOB.clear()


def _stores() -> set[str]:
    asked = ("redis-cli", "--no-auth-warning", "-a", PASSWORD, "--scan", "--pattern", "*:rows")
    return set(kubectl("exec", REDIS, "--", *asked).split())


def _named(state: str, partitions: int) -> set[str]:
    return {f"holdfast:{{{JOB.name}/{state}/{p}}}:rows" for p in range(partitions)}


def _uids() -> set[str]:
    return {pod["metadata"]["uid"] for pod in objects("pods", "-l", JOB.executors)}


def test_it_counts_right_after_all_its_executors_are_gone(job: Release) -> None:
    job.produce(seed=1, count=ROUND)
    job.counted(ROUND)
    assert _stores() == _named(job.query, PARTITIONS)
    claims = [claim["metadata"]["name"] for claim in objects("pvc", "-l", job.pods)]
    assert not [name for name in claims if "executor" in name], "executors keep no volume"
    assert PASSWORD not in json.dumps([job.status(), objects("configmaps", "-l", job.pods)])
    before = _uids()
    assert len(before) == 2
    kubectl("delete", "pods", "-l", job.executors, "--grace-period=0", "--force")
    job.produce(seed=2, count=ROUND)
    job.counted(2 * ROUND)
    assert _uids().isdisjoint(before)


def test_it_is_rescaled_and_its_new_stores_are_warm(job: Release, times: dict[str, float]) -> None:
    job.produce(seed=3, count=ROUND)
    job.counted(3 * ROUND)
    job.rescale(2 * PARTITIONS)
    job.produce(seed=4, count=ROUND)
    job.counted(4 * ROUND)
    found = job.partitions()
    assert len(found) == 2 * PARTITIONS
    wanted = _named(f"{job.query}-g1", 2 * PARTITIONS)
    until(lambda: _stores() == wanted, 120, "the stores of the former generation are deleted")
    restored = sum(p["restore_records"] for p in found)
    assert restored <= len(found), "the commit markers, and no row"


@long_test
def test_its_stores_are_emptied_by_chaos_and_it_is_right(job: Release) -> None:
    """An executor's pod does it, and reads the stores for the verdict: nobody else may."""
    asked = {
        "target": "kubernetes", "name": job.name, "image": IMAGE, "seed": 17, "rounds": 2,
        "components": ["remote-store", "executor"], "faults": ["empty-stores", "delete-now"],
        "moments": ["random"],
    }  # fmt: skip
    told = run_dag("chaos_exactly_once", asked, "--show", "verify")
    summary = told.split("report: success")[1]
    assert "verdict: valid" in summary, told
    assert "recovery from remote-store empty-stores" in told
