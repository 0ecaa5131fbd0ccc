"""An autoscaler grows and shrinks a job by its lag: a real KEDA, or Kubernetes' own (HPA).

KEDA_MANIFESTS says where KEDA's objects are: a file, or a folder with a kustomization; the images
that they name must be on the nodes.  LONG_TESTS=1 tries the HPA; `external_metrics` has its metric.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import external_metrics, table
from tests.e2e.cluster.kube import IMAGE, NAMESPACE, kubectl, try_kubectl, until
from tests.e2e.cluster.table import Burst, Watch, upgrade

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(2_400)]

MANIFESTS = os.environ.get("KEDA_MANIFESTS", "")
LOAD_S = float(os.environ.get("KEDA_LOAD_SECONDS", "60"))
EXECUTORS = f"statefulset/{table.NAME}-executor"
RATE = 300
_WAIT_S = 300.0
_ON = (
    "executor.autoscaling.maxReplicas=4",
    "executor.autoscaling.lagPerExecutor=300",
    "executor.autoscaling.pollingSeconds=5",
    "executor.autoscaling.scaleDownAfterSeconds=30",
)


@pytest.fixture(scope="module", params=["keda", "hpa"])
def autoscaler(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of autoscaler, once all that it needs is in the cluster."""
    kind: str = request.param
    with _keda() if kind == "keda" else _hpa():
        yield kind


@contextlib.contextmanager
def _hpa() -> Iterator[None]:
    if not os.environ.get("LONG_TESTS"):
        pytest.skip("it takes minutes; LONG_TESTS=1 runs it")
    with external_metrics.served(NAMESPACE, IMAGE):
        yield


@contextlib.contextmanager
def _keda() -> Iterator[None]:
    """KEDA in its namespace `keda`, removed at the end with its kinds of objects."""
    if not MANIFESTS:
        pytest.skip("KEDA_MANIFESTS does not say where KEDA's manifests are")
    what = ("-k" if Path(MANIFESTS).is_dir() else "-f", MANIFESTS)
    made = try_kubectl("apply", "--server-side", *what, everywhere=True)
    assert made.returncode == 0, made.stderr
    try:
        for each in ("keda-operator", "keda-metrics-apiserver"):
            kubectl("-n", "keda", "rollout", "status", f"deployment/{each}", "--timeout=180s")
        metrics = "apiservice/v1beta1.external.metrics.k8s.io"
        kubectl("wait", "--for=condition=Available", metrics, "--timeout=120s")
        yield
    finally:  # KEDA itself takes its finalizers away
        try_kubectl("delete", "scaledobjects", "--all", "--timeout=60s")
        try_kubectl("delete", "--ignore-not-found", "--wait=false", *what, everywhere=True)


def _replicas() -> int:
    return int(kubectl("get", EXECUTORS, "-o", "jsonpath={.spec.replicas}"))


def _owners(watch: Watch) -> set[str]:
    """Volumes that own state partitions of the table."""
    queries = watch.seen[-1].status["queries"].values()
    return {p["volume"] for q in queries if q["changelog"] for p in q["state_partitions"]}


def test_ten_times_the_load_is_absorbed_unattended(
    autoscaler: str, watch: Watch, times: dict[str, float]
) -> None:
    """From the fewest executors to more and back; exact, and level without a hand."""
    upgrade(f"executor.autoscaling.kind={autoscaler}", *_ON)
    usual = Burst(seed=31, count=RATE * 20, rate=RATE)
    usual.finish()
    watch.until_level(_WAIT_S)  # after the upgrade's own lag, which was seen
    until(lambda: _replicas() == 2, 2 * _WAIT_S, "as many as executor.replicas")

    moment = time.time()
    more = Burst(seed=32, count=int(10 * RATE * LOAD_S), rate=10 * RATE)
    until(lambda: _replicas() > 2, LOAD_S + _WAIT_S, "more executors")
    what = f"{autoscaler}, 10 × load"
    times[f"{what} → more executors are asked for"] = time.time() - moment
    until(lambda: _owners(watch) > {"0", "1"}, LOAD_S + _WAIT_S, "the new ones own state")
    times[f"{what} → a new executor owns state"] = time.time() - moment
    more.finish(LOAD_S + _WAIT_S)
    ended = time.time()
    watch.until_level(_WAIT_S)
    times[f"{what}, from its end until level"] = time.time() - ended
    times[f"{what}, longest time without a commit"] = watch.silence(moment)

    until(lambda: _replicas() == 2, 2 * _WAIT_S, "the fewest executors again")
    Burst(seed=33, count=200, rate=100).finish()  # the status tells of owners at batches
    until(lambda: _owners(watch) == {"0", "1"}, _WAIT_S, "the others own all state")
    times[f"{what}, from its end to the fewest executors again"] = time.time() - ended
    upgrade("executor.autoscaling.kind=none")
    watch.until_level(_WAIT_S)
    report = table.verdict()
    assert report["verdict"] == "valid", report
    judged = {t["name"]: t["input_records"] for t in report["tables"]}
    assert all(count >= more.count + usual.count for count in judged.values()), judged
