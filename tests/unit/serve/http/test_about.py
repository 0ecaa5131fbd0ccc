"""`/healthcheck` tells whether Kafka has been heard of lately."""

from __future__ import annotations

import time

import pytest

from holdfast.serve.contract import PartitionState
from holdfast.serve.http.ksql.about import _kafka


def _state(age_s: float, *, restoring: bool = False, error: str | None = None) -> PartitionState:
    checked_ms = int((time.time() - age_s) * 1000)
    return PartitionState(0, 5, 5, restoring=restoring, checked_ms=checked_ms, error=error)


@pytest.mark.parametrize(("stores", "healthy"), [
    ([], True),
    ([(2, False, None), (0, False, None)], True),
    ([(2, False, None), (60, False, None)], False),
    ([(2, False, None), (60, True, None)], True),
    ([(2, False, "TopicMissing")], False),
])  # fmt: skip
def test_a_silent_broker_is_not_healthy(
    stores: list[tuple[float, bool, str | None]], healthy: bool
) -> None:
    states = [_state(age_s, restoring=again, error=error) for age_s, again, error in stores]
    told = _kafka(states)
    assert told["isHealthy"] is healthy
    silent = not healthy and not any(state.error for state in states)
    assert ("lastSeenMs" in told) is silent
