"""Pods whose clocks differ by hours: LIBFAKETIME is the library that makes them so.

Debian's package `libfaketime` has it: /usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.cluster import table
from tests.e2e.cluster.kube import kubectl, until
from tests.e2e.cluster.table import Burst, Watch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

LIBRARY = os.environ.get("LIBFAKETIME", "")
DRIVER, FIRST, SECOND = (f"{table.NAME}-{pod}" for pod in ("driver-0", "executor-0", "executor-1"))
_LONG_S = 240.0
_HOUR_S = 3_600


@pytest.fixture(scope="module")
def library(deployed: str) -> Iterator[str]:
    """A ConfigMap with the library."""
    if not LIBRARY:
        pytest.skip("LIBFAKETIME does not say where libfaketime is")
    name = f"{table.NAME}-clock"
    kubectl("create", "configmap", name, f"--from-file=libfaketime.so={LIBRARY}")
    yield name
    kubectl("delete", "configmap", name)


@contextmanager
def _clock(library: str, component: str, offset_s: int, first: int = 0) -> Iterator[None]:
    """A clock that is ahead in a component's pods from number `first` on."""
    name = f"{table.NAME}-{component}"
    env = {
        "LD_PRELOAD": "/clock/libfaketime.so",
        "FAKETIME": f"{offset_s:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    container = {
        "name": component,
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "volumeMounts": [{"name": "clock", "mountPath": "/clock"}],
    }
    volume = {"name": "clock", "configMap": {"name": library}}
    _patch(name, {"template": {"spec": {"containers": [container], "volumes": [volume]}}}, first)
    try:
        yield
    finally:
        kubectl("rollout", "undo", f"statefulset/{name}")
        _patch(name, {}, 0)


def _patch(name: str, spec: dict[str, object], first: int) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": first}}
    patch = {"spec": {"updateStrategy": strategy, **spec}}
    kubectl("patch", "statefulset", name, "-p", json.dumps(patch))
    kubectl("rollout", "status", f"statefulset/{name}", "--timeout=180s")


def _ahead_s(pod: str) -> float:
    """By how much a pod's clock is ahead of ours."""
    return float(kubectl("exec", pod, "--", "python", "-c", "import time; print(time.time())")) - (
        time.time()
    )


def test_exact_while_the_pods_clocks_differ_by_hours(
    library: str, watch: Watch, times: dict[str, float]
) -> None:
    """Executors are lost meanwhile, so that state moves between clocks."""
    burst, moment = Burst(seed=61, count=45_000, rate=300), time.time()
    with (
        _clock(library, "executor", 2 * _HOUR_S, first=1),
        _clock(library, "driver", -_HOUR_S),
    ):
        ahead = {pod: round(_ahead_s(pod) / _HOUR_S, 1) for pod in (DRIVER, FIRST, SECOND)}
        assert ahead == {DRIVER: -1, FIRST: 0, SECOND: 2}
        for lost in (FIRST, SECOND):
            now = time.time()
            kubectl("delete", "pod", lost)
            kubectl("wait", "--for=condition=Ready", f"pod/{lost}", "--timeout=120s")
            until(lambda now=now: watch.committed_since(now) > 500, _LONG_S, "it goes on")  # type: ignore[misc]
        times["clocks that differ by hours, longest time without a commit"] = watch.silence(moment)
    burst.finish()
    watch.until_level(_LONG_S)
    assert abs(_ahead_s(SECOND)) < 60
    report = table.verdict()
    assert report["verdict"] == "valid", report
    assert all(each["input_records"] >= burst.count for each in report["tables"])
