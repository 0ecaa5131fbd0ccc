"""A second release, installed while the first one's load takes all of the node's processors."""

from __future__ import annotations

import time

import pytest

from tests.e2e.cluster import table
from tests.e2e.cluster.kube import long_test
from tests.e2e.cluster.release import Release
from tests.e2e.cluster.table import Burst, Watch

pytestmark = [pytest.mark.cluster, long_test, pytest.mark.timeout(900)]

SECOND = Release("busy")
_LEVEL_S = 240.0


def test_a_second_release_is_ready_although_the_node_is_busy(
    watch: Watch, times: dict[str, float]
) -> None:
    """Its pods ask for a tenth of a processor each, and get no more than their share."""
    SECOND.clear()
    burst = Burst(seed=29, count=720_000, rate=4_000)
    time.sleep(10)
    began = time.monotonic()
    try:
        SECOND.install({}, {"executor": {"replicas": 1, "volume": {"size": "1Gi"}}})
        times["a second release on a busy node, until it is ready"] = time.monotonic() - began
        SECOND.produce(seed=30, count=2_000)
        SECOND.counted(2_000)
        assert watch.seen[-1].status["lag"] > 0, "the node was not busy"
        burst.finish()
        watch.until_level(_LEVEL_S)
    finally:
        SECOND.clear()
    table.exact(least=burst.count)
