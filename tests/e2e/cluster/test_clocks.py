"""Pods whose clocks differ by hours: `clock.c`, compiled here, is preloaded into processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster import table
from tests.e2e.cluster.kube import kubectl, long_test, until
from tests.e2e.cluster.table import Burst, Watch

pytestmark = [pytest.mark.cluster, long_test, pytest.mark.timeout(900)]

FIRST, SECOND = (f"{table.NAME}-executor-{number}" for number in (0, 1))
_LONG_S = 240.0
_HOUR_S = 3_600


@pytest.fixture(scope="module")
def library(deployed: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ConfigMap with the clock."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (cc)")
    made = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", made, source], check=True)
    name = f"{table.NAME}-clock"
    kubectl("create", "configmap", name, f"--from-file={made}")
    yield name
    kubectl("delete", "configmap", name)


@contextmanager
def _clock(library: str, component: str, ahead_s: int, first: int = 0) -> Iterator[None]:
    """A clock that is ahead, or behind, in a component's pods from number `first` on."""
    name = f"{table.NAME}-{component}"
    env = {"LD_PRELOAD": "/clock/clock.so", "CLOCK_AHEAD_S": str(ahead_s)}
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


@pytest.mark.parametrize("hours", [2, -2], ids=["ahead", "behind"])
def test_exact_while_the_pods_clocks_differ_by_hours(
    library: str, watch: Watch, times: dict[str, float], hours: int
) -> None:
    """Executors are lost meanwhile, so that state moves between clocks."""
    burst, moment = Burst(seed=61, count=45_000, rate=300), time.time()
    with (
        _clock(library, "executor", hours * _HOUR_S, first=1),
        # Not behind: the certificate of a new cluster's API would not be valid yet.
        _clock(library, "driver", _HOUR_S),
    ):
        ahead = {p: round(_ahead_s(p) / _HOUR_S, 1) for p in (table.DRIVER, FIRST, SECOND)}
        assert ahead == {table.DRIVER: 1, FIRST: 0, SECOND: hours}
        for lost in (FIRST, SECOND):
            now = time.time()
            kubectl("delete", "pod", lost)
            kubectl("wait", "--for=condition=Ready", f"pod/{lost}", "--timeout=120s")
            until(lambda now=now: watch.committed_since(now) > 500, _LONG_S, "it goes on")  # type: ignore[misc]
        times[f"clocks that differ, executor {hours:+d} h, longest time without a commit"] = (
            watch.silence(moment)
        )
    burst.finish()
    watch.until_level(_LONG_S)
    assert abs(_ahead_s(SECOND)) < 60
    table.exact(least=burst.count)
