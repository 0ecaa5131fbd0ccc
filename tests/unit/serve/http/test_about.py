"""`/healthcheck` tells whether Kafka has been heard of lately."""

from __future__ import annotations

import time

import pytest

from holdfast.serve.contract import PartitionState
from holdfast.serve.http.ksql.about import _kafka


def _state(age_s: float, *, restoring: bool = False, error: str | None = None) -> PartitionState:
    checked_ms = int((time.time() - age_s) * 1000)
    return PartitionState(0, 5, 5, restoring=restoring, checked_ms=checked_ms, error=error)


@pytest.mark.parametrize(("states", "healthy"), [
    ([], True),
    ([_state(2), _state(0)], True),
    ([_state(2), _state(60)], False),
    ([_state(2), _state(60, restoring=True)], True),
    ([_state(2, error="TopicMissing")], False),
])  # fmt: skip
def test_a_silent_broker_is_not_healthy(states: list[PartitionState], healthy: bool) -> None:
    told = _kafka(states)
    assert told["isHealthy"] is healthy
    silent = not healthy and not any(state.error for state in states)
    assert ("lastSeenMs" in told) is silent
