"""A broker ends a transaction in every partition a moment after the commit has returned."""

from __future__ import annotations

import time

from holdfast.transport.cluster.admin import Admin

_WAIT_S = 20.0


def await_settled(admin: Admin, topic: str) -> dict[int, tuple[int, int]]:
    """Wait until no transaction is open in the topic; its bounds then."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        high = admin.high_watermarks(topic)
        bounds = admin.bounds(topic)
        if all(end >= high[p] for p, (_, end) in bounds.items()):
            return bounds
        assert time.monotonic() < deadline, f"transactions stay open in {topic}: {bounds}, {high}"
        time.sleep(0.02)
