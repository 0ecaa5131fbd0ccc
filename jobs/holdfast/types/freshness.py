"""Whether Kafka has been heard from lately: how far a store is behind is known only up to then."""

from __future__ import annotations

import time
from collections.abc import Iterable

__all__ = ["SILENT_S", "heard_ms", "silent_s"]

SILENT_S = 15.0  # servers ask for the ends of changelogs every two seconds


def heard_ms(checked_ms: Iterable[int]) -> int | None:
    """When Kafka was last heard from about all of these stores, wall clock.

    Args:
        checked_ms: when each store's changelog end was last confirmed; 0 counts as unknown.

    Returns:
        None if nothing is known of any store.
    """
    return min((at for at in checked_ms if at), default=None)


def silent_s(heard: int | None) -> float:
    """Seconds since `heard_ms`; 0 while that is recent, or if nothing is known."""
    age_s = 0.0 if heard is None else time.time() - heard / 1000
    return age_s if age_s >= SILENT_S else 0.0
