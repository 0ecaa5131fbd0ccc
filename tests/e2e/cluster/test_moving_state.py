"""State that moves under the cluster's own chaos: to standbys, and to other state partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.kube import IMAGE, run_dag, until
from tests.e2e.cluster.release import Release

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

JOB = Release("moving")


@pytest.fixture(scope="module")
def job(cli_pod: str) -> Iterator[Release]:
    JOB.clear()
    JOB.install({"standby.replicas": 1}, {"executor": {"volume": {"size": "1Gi"}}})
    JOB.produce(seed=1, count=2_000)
    yield JOB
    JOB.clear()


def _follow(job: Release) -> bool:
    found = job.partitions()
    return bool(found) and all([s["lag"] for s in p["standbys"]] == [0] for p in found)


def test_volumes_are_lost_and_queries_rescaled_under_fire(job: Release) -> None:
    until(lambda: _follow(job), 120, "every state partition has a standby that is level")
    asked = {
        "target": "kubernetes", "name": job.name, "image": IMAGE, "seed": 17, "rounds": 2,
        "components": ["standby", "query"], "faults": ["lose-volume", "rescale"],
        "moments": ["random"],
    }  # fmt: skip
    told = run_dag("chaos_exactly_once", asked, "--show", "verify")
    summary = told.split("report: success")[1]
    assert "verdict: valid" in summary, told
    for kind in ("standby lose-volume", "query rescale"):
        assert f"recovery from {kind}" in told
