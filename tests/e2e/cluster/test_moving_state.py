"""State that moves under the cluster's own chaos: standbys, other state partitions, snapshots."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.kube import IMAGE, long_test, run_dag, until
from tests.e2e.cluster.release import Release
from tests.e2e.cluster.s3_pod import PORT, environment, s3_pod

pytestmark = [pytest.mark.cluster, long_test, pytest.mark.timeout(600)]

JOB = Release("moving")
_BEFORE_S = 120.0


@pytest.fixture(scope="module")
def job(cli_pod: str) -> Iterator[Release]:
    """A job with standbys and with snapshots in an S3 that only its pods reach."""
    assert cli_pod
    JOB.clear()
    with s3_pod() as uri:
        JOB.install(
            {"standby.replicas": 1, "snapshot.uri": uri, "snapshot.interval.ms": 2_000},
            {
                "driver": {"env": environment()},
                "executor": {"env": environment(), "volume": {"size": "1Gi"}},
                "networkPolicy": {"snapshotPorts": [PORT]},
            },
        )
        JOB.produce(seed=1, count=2_000)
        yield JOB
        JOB.clear()


def _follow(job: Release) -> bool:
    found = job.partitions()
    return bool(found) and all([s["lag"] for s in p["standbys"]] == [0] for p in found)


def _broken(job: Release, *kinds: tuple[str, str]) -> None:
    """Breaks it once by each component and fault, and judges it."""
    asked = {
        "target": "kubernetes", "name": job.name, "image": IMAGE, "seed": 17,
        "rounds": len(kinds), "components": [component for component, _ in kinds],
        "faults": [fault for _, fault in kinds], "moments": ["random"],
    }  # fmt: skip
    told = run_dag("chaos_exactly_once", asked, "--show", "verify")
    assert "verdict: valid" in told.split("report: success")[1], told
    for kind in map(" ".join, kinds):
        assert f"recovery from {kind}" in told, told


def test_a_volume_is_lost_and_the_query_rescaled_under_fire(job: Release) -> None:
    until(lambda: _follow(job), _BEFORE_S, "every state partition has a standby that is level")
    _broken(job, ("standby", "lose-volume"), ("query", "rescale"))


def test_snapshots_are_damaged_and_a_volume_is_lost(job: Release) -> None:
    """An executor's pod damages them: nothing else has the key."""
    _broken(job, ("snapshot-store", "damage-snapshot"))
