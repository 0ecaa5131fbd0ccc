"""One table through all that happens to it on Kubernetes, judged exact after each of them.

The tests share the table and run in the order they stand in: each leaves it running and level.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.cluster import table
from tests.e2e.cluster.conftest import deploy_by_dag
from tests.e2e.cluster.kube import (
    ROOT,
    helm,
    kubectl,
    long_test,
    objects,
    run_dag,
    uid,
    until,
)
from tests.e2e.cluster.table import DRIVER, Burst, Watch, upgrade

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

EXECUTOR = f"{table.NAME}-executor-1"
CHART = str(ROOT / "helm/holdfast")
LONG_S = 240.0
_KILL_DRIVER = (
    "import os, psutil\n"
    "pids = [p.pid for p in psutil.process_iter(['cmdline']) if 'run' in (p.info['cmdline'] or [])"
    " and 'holdfast.cli.main' in p.info['cmdline']]\n"
    "[os.kill(pid, 9) for pid in pids]\n"
)


def _delete(pod: str, *how: str, namespace: str = "holdfast") -> Callable[[], None]:
    def fault() -> None:
        old = kubectl("-n", namespace, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
        kubectl("-n", namespace, "delete", "pod", pod, "--wait=false", *how)
        new = ["-n", namespace, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}"]
        until(lambda: kubectl(*new, check=False) not in ("", old), LONG_S, f"a new {pod}")

    return fault


def _restarts(pod: str) -> int:
    path = "jsonpath={.status.containerStatuses[0].restartCount}"
    return int(kubectl("get", "pod", pod, "-o", path) or 0)


def _kill_executor() -> None:
    before = kubectl("exec", EXECUTOR, "--", "cat", "/tmp/executor.pid")
    kubectl("exec", EXECUTOR, "--", "bash", "-c", "kill -9 $(cat /tmp/executor.pid)")
    now = ["exec", EXECUTOR, "--", "cat", "/tmp/executor.pid"]
    until(lambda: kubectl(*now, check=False) not in ("", before), LONG_S, "another Java")


def _kill_driver() -> None:
    before = _restarts(DRIVER)
    kubectl("exec", DRIVER, "--", "python", "-c", _KILL_DRIVER, check=False)
    until(lambda: _restarts(DRIVER) > before, LONG_S, "the driver's container starts again")


FORCE = ("--grace-period=0", "--force")
FAULTS: dict[str, Callable[[], None]] = {
    "executor pod deleted": _delete(EXECUTOR),
    "executor pod deleted by force": _delete(EXECUTOR, *FORCE),
    "executor's Java killed": _kill_executor,
    "driver pod deleted": _delete(DRIVER),
    "driver pod deleted by force": _delete(DRIVER, *FORCE),
    "driver's process killed": _kill_driver,
    "Kafka pod deleted by force": _delete("kafka-0", *FORCE, namespace="holdfast-platform"),
}


def test_the_dag_deploys_a_table_that_counts(deployed: str, watch: Watch) -> None:
    burst = Burst(seed=1, count=2_000, rate=1_000)
    burst.finish()
    watch.until_level(LONG_S)
    table.exact(least=2_000)


@pytest.mark.parametrize("fault", FAULTS)
def test_exact_after(fault: str, watch: Watch, times: dict[str, float]) -> None:
    """Records flow before, during and after the fault; the table equals its recomputation."""
    burst = Burst(seed=len(fault), count=6_000, rate=300)
    start = time.time()
    until(lambda: watch.committed_since(start) > 500, LONG_S, "the load is being processed")
    moment = time.time()
    FAULTS[fault]()
    burst.finish()
    watch.until_level(LONG_S)
    assert watch.committed_since(moment) > 0, "nothing was processed after the fault"
    times[f"{fault} → next committed batch"] = watch.silence(moment)
    table.exact(least=burst.count)


def test_a_compatible_upgrade_rolls_and_rolls_back(watch: Watch, times: dict[str, float]) -> None:
    burst = Burst(seed=21, count=9_000, rate=300)
    before, moment = uid(DRIVER), time.time()
    change = ("--reuse-values", "--set", r"properties.trigger\.interval\.ms=200")
    upgraded = helm("upgrade", table.NAME, CHART, *change, "--wait", "--timeout", "4m")
    assert upgraded.returncode == 0, upgraded.stderr
    rolled = uid(DRIVER)
    assert rolled != before
    back = helm("rollback", table.NAME, "--wait", "--timeout", "4m")
    assert back.returncode == 0, back.stderr
    assert uid(DRIVER) not in (before, rolled)
    burst.finish()
    watch.until_level(LONG_S)
    times["a property changed and changed back, longest time without a commit"] = watch.silence(
        moment
    )
    table.exact(least=burst.count)


def test_all_pods_roll_under_load(watch: Watch, times: dict[str, float]) -> None:
    """As for a new image: the driver and every executor start anew."""
    pods = (DRIVER, f"{table.NAME}-executor-0", EXECUTOR)
    burst = Burst(seed=28, count=18_000, rate=300)
    before, moment = [uid(pod) for pod in pods], time.time()
    upgrade("driver.podAnnotations.rolled=once", "executor.podAnnotations.rolled=once")
    assert not {*before} & {uid(pod) for pod in pods}
    burst.finish()
    watch.until_level(LONG_S)
    times["all pods rolled, longest time without a commit"] = watch.silence(moment)
    table.exact(least=burst.count)


def _at_rest(watch: Watch, volumes: set[str], standbys: int) -> bool:
    """Whether these volumes own the table, and every state partition has level standbys."""
    seen = watch.seen[-1].status
    (sold,) = (q for q in seen["queries"].values() if q["changelog"])
    partitions = sold["state_partitions"]
    return {p["volume"] for p in partitions} == volumes and all(
        [s["lag"] for s in p["standbys"]] == [0] * standbys for p in partitions
    )


@long_test
def test_executors_come_and_go_with_their_state(watch: Watch, times: dict[str, float]) -> None:
    """From 2 to 4 and back, under load: state partitions move to warm copies only."""
    burst = Burst(seed=26, count=45_000, rate=300)
    moment = time.time()
    upgrade("executor.replicas=4", r"properties.standby\.replicas=1")
    until(lambda: _at_rest(watch, {"0", "1", "2", "3"}, 1), LONG_S, "four owners with standbys")
    times["executors 2 → 4, until all own state"] = time.time() - moment
    moment = time.time()
    upgrade(r"properties.executors\.keep=2")
    until(lambda: _at_rest(watch, {"0", "1"}, 1), LONG_S, "two owners with standbys")
    times["executors drained"] = time.time() - moment
    upgrade("executor.replicas=2", r"properties.executors\.keep=0")
    burst.finish()
    watch.until_level(LONG_S)
    until(lambda: _at_rest(watch, {"0", "1"}, 1), LONG_S, "the same after the others went")
    upgrade(r"properties.standby\.replicas=0")
    watch.until_level(LONG_S)
    table.exact(least=burst.count)


def test_executors_are_scaled_by_hand_and_the_driver_goes_on(
    watch: Watch, times: dict[str, float]
) -> None:
    """From 2 to 3 and back, under load, as an autoscaler does it."""
    burst = Burst(seed=27, count=18_000, rate=300)
    driver, moment = (uid(DRIVER), _restarts(DRIVER)), time.time()
    executors = f"statefulset/{table.NAME}-executor"
    kubectl("scale", executors, "--replicas=3")
    until(lambda: _at_rest(watch, {"0", "1", "2"}, 0), LONG_S, "three owners")
    times["executors 2 → 3 by kubectl scale, until all own state"] = time.time() - moment
    times["executors 2 → 3, longest time without a commit"] = watch.silence(moment)
    moment = time.time()
    kubectl("scale", executors, "--replicas=2")
    until(lambda: _at_rest(watch, {"0", "1"}, 0), LONG_S, "two owners")
    burst.finish()
    watch.until_level(LONG_S)
    times["executors 3 → 2, longest time without a commit"] = watch.silence(moment)
    assert (uid(DRIVER), _restarts(DRIVER)) == driver
    table.exact(least=burst.count)


def test_an_incompatible_upgrade_is_refused_before_anything_is_touched(
    watch: Watch, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.sql"
    changed.write_text(table.SQL.replace("SUM(amount)", "MAX(amount)"), encoding="utf-8")
    before = {p["metadata"]["uid"] for p in objects("pods", "-l", _MINE)}
    config = kubectl("get", "configmap", table.NAME, "-o", "jsonpath={.data}")
    refused = helm(
        *("upgrade", table.NAME, CHART, "--reuse-values", "--wait", "--timeout", "3m"),
        *("--set-file", f"sql={changed}"),
    )
    assert refused.returncode != 0
    assert "another statement" in refused.stdout + refused.stderr
    assert kubectl("get", "configmap", table.NAME, "-o", "jsonpath={.data}") == config
    assert before <= {p["metadata"]["uid"] for p in objects("pods", "-l", _MINE)}
    start = time.time()
    Burst(seed=22, count=1_000, rate=1_000).finish()
    watch.until_level(LONG_S)
    assert watch.committed_since(start) == 1_000
    # The corrected statement goes through, and takes the refused Job away.
    changed.write_text(table.SQL, encoding="utf-8")
    mended = helm(
        *("upgrade", table.NAME, CHART, "--reuse-values", "--wait", "--timeout", "3m"),
        *("--set-file", f"sql={changed}"),
    )
    assert mended.returncode == 0, mended.stderr
    assert not objects("jobs", "-l", _MINE)


def test_exact_after_a_node_is_drained(watch: Watch, times: dict[str, float]) -> None:
    pods = {p["spec"]["nodeName"] for p in objects("pods", "-l", _MINE)}
    nodes = {n["metadata"]["name"] for n in objects("nodes")}
    if len(nodes) < 2:
        pytest.skip("one node: make cluster KIND_CONFIG=k8s/kind/two-nodes.yaml has two")
    node = min(pods)
    burst = Burst(seed=23, count=9_000, rate=300)
    moment = time.time()
    try:
        drain = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=180s")
        kubectl("drain", node, "--pod-selector", _MINE, *drain)
    finally:
        kubectl("uncordon", node)
    burst.finish()
    watch.until_level(LONG_S)
    assert watch.committed_since(moment) > 0
    times["a node drained, longest time without a commit"] = watch.silence(moment)
    table.exact(least=burst.count)


def test_helm_test_passes(deployed: str) -> None:
    ran = helm("test", table.NAME, "--timeout", "5m")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_undeploying_leaves_the_volumes_and_nothing_else(
    deployed: str, watch: Watch, times: dict[str, float]
) -> None:
    kinds = "all,configmap,secret,serviceaccount,role,rolebinding,pdb,networkpolicy,job,pvc"

    def left(kinds: str = kinds) -> set[str]:
        lines = kubectl("get", kinds, "-l", _MINE, "-o", "name").splitlines()
        return {line for line in lines if line}

    volumes = left("pvc")  # with those of query servers, where a test before this one had any
    assert volumes >= {
        f"persistentvolumeclaim/{name}"
        for name in (f"home-{DRIVER}", f"state-{table.NAME}-executor-0", f"state-{EXECUTOR}")
    }
    run_dag("undeploy_state_table", {"target": "kubernetes", "name": table.NAME})
    until(lambda: left() == volumes, 60, f"only {volumes} left, not {left()}")
    assert f"sh.helm.release.v1.{table.NAME}" not in kubectl("get", "secret", "-o", "name")
    Burst(seed=24, count=500, rate=500).finish()
    times["deploy DAG on kept volumes"] = deploy_by_dag({})
    watch.until_level(LONG_S)
    table.exact(least=500)


_MINE = f"app.kubernetes.io/instance={table.NAME}"
