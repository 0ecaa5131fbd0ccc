"""A job whose executor has a small volume, which is filled, grown, filled again, and emptied.

Volumes of kind's own storage class have no size that anything enforces; this one is a tmpfs of the
node, which is a container of this machine's docker.  These tests come last: they take the place of
the table that the others share.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster import table
from tests.e2e.cluster.conftest import clear
from tests.e2e.cluster.kube import (
    BOOTSTRAP,
    CONTEXT,
    IMAGE,
    ROOT,
    helm,
    kubectl,
    long_test,
    objects,
    until,
)
from tests.e2e.cluster.table import Burst, Watch

pytestmark = [pytest.mark.cluster, long_test, pytest.mark.timeout(1_200)]

NODE = f"{CONTEXT.removeprefix('kind-')}-control-plane"
FOLDER = "/var/local/holdfast-full"
CLASS = "holdfast-full"
EXECUTOR, DRIVER = f"{table.NAME}-executor-0", f"{table.NAME}-driver-0"
FILLER = "/var/lib/holdfast/state/filler"
SMALL, LARGE = "64m", "128m"
TIMEOUT_S = 90
_WAIT_S = 300.0


def _on_node(*command: str) -> subprocess.CompletedProcess[str]:
    full = ["docker", "exec", NODE, *command]
    return subprocess.run(full, capture_output=True, text=True, check=False)


def _volume() -> str:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": CLASS},
        "spec": {
            "capacity": {"storage": "64Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
            "local": {"path": FOLDER},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
    return json.dumps(volume)


def _take_away() -> None:
    kubectl("delete", "pv", CLASS, "--ignore-not-found")
    _on_node("sh", "-c", f"umount {FOLDER}; rmdir {FOLDER}")


@pytest.fixture(scope="module")
def small_volume(cli_pod: str) -> Iterator[str]:
    """The storage class of a volume of 64 MiB."""
    if shutil.which("docker") is None or _on_node("true").returncode:
        pytest.skip(f"there is no docker here with the node {NODE}")
    clear()
    _take_away()
    mount = f"mkdir -p {FOLDER} && mount -t tmpfs -o size={SMALL} tmpfs {FOLDER}"
    made = _on_node("sh", "-c", mount)
    assert made.returncode == 0, made.stderr
    kubectl("apply", "-f", "-", text=_volume())
    yield CLASS
    clear()
    _take_away()


@pytest.fixture(scope="module")
def release(small_volume: str) -> str:
    volume = {"size": "64Mi", "storageClass": small_volume, "accessMode": "ReadWriteOnce"}
    installed = helm(
        *("install", table.NAME, str(ROOT / "helm/holdfast"), "--wait", "--timeout", "5m"),
        values={
            "sql": table.SQL,
            "image": dict(zip(("repository", "tag"), IMAGE.split(":"), strict=True)),
            "kafka": {"bootstrapServers": BOOTSTRAP},
            "executor": {"replicas": 1, "volume": volume},
            "properties": {
                "state.partitions": table.PARTITIONS,
                "task.timeout.ms": TIMEOUT_S * 1000,
            },
        },
    )
    assert installed.returncode == 0, installed.stderr
    return table.NAME


@pytest.fixture
def seen(release: str) -> Iterator[Watch]:
    watching = Watch()
    until(lambda: bool(watching.seen), 60, "the driver answers")
    yield watching
    watching.stop()


def _fill() -> None:
    fill = f"dd if=/dev/zero of={FILLER} bs=64k 2>&1; dd if=/dev/zero of={FILLER}.2 bs=1k 2>&1"
    told = kubectl("exec", EXECUTOR, "--", "sh", "-c", fill, check=False)
    assert told.count("No space left on device") == 2, told


def _grow() -> float:
    """Expands the volume below a running pod, as storage classes do that can."""
    grown = _on_node("mount", "-o", f"remount,size={LARGE}", FOLDER)
    assert grown.returncode == 0, grown.stderr
    return time.time()


def _make_space() -> float:
    kubectl("exec", EXECUTOR, "--", "sh", "-c", f"rm {FILLER} {FILLER}.2")
    return time.time()


def _restarts(pod: str) -> int:
    (found,) = objects("pods", "--field-selector", f"metadata.name={pod}")
    statuses: list[dict[str, Any]] = found["status"]["containerStatuses"]
    return sum(int(status["restartCount"]) for status in statuses)


def _logged(since: float) -> str:
    return kubectl("logs", DRIVER, f"--since={time.time() - since + 1:.0f}s", check=False)


def test_a_batch_waits_for_a_larger_volume_and_goes_on(
    seen: Watch, times: dict[str, float]
) -> None:
    before = Burst(seed=41, count=4_000, rate=400)
    before.finish()
    seen.until_level(_WAIT_S)
    _fill()
    filled = time.time()
    more = Burst(seed=42, count=6_000, rate=200)
    until(lambda: "retrying after VolumeFull" in _logged(filled), 60, "the log tells")
    times["full volume, until the driver's log tells"] = time.time() - filled
    assert "The volume of the store at /var/lib/holdfast/state/0/" in _logged(filled)
    more.finish()
    grown = _grow()
    until(lambda: seen.committed_since(grown) > 0, _WAIT_S, "a commit")
    times["full volume, from its growth to the next commit"] = time.time() - grown
    seen.until_level(_WAIT_S)
    assert (_restarts(EXECUTOR), _restarts(DRIVER)) == (0, 0)
    report = table.verdict()
    assert report["verdict"] == "valid", report
    judged = {t["name"]: t["input_records"] for t in report["tables"]}
    assert all(count == before.count + more.count for count in judged.values()), judged


def test_a_driver_that_has_waited_too_long_starts_again_and_loses_nothing(
    seen: Watch, times: dict[str, float]
) -> None:
    _fill()
    filled = time.time()
    more = Burst(seed=43, count=6_000, rate=200)
    until(lambda: any("is full" in _why(s.status) for s in seen.seen[-20:]), 150, "status tells")
    times["full volume, until the job is not ready and says why"] = time.time() - filled
    until(lambda: _restarts(DRIVER) > 0, TIMEOUT_S + 120, "the driver starts again")
    times["full volume, until the driver starts again"] = time.time() - filled
    more.finish()
    freed = _make_space()
    until(lambda: seen.committed_since(freed) > 0, _WAIT_S, "a commit")
    times["full volume, from space again to the next commit of a driver that started again"] = (
        time.time() - freed
    )
    seen.until_level(_WAIT_S)
    assert _restarts(EXECUTOR) == 0
    report = table.verdict()
    assert report["verdict"] == "valid", report


def _why(status: dict[str, Any]) -> str:
    return "" if status["ready"] else str(status["reason"])
