"""Whether Kafka has been heard from lately: how far a store is behind is known only up to then."""

from __future__ import annotations

import time
from collections.abc import Iterable

__all__ = ["SILENT_S", "age_s", "heard_ms", "silent_s"]

SILENT_S = 15.0  # servers ask for the ends of changelogs every two seconds


def heard_ms(checked_ms: Iterable[int]) -> int | None:
    """When Kafka was last heard from about all of these stores, wall clock.

    Args:
        checked_ms: when each store's changelog end was last confirmed; 0 counts as unknown.

    Returns:
        None if nothing is known of any store.
    """
    return min((at for at in checked_ms if at), default=None)


def age_s(heard: int | None) -> float:
    """Seconds since `heard_ms`; 0 if nothing is known."""
    return 0.0 if heard is None else max(0.0, time.time() - heard / 1000)


def silent_s(heard: int | None) -> float:
    """Seconds since `heard_ms`; 0 while that is recent, or if nothing is known."""
    age = age_s(heard)
    return age if age >= SILENT_S else 0.0
